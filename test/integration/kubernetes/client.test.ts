import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { afterEach, beforeAll, describe, expect, inject, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { createKubernetesClient } from "../../../src/kubernetes/client.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { connect } from "../../kubernetes/cluster.ts";
import { anotherControlPlane } from "../../kubernetes/control-plane.ts";
import { startHttpProxy } from "../../kubernetes/http-proxy.ts";
import type { OwnControlPlane } from "../../kubernetes/own-control-plane.ts";
import { realTime } from "../../kubernetes/real-time.ts";
import { addressOf, startTcpProxy } from "../../network/tcp-proxy.ts";
import { until } from "../../until.ts";

const LIST = { verb: "list", resource: "namespaces", path: "/api/v1/namespaces" } as const;

function newNamespace(name: string) {
  return {
    verb: "create",
    resource: "namespaces",
    path: "/api/v1/namespaces",
    body: { apiVersion: "v1", kind: "Namespace", metadata: { name } },
  } as const;
}

describe.runIf(inject("tokenSecret") !== "")("the client", () => {
  let controlPlane: OwnControlPlane;
  const closing: (() => unknown)[] = [];

  beforeAll(async () => {
    controlPlane = await anotherControlPlane();
    return () => controlPlane.stop();
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  function client(options: Parameters<typeof connect>[1] = {}) {
    const made = connect(controlPlane.kubeconfig, options);
    closing.push(() => made.close());
    return made;
  }

  test("500 calls share a few connections", async () => {
    const proxy = await startTcpProxy({ target: () => addressOf(controlPlane.server) });
    closing.push(() => proxy.close());
    const made = client({ server: `https://127.0.0.1:${proxy.port}`, connections: 8 });
    for (let i = 0; i < 20; i += 1)
      await Promise.all(Array.from({ length: 25 }, () => made.call(LIST)));
    expect(proxy.accepted).toBeLessThanOrEqual(8);
  });

  test("calls find connections however many watches there are", async () => {
    const made = client({ connections: 2 });
    const ending = new AbortController();
    closing.push(() => ending.abort());
    const watch = { resource: "namespaces", path: LIST.path, query: { watch: "true" } };
    for (let i = 0; i < 3; i += 1) {
      const body = await made.watch({ ...watch, signal: ending.signal, inactivityMs: 60_000 });
      body.on("error", () => undefined).resume();
    }
    await expect(made.call({ ...LIST, timeoutMs: 5_000 })).resolves.toBeDefined();
  });

  test("429 with Retry-After is waited for, also for a POST, and then succeeds", async () => {
    const proxy = await startHttpProxy({ server: controlPlane.server, ca: controlPlane.ca() });
    closing.push(() => proxy.close());
    let refused = 0;
    proxy.decide(() => {
      refused += 1;
      return refused <= 2 ? { status: 429, headers: { "retry-after": "1" } } : undefined;
    });
    await client({ server: proxy.url }).call(newNamespace("retried"));
    const [first, second, third] = proxy.seen;
    expect(proxy.seen).toHaveLength(3);
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThan(950);
    expect((third?.at ?? 0) - (second?.at ?? 0)).toBeGreaterThan(950);
  });

  test("a POST that met a 500 is not sent again: its outcome is unknown", async () => {
    const proxy = await startHttpProxy({ server: controlPlane.server, ca: controlPlane.ca() });
    closing.push(() => proxy.close());
    proxy.decide(() => ({ status: 500 }));
    const made = client({ server: proxy.url });
    await expect(made.call(newNamespace("once"))).rejects.toThrow(DependencyUnavailable);
    expect(proxy.seen).toHaveLength(1);
    // A GET is sent again, until the caller gives up.
    const leaving = new AbortController();
    const asked = made.call({ ...LIST, signal: leaving.signal });
    asked.catch(() => undefined);
    await until("a second GET", () => proxy.seen.length > 2);
    leaving.abort(new Error("the caller left"));
    await expect(asked).rejects.toThrow("the caller left");
  });

  test("a refusal is an ApiError with the server's words", async () => {
    const made = client();
    const missing = { ...LIST, verb: "get", path: "/api/v1/namespaces/nowhere" } as const;
    await expect(made.call(missing)).rejects.toMatchObject({ code: 404, reason: "NotFound" });
    await expect(made.call(newNamespace("Not_A_Name"))).rejects.toBeInstanceOf(ApiError);
  });

  test("nobody answers: unavailable when the time is over, aborted when the caller is", async () => {
    const proxy = await startTcpProxy({ target: () => addressOf(controlPlane.server) });
    closing.push(() => proxy.close());
    const made = client({ server: `https://127.0.0.1:${proxy.port}` });
    await made.call(LIST);
    proxy.hang();
    await expect(made.call({ ...LIST, timeoutMs: 500 })).rejects.toThrow(DependencyUnavailable);
    // A call that waits behind another, which holds the only connection.
    const narrow = client({ server: `https://127.0.0.1:${proxy.port}`, connections: 1 });
    const leaving = new AbortController();
    const ahead = narrow.call({ ...LIST, signal: leaving.signal });
    ahead.catch(() => undefined);
    const began = performance.now();
    await expect(narrow.call({ ...LIST, timeoutMs: 500 })).rejects.toThrow(DependencyUnavailable);
    // By undici's own limits it would take 20 s and more.
    expect(performance.now() - began).toBeLessThan(10_000);
    const reason = new Error("the caller left");
    const called = made.call({ ...LIST, signal: leaving.signal });
    leaving.abort(reason);
    await expect(called).rejects.toBe(reason);
    await expect(ahead).rejects.toBe(reason);
  });

  test("a new CA and a new token are taken from their files", async () => {
    const folder = await mkdtemp(join(tmpdir(), "carillon-credentials-"));
    closing.push(() => rm(folder, { recursive: true }));
    const caFile = join(folder, "ca.crt");
    const tokenFile = join(folder, "token");
    await writeFile(caFile, controlPlane.ca());
    await writeFile(tokenFile, controlPlane.tokenFor("pod", ["system:masters"]));
    const kubeConfig = new KubeConfig();
    // As in a pod, where both are files that the kubelet replaces.
    kubeConfig.loadFromClusterAndUser(
      { name: "inCluster", server: controlPlane.server, caFile, skipTLSVerify: false },
      { name: "pod", authProvider: { name: "tokenFile", config: { tokenFile } } },
    );
    const metrics = createMetrics({ version: "test", nodeMetrics: false });
    const made = createKubernetesClient({ kubeConfig, metrics, userAgent: "test", ...realTime });
    closing.push(() => made.close());
    await made.call(LIST);
    await controlPlane.restart({ newCertificate: true });
    await expect(made.call({ ...LIST, timeoutMs: 1_000 })).rejects.toThrow(DependencyUnavailable);
    await writeFile(caFile, controlPlane.ca());
    await made.call(newNamespace("after-rotation"));
    expect(await readFile(caFile, "utf8")).toBe(controlPlane.ca());
  });
});
