/**
 * One data directory seen from several containers. For the locks, a container is a set of PID, network and IPC
 * namespaces of its own; unshare(1) creates them if it is allowed to.
 */
import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isRunning } from "../../src/standalone/postmaster.ts";
import { leaveOut } from "../leave-out.ts";
import { run, startStandalone, type Program } from "./program.ts";

const user = process.getuid?.() === 0 ? [] : ["--map-current-user"];
const OWN_PROCESSES = ["--pid", "--ipc", "--fork", "--mount-proc", "--kill-child"];
/** Shares the network, so that the test can reach it. */
const CONTAINER = ["unshare", ...user, ...OWN_PROCESSES];
/** Its loopback interface is down: it must refuse before it needs one. */
const CUT_OFF = ["unshare", ...user, "--net", ...OWN_PROCESSES];

const probe = spawnSync(CUT_OFF[0] ?? "", [...CUT_OFF.slice(1), "flock", "--version"], {
  encoding: "utf8",
});
const refusal =
  probe.status === 0 ? undefined : (probe.error?.message ?? probe.stderr.trim().split("\n")[0]);
if (refusal !== undefined)
  leaveOut(`one data directory in several namespaces, not allowed here: ${refusal}`);

describe.skipIf(refusal !== undefined)("one data directory, several containers", () => {
  let directory: string;
  const programs: Program[] = [];

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "carillon-e2e-"));
  });
  afterEach(async () => {
    for (const program of programs.splice(0)) {
      program.signal("SIGTERM");
      await program.finished;
    }
    await rm(directory, { recursive: true, force: true });
  });

  async function start(through: readonly string[] = []) {
    const program = await startStandalone(directory, {}, through);
    programs.push(program);
    return program;
  }

  async function refused(says: string): Promise<void> {
    const env = { CARILLON_DATA_DIR: directory, PORT: "0", CARILLON_METRICS_PORT: "0" };
    const { code, stderr } = await run("standalone", { env, through: CUT_OFF }).finished;
    expect(stderr).toMatch(new RegExp(`^carillon: .*${says}.*\n$`));
    expect(code).toBe(1);
  }

  const postmaster = async () =>
    Number.parseInt(await readFile(join(directory, "postgres", "data", "postmaster.pid"), "utf8"));

  test("a second one is refused", async () => {
    const first = await start();
    await refused(`process ${first.child.pid} of another container or machine, .* is running on`);
    expect(await isRunning(await postmaster())).toBe(true);
  });

  test("a PostgreSQL that outlived its owner elsewhere is left alone, and adopted there", async () => {
    const first = await start();
    first.signal("SIGKILL");
    await first.finished;
    const pid = await postmaster();
    await refused("is still running: start Carillon there");
    expect(await postmaster()).toBe(pid);
    expect(await isRunning(pid)).toBe(true);
    const again = await start();
    expect(again.stdout()).toContain("Adopted");
    expect(await postmaster()).toBe(pid);
  });

  test("after a container that was killed, the next one on its volume just starts", async () => {
    for (let restart = 0; restart < 2; restart += 1) {
      const container = await startStandalone(directory, {}, CONTAINER);
      container.signal("SIGKILL");
      await container.finished;
      // The lock file is left behind; in the next container its PID is another process's, or nobody's.
      expect(await postmaster()).toBeGreaterThan(0);
    }
    const host = await start();
    expect(host.stdout()).not.toContain("Adopted");
  });
});
