import { destinationKey, keyOfParts } from "./destination.ts";
import type { Job } from "./job.ts";
import type { Circuit, CircuitState } from "./ports/circuits.ts";

/** `destinationKey` of the job. Null without an account. */
export function circuitKey({ account, spec }: Pick<Job, "account" | "spec">): string | null {
  return account === null ? null : destinationKey(account, spec.target);
}

/**
 * The state of each destination, the worst of what the delivering processes published: one that calls
 * nobody matters to whoever wonders why a run waits.
 */
export function circuitStates(
  published: readonly Pick<Circuit, "account" | "destination" | "state">[],
): Map<string, CircuitState> {
  const states = new Map<string, CircuitState>();
  for (const circuit of published) {
    const key = keyOfParts(circuit);
    if (states.get(key) !== "open") states.set(key, circuit.state);
  }
  return states;
}

/** What is not published is closed. */
export function circuitOf(
  job: Pick<Job, "account" | "spec">,
  published: readonly Pick<Circuit, "account" | "destination" | "state">[],
): CircuitState {
  const key = circuitKey(job);
  return (key === null ? undefined : circuitStates(published).get(key)) ?? "closed";
}
