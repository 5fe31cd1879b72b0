import { monotonic } from "../../../cmd/system.ts";
import { createWebhookSender } from "../../../src/delivery/webhook.ts";
import type { SecretHeaders } from "../../../src/domain/ports/secret-headers.ts";
import { parseDestinationRules } from "../../../src/network/destination-rules.ts";
import { createGuardedDial } from "../../../src/network/guarded-dial.ts";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.ts";

/** A sender that may call loopback addresses and nothing else. */
export function loopbackSender(
  change: {
    dial?: Partial<Parameters<typeof createGuardedDial>[0]>;
    secretHeaders?: SecretHeaders;
    metrics?: Metrics;
  } = {},
) {
  const { dial, ...rest } = change;
  return createWebhookSender({
    dial: createGuardedDial({
      rules: parseDestinationRules("127.0.0.0/8"),
      accountRules: async () => parseDestinationRules(""),
      ...dial,
    }),
    clock: { now: () => Date.now(), known: true },
    monotonic,
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    version: "1",
    ...rest,
  });
}
