import { destinationKey, keyOfParts } from "./destination.ts";
import type { JobOutline } from "./job-outline.ts";
import type { Circuit, CircuitState } from "./ports/circuits.ts";

type Addressed = Pick<JobOutline, "account"> & { spec: Pick<JobOutline["spec"], "target"> };

/** `destinationKey` of the job. Null without an account. */
export function circuitKey({ account, spec }: Addressed): string | null {
  return account === null ? null : destinationKey(account, spec.target);
}

/**
 * The state of each destination: the worst of those that the delivering processes published, because one open
 * circuit is enough to make a run wait.
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

/** The state of the job's destination; closed when none is published. */
export function circuitOf(
  job: Addressed,
  published: readonly Pick<Circuit, "account" | "destination" | "state">[],
): CircuitState {
  const key = circuitKey(job);
  return (key === null ? undefined : circuitStates(published).get(key)) ?? "closed";
}
