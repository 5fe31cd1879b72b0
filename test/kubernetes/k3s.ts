import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GenericContainer, Wait, getContainerRuntimeClient } from "testcontainers";
import type { BorrowedControlPlane } from "./control-plane.ts";

const IMAGE = "rancher/k3s:v1.34.1-k3s1";

/** A k3s server in Docker, if a Docker engine answers. */
export async function startK3s(): Promise<
  | { kind: "found"; how: string; start(): Promise<BorrowedControlPlane> }
  | { kind: "missing"; reason: string }
> {
  try {
    await getContainerRuntimeClient();
  } catch {
    return { kind: "missing", reason: "no Docker engine answers" };
  }
  return { kind: "found", how: `Docker (${IMAGE})`, start };
}

async function start(): Promise<BorrowedControlPlane> {
  // Only the API server, without node and add-ons, so that nothing else writes to it.
  const container = await new GenericContainer(IMAGE)
    .withCommand([
      "server",
      "--disable-agent",
      "--disable=coredns,servicelb,traefik,local-storage,metrics-server",
      "--tls-san=localhost",
    ])
    .withPrivilegedMode()
    .withExposedPorts(6443)
    .withTmpFs({ "/run": "rw", "/var/run": "rw" })
    .withWaitStrategy(Wait.forLogMessage(/k3s is up and running/))
    .withStartupTimeout(120_000)
    .start();
  const folder = await mkdtemp(join(tmpdir(), "carillon-k3s-"));
  const inside = await container.exec(["cat", "/etc/rancher/k3s/k3s.yaml"]);
  const kubeconfig = join(folder, "kubeconfig");
  const server = `https://${container.getHost()}:${container.getMappedPort(6443)}`;
  await writeFile(kubeconfig, inside.output.replace("https://127.0.0.1:6443", server), {
    mode: 0o600,
  });
  return {
    kind: "borrowed",
    kubeconfig,
    async stop() {
      await container.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
