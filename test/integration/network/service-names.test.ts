import { expect, test } from "vitest";
import { DestinationRefused } from "../../../src/network/destination-refused.ts";
import { parseDestinationRules } from "../../../src/network/destination-rules.ts";
import { createGuardedDial } from "../../../src/network/guarded-dial.ts";

/** A private address at which nobody answers, as TEST-NET is for the internet. */
const SERVICE_ADDRESS = "10.96.0.9";

const table = [
  { host: "web.team-a.svc", asked: "web.team-a.svc.cluster.local", own: true },
  { host: "web.team-a.svc.", asked: "web.team-a.svc.cluster.local", own: true },
  { host: "Web.Team-A.SVC", asked: "Web.Team-A.SVC.cluster.local", own: true },
  { host: "pod-0.web.team-a.svc", asked: "pod-0.web.team-a.svc.cluster.local", own: true },
  { host: "web.team-a.svc.cluster.local", asked: "web.team-a.svc.cluster.local", own: true },
  { host: "web.team-b.svc", asked: "web.team-b.svc.cluster.local", own: false },
  { host: "web.team-a", asked: "web.team-a", own: false },
  { host: "team-a.svc", asked: "team-a.svc", own: false },
  { host: "web.team-a.svc.example.com", asked: "web.team-a.svc.example.com", own: false },
  { host: "web.team-a.svc", domain: "k8s.example", asked: "web.team-a.svc.k8s.example", own: true },
  {
    host: "web.team-a.svc.cluster.local",
    domain: "k8s.example",
    asked: "web.team-a.svc.cluster.local",
    own: false,
  },
];
test.each(table)("$host in $domain: asks for $asked, own: $own", async (row) => {
  const asked: string[] = [];
  const dial = createGuardedDial({
    rules: parseDestinationRules(""),
    accountRules: async () => parseDestinationRules(""),
    lookup: async (host) => {
      asked.push(host);
      return { addresses: [SERVICE_ADDRESS] };
    },
    clusterNamespace: async () => "team-a",
    clusterDomain: row.domain,
    timeoutMs: 200,
  });
  const request = { account: "a", protocol: "webhook" as const, host: row.host, port: 80 };
  const error: unknown = await dial(request).catch((reason: unknown) => reason);
  expect(asked).toEqual([row.asked]);
  // The account's own services may be called, although nobody answers there.
  expect(error instanceof DestinationRefused).toBe(!row.own);
});
