import { generateKeyPairSync, randomBytes } from "node:crypto";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../network/free-port.ts";
import { until } from "../until.ts";
import { createComponent, type Component } from "./component.ts";
import { startTokenWebhook, createTokenSigner } from "./token-webhook.ts";

/** A kube-apiserver and an etcd that belong to one test run: TLS, RBAC, random loopback ports. */
export interface OwnControlPlane {
  kind: "own";
  server: string;
  /** The certificate that clients must trust, in PEM. `restart({ newCertificate: true })` changes it. */
  ca(): string;
  /** Path of a kubeconfig with all rights. */
  kubeconfig: string;
  /** Verifies tokens made by `createTokenSigner(tokenSecret)`, in any process. */
  tokenSecret: string;
  tokenFor(user: string, groups?: readonly string[]): string;
  apiServer: Component;
  etcd: Component;
  /** etcd's client address, where its JSON gateway answers, too. */
  etcdUrl: string;
  /** Kills the API server and starts it again on the same port, with the same data. */
  restart(options?: { newCertificate?: boolean }): Promise<void>;
  /** Starts kube-controller-manager: garbage collection and namespace deletion need it. */
  startControllerManager(program: string): Promise<Component>;
  /** Drops etcd's history, so that older positions are answered with 410 once the API server has restarted. */
  compact(): Promise<void>;
  /**
   * Keeps what etcd has now, in place of what was kept before. `restore` brings it back, as an operator does from a
   * snapshot: revisions go on from there, so that some numbers are given a second time.
   */
  backup(): Promise<void>;
  restore(): Promise<void>;
  ready(): Promise<void>;
  stop(): Promise<void>;
}

export async function startOwnControlPlane(programs: {
  apiServer: string;
  etcd: string;
}): Promise<OwnControlPlane> {
  const folder = await mkdtemp(join(tmpdir(), "carillon-control-plane-"));
  const [clientPort, peerPort, port] = [await freePort(), await freePort(), await freePort()];
  const adminToken = randomBytes(16).toString("hex");
  const webhook = await startTokenWebhook();
  const certificates = join(folder, "certificates");
  const server = `https://127.0.0.1:${port}`;
  const kubeconfig = join(folder, "admin.kubeconfig");
  const etcdUrl = `http://127.0.0.1:${clientPort}`;

  const { privateKey, publicKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  const keys = { private: join(folder, "sa.key"), public: join(folder, "sa.pub") };
  await mkdir(certificates);
  await writeFile(keys.private, privateKey, { mode: 0o600 });
  await writeFile(keys.public, publicKey);
  const tokens = join(folder, "tokens.csv");
  await writeFile(tokens, `${adminToken},admin,admin,"system:masters"\n`, { mode: 0o600 });
  const reviews = join(folder, "token-webhook.kubeconfig");
  await writeFile(reviews, kubeconfigText({ server: webhook.url }));

  const etcd = createComponent({
    program: programs.etcd,
    log: join(folder, "etcd.log"),
    args: [
      "--name=test",
      `--data-dir=${join(folder, "etcd")}`,
      `--listen-client-urls=${etcdUrl}`,
      `--advertise-client-urls=${etcdUrl}`,
      `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
      `--initial-advertise-peer-urls=http://127.0.0.1:${peerPort}`,
      `--initial-cluster=test=http://127.0.0.1:${peerPort}`,
      // A test's data need not survive a crash of the machine.
      "--unsafe-no-fsync",
      "--log-level=warn",
    ],
  });
  const apiServer = createComponent({
    program: programs.apiServer,
    log: join(folder, "kube-apiserver.log"),
    args: [
      `--etcd-servers=${etcdUrl}`,
      `--cert-dir=${certificates}`,
      "--bind-address=127.0.0.1",
      `--secure-port=${port}`,
      "--endpoint-reconciler-type=none",
      "--service-cluster-ip-range=10.0.0.0/24",
      "--authorization-mode=RBAC",
      `--token-auth-file=${tokens}`,
      `--authentication-token-webhook-config-file=${reviews}`,
      "--service-account-issuer=https://kubernetes.default.svc",
      `--service-account-key-file=${keys.public}`,
      `--service-account-signing-key-file=${keys.private}`,
      "--disable-admission-plugins=ServiceAccount",
      "--allow-privileged=true",
      // It compacts nothing by itself: tests do, with `compact`.
      "--etcd-compaction-interval=0",
    ],
  });

  let ca = "";
  const healthy = async () => {
    if (!apiServer.running) throw new Error(`kube-apiserver ended:\n${apiServer.logTail()}`);
    if (!etcd.running) throw new Error(`etcd ended:\n${etcd.logTail()}`);
    ca = await readFile(join(certificates, "apiserver.crt"), "utf8").catch(() => "");
    return ca !== "" && (await answersReady(server, ca, adminToken));
  };
  const ready = async () => {
    await until(() => `readyz\n${apiServer.logTail()}`, healthy, 60_000);
  };
  const writeKubeconfig = () =>
    writeFile(kubeconfig, kubeconfigText({ server, ca, token: adminToken }), { mode: 0o600 });

  const copyData = async (from: string, to: string) => {
    await apiServer.stop("SIGKILL");
    await etcd.stop();
    await rm(join(folder, to), { recursive: true, force: true });
    await cp(join(folder, from), join(folder, to), { recursive: true });
    etcd.start();
    apiServer.start();
    await ready();
  };

  const others: Component[] = [];
  const stop = async () => {
    for (const component of others) await component.stop();
    await apiServer.stop("SIGKILL");
    await etcd.stop("SIGKILL");
    await webhook.close();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    etcd.start();
    apiServer.start();
    await ready();
    await writeKubeconfig();
  } catch (error) {
    await stop();
    throw error;
  }

  return {
    kind: "own",
    server,
    ca: () => ca,
    kubeconfig,
    tokenSecret: webhook.secret,
    tokenFor: createTokenSigner(webhook.secret).tokenFor,
    apiServer,
    etcd,
    etcdUrl,
    ready,
    stop,
    async restart(options = {}) {
      await apiServer.stop("SIGKILL");
      if (options.newCertificate) {
        await rm(certificates, { recursive: true, force: true });
        await mkdir(certificates);
      }
      apiServer.start();
      await ready();
      await writeKubeconfig();
    },
    async startControllerManager(program) {
      const component = createComponent({
        program,
        log: join(folder, "kube-controller-manager.log"),
        args: [
          `--kubeconfig=${kubeconfig}`,
          `--authentication-kubeconfig=${kubeconfig}`,
          `--authorization-kubeconfig=${kubeconfig}`,
          `--service-account-private-key-file=${keys.private}`,
          `--root-ca-file=${join(certificates, "apiserver.crt")}`,
          "--leader-elect=false",
          "--bind-address=127.0.0.1",
          `--secure-port=${await freePort()}`,
          `--cert-dir=${join(folder, "controller-manager")}`,
        ],
      });
      component.start();
      others.push(component);
      return component;
    },
    backup: () => copyData("etcd", "etcd-backup"),
    restore: () => copyData("etcd-backup", "etcd"),
    async compact() {
      const { header } = await post(`${etcdUrl}/v3/kv/range`, { key: "AA==", limit: 1 });
      const { revision } = header;
      await post(`${etcdUrl}/v3/kv/compaction`, { revision, physical: true });
    },
  };
}

/** A request to etcd's JSON gateway. Every answer contains the store's revision. */
async function post(url: string, body: unknown): Promise<{ header: { revision: string } }> {
  const answer = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as { header: { revision: string } };
}

export function kubeconfigText(input: { server: string; ca?: string; token?: string }): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "test",
    clusters: [
      {
        name: "test",
        cluster: {
          server: input.server,
          ...(input.ca && {
            "certificate-authority-data": Buffer.from(input.ca).toString("base64"),
          }),
        },
      },
    ],
    users: [{ name: "test", user: input.token === undefined ? {} : { token: input.token } }],
    contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
  });
}

async function answersReady(server: string, ca: string, token: string): Promise<boolean> {
  return new Promise((resolve) => {
    const call = httpsRequest(
      `${server}/readyz`,
      { ca, headers: { Authorization: `Bearer ${token}` }, agent: false, timeout: 2_000 },
      (answer) => {
        answer.resume();
        resolve(answer.statusCode === 200);
      },
    );
    call.once("timeout", () => call.destroy());
    call.once("error", () => resolve(false));
    call.end();
  });
}
