import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { jobCreate } from "../../../src/domain/schema/rest-job.ts";
import { specFromRest } from "../../../src/domain/rest-job.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { ApiError as Refused } from "../../../src/gateway/errors.ts";
import { validator } from "../../../src/gateway/validate.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import {
  specFromResource,
  specToResource,
  type ScheduledJobSpec,
} from "../../../src/kubernetes/scheduled-job.ts";
import { connect, createNamespace, installCrd, tryCreate } from "../../kubernetes/cluster.ts";

const kubeconfig = inject("kubeconfig");

/** Characters about which parsers, validators and regular expressions are known to disagree. */
const ODD = fc.constantFrom(
  ...Array.from(
    " \t\u007f\u0085\u00a0\u00ad\u200b\u2028\ufeff\uffff😀é'\"\\%<>^|`{}[]@#?/:;,~_-.ſK",
  ),
);
const joined = (...parts: fc.Arbitrary<string>[]) =>
  fc.tuple(...parts).map((texts) => texts.join(""));
const of = (...texts: string[]) => fc.constantFrom(...texts);

const url = joined(
  of("http", "https", "HTTPS", "ftp", ""),
  of("://", "://", "://", ":", ":///", "://\\"),
  of("", "", "", "@", "u@", "u:p@", ":@"),
  fc.oneof(
    of("example.com", "[::1]", "[", "127.1", "0x7f.1", "256", "a..b", "", "a%20b", "☃.net", "。"),
    joined(of("a", "x-"), ODD, of("b", ".com", "")),
  ),
  of("", "", ":80", ":65536", ":", ":8a"),
  fc.oneof(of("", "/hook", "\\x@y", "/x@y", "?q@x", ":@"), joined(of("/a"), ODD, of("b"))),
);
const field = of("*", "*/2", "1", "1-5", "5-1", ",1", "01", "60", "MON", "jan", "L", "?", "", "31");
const cron = fc.oneof(
  joined(field, of(" "), field, of(" ", "  "), field, of(" ", "\t"), field, of(" "), field),
  of("@daily", "@Daily", "@reboot", "0 0 3 * * *", "TZ=UTC 0 3 * * *", "0 0 30 2 *", "0 3 * * *\n"),
);
const zone = fc.oneof(
  of("UTC", "utc", "Europe/Paris", "Local", "Etc/GMT+5", "+01:00", "EST5EDT", "Mars/Base", "Z", ""),
  joined(of("Europe/Paris"), ODD),
);
const header = fc.oneof(
  of(
    "X-A",
    "X-A's",
    "Host",
    "TE",
    "webhook",
    "Webhook-",
    "Sec-A",
    "X-It's",
    "a b",
    "",
    "x".repeat(129),
  ),
  joined(of("X", ""), ODD),
);
const value = fc.oneof(
  of("", "a", " a", "a b", "x".repeat(999)),
  joined(of("a"), ODD, of("", "b")),
);
const headers = fc
  .array(fc.tuple(header, value), { maxLength: 2 })
  .map((entries) => Object.fromEntries(entries));
const address = fc.oneof(
  of("a@b.c", "a@b", "a..b@c.d", "a@127.1", "a@[1.2.3.4]", "A <a@c.d>", "a@c.d,b@c.d", "a@c.d."),
  joined(of("a", ""), ODD, of("b@c.de", "@c.de")),
  joined(of("a@c", "a@"), ODD, of("x.de", ".de", "")),
);
const line = fc.oneof(
  joined(of("a", ""), ODD, of("", "b")),
  fc.tuple(of("a", "😀"), fc.constantFrom(255, 256)).map(([text, times]) => text.repeat(times)),
);
const seconds = fc.constantFrom(0, 1, 5, 86_400, 86_401, 604_800, 604_801, 1.5);

/** Bodies of `POST /jobs`, each with one odd field. */
const WEBHOOK = { type: "webhook", webhook_url: "https://example.com/hook" };
const CRON = { schedule_type: "cron", cron_expression: "0 3 * * *" };
const good = { name: "Nightly", ...WEBHOOK, ...CRON };
const email = {
  name: "Nightly",
  type: "email",
  email_to: "ada@example.com",
  email_subject: "S",
  email_body: "B",
  ...CRON,
};
const BODIES: Record<string, fc.Arbitrary<Record<string, unknown>>> = {
  url: url.map((webhook_url) => ({ ...good, webhook_url })),
  headers: headers.map((webhook_headers) => ({ ...good, webhook_headers })),
  address: address.map((email_to) => ({ ...email, email_to })),
  subject: line.map((email_subject) => ({ ...email, email_subject })),
  name: line.map((name) => ({ ...good, name })),
  cron: cron.map((cron_expression) => ({ ...good, cron_expression })),
  zone: zone.map((timezone) => ({ ...good, timezone })),
  limits: fc
    .record({
      min_backoff_seconds: seconds,
      max_backoff_seconds: seconds,
      delivery_deadline_seconds: seconds,
    })
    .map((limits) => ({ ...good, ...limits })),
};

describe.runIf(kubeconfig !== "")("REST and the resource judge a job alike", () => {
  const check = validator(jobCreate);
  const now = Date.now();
  let client: ReturnType<typeof connect>;
  let namespace: string;

  beforeAll(async () => {
    client = connect(kubeconfig, { connections: 8 });
    await installCrd(client);
    namespace = (await createNamespace(client, "alike")).name;
  });
  afterAll(async () => {
    await client?.close();
  });

  function byRest(body: Record<string, unknown>) {
    try {
      const result = specFromRest({ fields: check(body), payloadText: undefined, now });
      return result.ok ? result.spec : undefined;
    } catch (error) {
      if (error instanceof Refused) return undefined;
      throw error;
    }
  }

  /** What the API server would store; undefined if it refuses. */
  async function stored(spec: object): Promise<ScheduledJobSpec | undefined> {
    try {
      return (await tryCreate(client, namespace, { spec })).spec;
    } catch (error) {
      if (error instanceof ApiError && (error.code === 422 || error.code === 400)) return undefined;
      throw error;
    }
  }

  async function judge(body: Record<string, unknown>): Promise<string | undefined> {
    const spec = byRest(body);
    const kept = await stored(spec ? specToResource(spec) : asApplied(body));
    const sound = kept && timingOf(specFromResource(kept, "alike")).compiled.ok;
    if (spec && !sound)
      return `REST takes it, and ${kept ? "the controller" : "the API server"} does not`;
    return !spec && sound ? "REST refuses it, and the controller takes it" : undefined;
  }

  test.each(Object.keys(BODIES))("%s", async (name) => {
    const samples = fc.sample(BODIES[name] ?? fc.constant(good), {
      numRuns: 120,
      seed: 20_261_122,
    });
    const bodies = [...new Map(samples.map((body) => [JSON.stringify(body), body])).values()];
    const different: unknown[] = [];
    await Promise.all(
      bodies.map(async (body) => {
        const problem = await judge(body);
        if (problem !== undefined) different.push({ problem, body });
      }),
    );
    expect(different).toEqual([]);
    expect(bodies.some((body) => byRest(body) !== undefined)).toBe(true);
    expect(bodies.some((body) => byRest(body) === undefined)).toBe(true);
  });
});

/** The manifest that a user would write for this body. */
function asApplied(body: Record<string, unknown>): object {
  const of = (fields: Record<string, string>) =>
    Object.fromEntries(
      Object.entries(fields)
        .filter(([, name]) => body[name] !== undefined)
        .map(([field, name]) => [field, body[name]]),
    );
  return {
    ...of({ displayName: "name", deliveryDeadlineSeconds: "delivery_deadline_seconds" }),
    schedule: of({ cron: "cron_expression", timeZone: "timezone" }),
    retry: of({
      minBackoffSeconds: "min_backoff_seconds",
      maxBackoffSeconds: "max_backoff_seconds",
    }),
    ...(body["type"] === "webhook"
      ? { webhook: of({ url: "webhook_url", headers: "webhook_headers" }) }
      : { email: of({ to: "email_to", subject: "email_subject", body: "email_body" }) }),
  };
}
