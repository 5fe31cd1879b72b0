/** Who sets the gateway's number of replicas: helm until the autoscaler sets one, then the autoscaler. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { KubernetesClient } from "../../src/kubernetes/client.ts";
import { connect, createNamespace, installCrd } from "../kubernetes/cluster.ts";
import { CHART, helm, kubectl, toSet } from "./chart.ts";

const kubeconfig = inject("kubeconfig");
const scaled = (change: object = {}) => ({ autoscaling: { enabled: true, ...change } });

describe.runIf(kubeconfig !== "")("autoscaling", () => {
  let client: KubernetesClient;
  const namespaces: string[] = [];

  beforeAll(async () => {
    client = connect(kubeconfig);
    await installCrd(client);
  });
  afterAll(async () => {
    await kubectl(kubeconfig, ["delete", "namespace", ...namespaces, "--wait=false"]);
    await client.close();
  });

  async function startRelease(options: { serverSide: boolean; gateway: object }) {
    const { name: namespace } = await createNamespace(client, "scaled");
    namespaces.push(namespace);
    const release = `carillon-${randomBytes(3).toString("hex")}`;
    const deployment = `deployment/${release}-gateway`;
    const kube = (...args: string[]) => kubectl(kubeconfig, ["-n", namespace, ...args]);
    const chart = async (command: string, gateway: object, ...more: string[]) => {
      const values = { postgresql: { enabled: true }, crds: { enabled: false }, gateway };
      const args = [command, release, CHART, "-n", namespace, ...toSet(values), ...more];
      await helm(args, kubeconfig);
    };
    await chart("install", options.gateway, `--server-side=${options.serverSide}`);
    return {
      upgrade: (gateway: object) => chart("upgrade", gateway),
      rollback: () => helm(["rollback", release, "-n", namespace], kubeconfig),
      /** Like the autoscaler, by the scale subresource. */
      scale: (count: number) => kube("scale", deployment, `--replicas=${count}`),
      count: async () => Number(await kube("get", deployment, "-o", "jsonpath={.spec.replicas}")),
      uninstall: () => helm(["uninstall", release, "-n", namespace], kubeconfig),
    };
  }
  test.each([{ serverSide: true }, { serverSide: false }])(
    "switched on, the count stays, and so through upgrades (server-side apply: $serverSide)",
    async ({ serverSide }) => {
      const release = await startRelease({ serverSide, gateway: { replicas: 4 } });
      await release.upgrade(scaled());
      expect(await release.count()).toBe(4);
      // The autoscaler has not yet had a reason to write.
      await release.upgrade(scaled({ maxReplicas: 20 }));
      expect(await release.count()).toBe(4);
      await release.scale(7);
      await release.upgrade(scaled());
      expect(await release.count()).toBe(7);
      await release.upgrade(scaled({ maxReplicas: 30 }));
      expect(await release.count()).toBe(7);
      await release.rollback();
      expect(await release.count()).toBe(7);
      await release.uninstall();
    },
  );

  test("switched on below its least, the count is the least", async () => {
    const release = await startRelease({ serverSide: true, gateway: { replicas: 1 } });
    await release.upgrade(scaled({ minReplicas: 3 }));
    expect(await release.count()).toBe(3);
    await release.uninstall();
  });

  test("after server-side apply, a rollback does not bring back a count that the autoscaler has left", async () => {
    const release = await startRelease({ serverSide: true, gateway: scaled() });
    await release.scale(3);
    await release.upgrade(scaled({ maxReplicas: 20 }));
    await release.scale(9);
    await release.rollback();
    expect(await release.count()).toBe(9);
    await release.uninstall();
  });
});
