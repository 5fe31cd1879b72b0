import { createWebhookSender } from "../src/delivery/webhook.ts";
import type { Clock } from "../src/domain/ports/clock.ts";
import { parseDestinationRules } from "../src/network/destination-rules.ts";
import { createGuardedDial } from "../src/network/guarded-dial.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { monotonic } from "../cmd/system.ts";

/** Signs all deliveries of a benchmark. */
export const SIGNING_SECRET = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;

/** The program's webhook client, with its guard, which allows receivers on this machine here. */
export function createLocalWebhook({ clock }: { clock: Clock }) {
  const metrics = createMetrics({ version: "bench", nodeMetrics: false });
  const rules = parseDestinationRules("127.0.0.0/8");
  const dial = createGuardedDial({ rules, accountRules: async () => parseDestinationRules("") });
  return {
    metrics,
    webhook: createWebhookSender({ dial, clock, monotonic, metrics, version: "bench" }),
  };
}
