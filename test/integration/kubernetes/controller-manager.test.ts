import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { isNotFound } from "../../../src/kubernetes/api-error.ts";
import type { ScheduledJob } from "../../../src/kubernetes/scheduled-job.ts";
import { createPool } from "../../../src/postgres/pool.ts";
import { startReceiver } from "../../receiver.ts";
import { connect, installCrd } from "../../kubernetes/cluster.ts";
import { anotherControlPlane, controllerManagerProgram } from "../../kubernetes/control-plane.ts";
import type { OwnControlPlane } from "../../kubernetes/own-control-plane.ts";
import { runToEnd, startPart } from "../../kubernetes/part.ts";
import { createTestDatabase } from "../../postgres/database.ts";
import { until } from "../../until.ts";

const NAMESPACE = "team-a";
const JOBS = `/apis/carillon.dev/v1/namespaces/${NAMESPACE}/scheduledjobs`;
const CONFIG_MAPS = `/api/v1/namespaces/${NAMESPACE}/configmaps`;

/** Deletions by others: by the namespace controller and the garbage collector of kube-controller-manager. */
describe.runIf(inject("tokenSecret") !== "")("deleted by kube-controller-manager", () => {
  let controlPlane: OwnControlPlane;
  let admin: ReturnType<typeof connect>;
  let env: Record<string, string>;
  let pool: ReturnType<typeof createPool>;
  const closing: (() => unknown)[] = [];

  beforeAll(async () => {
    const program = await controllerManagerProgram();
    if (program === undefined) throw new Error("kube-controller-manager cannot be had");
    controlPlane = await anotherControlPlane();
    closing.push(() => controlPlane.stop());
    admin = connect(controlPlane.kubeconfig);
    closing.push(() => admin.close());
    // Before kube-controller-manager starts, because its garbage collector looks for new kinds only now and then.
    await installCrd(admin);
    await controlPlane.startControllerManager(program);

    const database = await createTestDatabase();
    closing.push(() => database.drop());
    pool = createPool({ url: database.url, applicationName: "controller manager test" });
    closing.push(() => pool.end());
    env = {
      DATABASE_URL: database.url,
      KUBECONFIG: controlPlane.kubeconfig,
      CARILLON_ENCRYPTION_KEYS: `test:${randomBytes(32).toString("base64")}`,
    };
    await createNamespaceNamed(NAMESPACE);
    await runToEnd("cli", env, ["admin", "account", "create", "team", "--namespace", NAMESPACE]);
    const controller = await startPart("controller", env);
    closing.push(() => controller.stop());
  }, 300_000);
  afterAll(async () => {
    for (const close of closing.reverse()) await close();
  });

  const createNamespaceNamed = (name: string) =>
    admin.call({
      verb: "create",
      resource: "namespaces",
      path: "/api/v1/namespaces",
      body: { apiVersion: "v1", kind: "Namespace", metadata: { name } },
    });

  const createJob = (name: string, url: string, more: Record<string, unknown> = {}) =>
    admin.call<ScheduledJob>({
      verb: "create",
      resource: "scheduledjobs",
      path: JOBS,
      body: {
        apiVersion: "carillon.dev/v1",
        kind: "ScheduledJob",
        metadata: { name, ...more },
        spec: { schedule: { cron: "@yearly" }, webhook: { url } },
      },
    });

  const readyReason = async (name: string) => {
    const path = `${JOBS}/${name}`;
    const job = await admin.call<ScheduledJob>({ verb: "get", resource: "scheduledjobs", path });
    const ready = job.status?.conditions?.find((condition) => condition.type === "Ready");
    return ready && `${ready.status} ${ready.reason}`;
  };

  const cursors = async (deleted: boolean): Promise<string[]> => {
    const { rows } = await pool.query<{ job_uid: string }>(
      "select job_uid from job_cursors where (deleted_at is not null) = $1",
      [deleted],
    );
    return rows.map((row) => row.job_uid);
  };

  test("a job goes with its owner, and its cursor with the job", { timeout: 120_000 }, async () => {
    const owner = await admin.call<{ metadata: { uid: string } }>({
      verb: "create",
      resource: "configmaps",
      path: CONFIG_MAPS,
      body: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "owner" } },
    });
    const job = await createJob("owned", "https://example.com/", {
      ownerReferences: [
        { apiVersion: "v1", kind: "ConfigMap", name: "owner", uid: owner.metadata.uid },
      ],
    });
    await until(
      "the cursor",
      async () => (await cursors(false)).includes(job.metadata.uid),
      20_000,
    );
    await admin.call({ verb: "delete", resource: "configmaps", path: `${CONFIG_MAPS}/owner` });
    await until(
      "the garbage collector and the cursor",
      async () => (await cursors(true)).includes(job.metadata.uid),
      90_000,
    );
    expect(await cursors(false)).not.toContain(job.metadata.uid);
  });

  test(
    "a namespace takes its jobs along; made again under its name it belongs to nobody until it is bound",
    { timeout: 180_000 },
    async () => {
      const receiver = await startReceiver();
      closing.push(() => receiver.close());
      const jobs = await Promise.all(
        ["a", "b", "c"].map((name) => createJob(name, `${receiver.url}/${name}`)),
      );
      const uids = jobs.map((job) => job.metadata.uid);
      await until(
        "cursors",
        async () => {
          const known = await cursors(false);
          return uids.every((uid) => known.includes(uid));
        },
        30_000,
      );

      const path = `/api/v1/namespaces/${NAMESPACE}`;
      await admin.call({ verb: "delete", resource: "namespaces", path });
      await until(
        "cancelled cursors",
        async () => {
          const gone = await cursors(true);
          return uids.every((uid) => gone.includes(uid));
        },
        60_000,
      );
      const namespaceGone = async () => {
        try {
          await admin.call({ verb: "get", resource: "namespaces", path });
          return false;
        } catch (error) {
          if (isNotFound(error)) return true;
          throw error;
        }
      };
      await until("the end of the namespace", namespaceGone, 60_000);

      // A new namespace of this name may be another team's: its jobs must not run for the former account.
      await createNamespaceNamed(NAMESPACE);
      await createJob("stranger", `${receiver.url}/stranger`, {
        annotations: { "carillon.dev/run-now": "1" },
      });
      let stands: string | undefined;
      const refused = async () => (stands = await readyReason("stranger")) === "False NoAccount";
      await until(() => `NoAccount instead of ${stands}`, refused, 30_000);
      expect(receiver.received).toHaveLength(0);

      const bind = ["admin", "account", "bind", "team", "--namespace", NAMESPACE];
      await runToEnd("cli", env, bind);
      // Within seconds, although no event of the cluster reports it, and not only at the next resync.
      await until(
        "the job is the account's",
        async () => (await readyReason("stranger"))?.startsWith("True") === true,
        30_000,
      );
      await createJob("welcome", `${receiver.url}/welcome`, {
        annotations: { "carillon.dev/run-now": "1" },
      });
      await until(
        "a run for the account that the operator bound",
        () => receiver.received.some((call) => call.path === "/welcome"),
        30_000,
      );
      // Runs that were asked for while the namespace had no account are not made up for.
      expect(receiver.received.map((call) => call.path)).toEqual(["/welcome"]);
    },
  );
});
