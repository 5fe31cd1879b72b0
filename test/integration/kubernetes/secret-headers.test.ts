import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { SecretHeader } from "../../../src/domain/job.ts";
import type { ApiCall } from "../../../src/kubernetes/client.ts";
import { namespaceUid } from "../../../src/kubernetes/namespace-uid.ts";
import { createSecretHeaders } from "../../../src/kubernetes/secret-headers.ts";
import { connect, createNamespace } from "../../kubernetes/cluster.ts";
import { realTime } from "../../kubernetes/real-time.ts";
import { createTokenSigner } from "../../kubernetes/token-webhook.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { claimedRun } from "../delivery/claimed-run.ts";

const kubeconfig = inject("kubeconfig");
const RELEASED = { "carillon.dev/webhook-headers": "true" };

describe.runIf(kubeconfig !== "")("headersFrom", () => {
  let client: ReturnType<typeof connect>;
  let resolve: ReturnType<typeof createSecretHeaders>;
  let account: string;
  let namespace: string;
  const accountNamespaces = namespaceAccounts([]);
  const headersBy = (given: Partial<Parameters<typeof createSecretHeaders>[0]>) =>
    createSecretHeaders({
      client,
      accountNamespaces,
      namespaces: [namespace],
      ...realTime,
      ...given,
    });

  beforeAll(async () => {
    client = connect(kubeconfig);
    namespace = (await createNamespace(client, "secrets")).name;
    account = accountNamespaces.bind(namespace);
    resolve = headersBy({});
    const secrets = [
      {
        name: "token",
        labels: RELEASED,
        stringData: {
          value: "Bearer abc\n",
          bad: "a\r\nHost: b",
          padded: "abc \n",
          open: "abc\n\n",
          // A computed name is a member; written plainly, it would be the object's prototype.
          ["__proto__"]: "by that key",
        },
      },
      { name: "private", labels: {}, stringData: { value: "never" } },
      {
        name: "withheld",
        labels: { "carillon.dev/webhook-headers": "false" },
        stringData: { value: "never" },
      },
    ];
    for (const { name, labels, stringData } of secrets)
      await client.call({
        verb: "create",
        resource: "secrets",
        path: `/api/v1/namespaces/${namespace}/secrets`,
        body: { apiVersion: "v1", kind: "Secret", metadata: { name, labels }, stringData },
      });
  });
  afterAll(async () => {
    await client?.close();
  });

  const run = (from: SecretHeader | SecretHeader[], of = account) =>
    claimedRun({ headersFrom: [from].flat() }, { account: of });

  test("a released Secret's value, without the line break at its end", async () => {
    const from = { header: "Authorization", secretName: "token", secretKey: "value" };
    expect(await resolve(run(from))).toEqual({
      kind: "resolved",
      headers: { Authorization: "Bearer abc" },
    });
  });

  test("a header and a key of any name, also of one that means something to JavaScript", async () => {
    const answer = await resolve(
      run([
        { header: "__proto__", secretName: "token", secretKey: "value" },
        { header: "constructor", secretName: "token", secretKey: "__proto__" },
      ]),
    );
    expect(answer.kind === "resolved" && Object.entries(answer.headers)).toEqual([
      ["__proto__", "Bearer abc"],
      ["constructor", "by that key"],
    ]);
  });

  test("each header its own, and each time as it is now", async () => {
    const both = run([
      { header: "Authorization", secretName: "token", secretKey: "value" },
      { header: "X-Token", secretName: "rotated", secretKey: "value" },
    ]);
    for (const value of ["before", "after"]) {
      const body = {
        apiVersion: "v1",
        kind: "Secret",
        metadata: { name: "rotated", labels: RELEASED },
      };
      await client.call({
        verb: "apply",
        resource: "secrets",
        path: `/api/v1/namespaces/${namespace}/secrets/rotated`,
        query: { fieldManager: "test" },
        body: { ...body, stringData: { value } },
      });
      expect(await resolve(both)).toEqual({
        kind: "resolved",
        headers: { Authorization: "Bearer abc", "X-Token": value },
      });
    }
  });

  test("one Secret's values belong together, also while it is rotated", async () => {
    let rotations = 0;
    const rotate = () =>
      client.call({
        verb: "apply",
        resource: "secrets",
        path: `/api/v1/namespaces/${namespace}/secrets/pair`,
        query: { fieldManager: "test" },
        body: {
          apiVersion: "v1",
          kind: "Secret",
          metadata: { name: "pair", labels: RELEASED },
          stringData: { user: `ada${rotations}`, password: `secret${rotations}` },
        },
      });
    await rotate();
    // The Secret is rotated after each read.
    const rotated: Pick<typeof client, "call"> = {
      async call<T>(call: ApiCall) {
        const answer = await client.call<T>(call);
        rotations += 1;
        await rotate();
        return answer;
      },
    };
    const both = run([
      { header: "X-User", secretName: "pair", secretKey: "user" },
      { header: "X-Password", secretName: "pair", secretKey: "password" },
    ]);
    expect(await headersBy({ client: { ...client, ...rotated } })(both)).toEqual({
      kind: "resolved",
      headers: { "X-User": "ada0", "X-Password": "secret0" },
    });
  });

  const REFUSED = [
    { title: "not released", secretName: "private", secretKey: "value", error: "label" },
    { title: "withheld", secretName: "withheld", secretKey: "value", error: "label" },
    { title: "not there", secretName: "nothing", secretKey: "value", error: "label" },
    { title: "no name at all", secretName: "to%6ben", secretKey: "value", error: "label" },
    { title: "without the key", secretName: "token", secretKey: "other", error: "no key other" },
    {
      title: "without a key of that name",
      secretName: "token",
      secretKey: "constructor",
      error: "no key constructor",
    },
    { title: "a space at its end", secretName: "token", secretKey: "padded", error: "spaces" },
    { title: "two line breaks", secretName: "token", secretKey: "open", error: "printable" },
    { title: "a second header in it", secretName: "token", secretKey: "bad", error: "printable" },
  ];
  test.each(REFUSED)("$title: says so", async ({ secretName, secretKey, error }) => {
    const answer = await resolve(run({ header: "Authorization", secretName, secretKey }));
    expect(answer).toMatchObject({ kind: "unavailable", error: expect.stringContaining(error) });
    expect(JSON.stringify(answer)).not.toContain("never");
  });

  test.each([
    { server: "that is away", options: { server: "https://127.0.0.1:1" } },
    { server: "that refuses our credentials", options: { token: "of-a-removed-service-account" } },
  ])("an API server $server says nothing about a Secret: no attempt", async ({ options }) => {
    const away = connect(kubeconfig, options);
    const from = { header: "Authorization", secretName: "token", secretKey: "value" };
    // Neither is there about the account's namespace.
    const lost = { namespaceOf: () => namespaceUid(away, namespace) };
    const ways = [headersBy({ client: away }), headersBy({ accountNamespaces: lost })];
    await Promise.all(
      ways.map((resolveWith) =>
        expect(resolveWith(run(from))).rejects.toThrow(DependencyUnavailable),
      ),
    );
    await away.close();
  });

  test("an account without namespace has no Secrets", async () => {
    const from = { header: "Authorization", secretName: "token", secretKey: "value" };
    expect(await resolve(run(from, "stranger"))).toEqual({
      kind: "unavailable",
      error: "the account is bound to no namespace",
    });
  });

  const UNLISTED = {
    kind: "unavailable",
    error: expect.stringContaining("an operator can allow it with headerSecretNamespaces"),
  };

  test("only in the namespaces that the operator lists", async () => {
    const from = { header: "Authorization", secretName: "token", secretKey: "value" };
    const listed = (namespaces: string[]) => headersBy({ namespaces })(run(from));
    expect(await listed([namespace])).toMatchObject({ kind: "resolved" });
    expect(await listed(["another"])).toEqual(UNLISTED);
    expect(await listed([])).toEqual(UNLISTED);
  });

  test.runIf(inject("tokenSecret") !== "")("where RBAC forbids it: says so", async () => {
    const { tokenFor } = createTokenSigner(inject("tokenSecret"));
    const stranger = connect(kubeconfig, { token: tokenFor("stranger") });
    const from = { header: "Authorization", secretName: "token", secretKey: "value" };
    const answer = await headersBy({ client: stranger })(run(from));
    expect(answer).toEqual({
      ...UNLISTED,
      error: expect.stringContaining("header Authorization: this installation may not read"),
    });
    // Pasted into a path, this name would lead elsewhere.
    const elsewhere = { ...from, secretName: "../../other/secrets/token" };
    expect(await headersBy({ client: stranger })(run(elsewhere))).toMatchObject({
      error: expect.stringContaining("no Secret ../../other/secrets/token"),
    });
    await stranger.close();
  });
});
