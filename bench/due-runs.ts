import { randomUUID } from "node:crypto";
import { isoUtc } from "../src/domain/instant.ts";
import type { LedgerChange, RunLedger } from "../src/domain/ports/run-ledger.ts";
import { SPEC_DEFAULTS, type JobSpec } from "../src/domain/job.ts";

const BATCH = 2_000;

/** Creates one due run for each of `count` one-time jobs of one account, as the scheduler would. */
export async function dueRuns(options: {
  ledger: RunLedger;
  count: number;
  /** Used in turn. */
  urls: readonly string[];
  now: number;
}): Promise<void> {
  const { ledger, count, urls, now } = options;
  const account = randomUUID();
  for (let made = 0; made < count; made += BATCH)
    await ledger.apply(
      Array.from({ length: Math.min(BATCH, count - made) }, (_, index) =>
        change(account, urls[index % urls.length] ?? "", now),
      ),
    );
}

/** A one-time webhook. */
export function specOf({ url, payload, at }: { url: string; payload: string; at: number }) {
  return {
    name: "bench",
    schedule: { kind: "once", at },
    target: {
      kind: "webhook",
      url,
      payload,
      headers: {},
      headersFrom: [],
      timeoutSeconds: SPEC_DEFAULTS.timeoutSeconds,
    },
    suspend: false,
    startingDeadlineSeconds: null,
    deliveryDeadlineSeconds: SPEC_DEFAULTS.deliveryDeadlineSeconds,
    concurrencyPolicy: SPEC_DEFAULTS.concurrencyPolicy,
    retry: {
      maxRetries: SPEC_DEFAULTS.maxRetries,
      minBackoffSeconds: SPEC_DEFAULTS.minBackoffSeconds,
      maxBackoffSeconds: SPEC_DEFAULTS.maxBackoffSeconds,
    },
  } satisfies JobSpec;
}

function change(account: string, url: string, now: number): LedgerChange {
  const uid = randomUUID();
  const spec = specOf({ url, payload: '{"hello":"world"}', at: now });
  return {
    job: {
      uid,
      account,
      id: `job-${uid}`,
      generation: 1,
      createdAt: now,
      spec,
      runNow: null,
    },
    spec,
    from: undefined,
    to: {
      account,
      position: now,
      scheduleHash: "bench",
      generation: 1,
      revision: null,
      startable: true,
      once: "fired",
      haltedGeneration: null,
      haltedAt: null,
      lastRunNow: null,
      deleted: false,
    },
    create: [{ trigger: "schedule", key: isoUtc(now), scheduledAt: now }],
    replace: [],
    missed: [],
  };
}
