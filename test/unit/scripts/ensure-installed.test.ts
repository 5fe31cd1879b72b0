import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { until } from "../../until.ts";

const SCRIPT = new URL("../../../scripts/ensure-installed.sh", import.meta.url);

/**
 * A stand-in for npm that seems to install Node 24, and records its arguments and the Node under which it was called.
 */
const NPM = `#!/bin/sh
echo "$1 under $(node --version)" >>calls
[ "$1" = ci ] && rm -rf node_modules
mkdir -p node_modules/.bin
[ -n "$WITHOUT_SCRIPTS" ] || { cp fake/v24 node_modules/.bin/node; chmod +x node_modules/.bin/node; }
[ "$1" = "$FAILS" ] && exit 1
[ "$1" = "$DIES" ] && kill -9 $PPID && exit 1
touch node_modules/.package-lock.json
if [ -n "$SLOW" ]; then until [ -f go ]; do sleep 0.1; done; fi
`;
const node = (version: string, code: number) =>
  `#!/bin/sh\n[ "$1" = --version ] && echo ${version} && exit\nexit ${code}\n`;

let checkout: string;

beforeEach(async () => {
  checkout = await mkdtemp(join(tmpdir(), "carillon-unit-"));
  for (const folder of ["scripts", "fake", "bin"]) await mkdir(join(checkout, folder));
  await copyFile(SCRIPT, join(checkout, "scripts/ensure-installed.sh"));
  await writeFile(join(checkout, "package-lock.json"), "{}");
  await writeFile(join(checkout, "fake/v24"), node("v24.21.0", 0));
  await program("npm", NPM);
});

afterEach(async () => {
  await rm(checkout, { recursive: true, force: true });
});

async function program(name: string, text: string): Promise<void> {
  await writeFile(join(checkout, "bin", name), text);
  await chmod(join(checkout, "bin", name), 0o755);
}

async function ensureInstalled(
  env: Record<string, string> = {},
  hears: (piece: string) => void = () => undefined,
  before = "",
) {
  const PATH = `${checkout}/node_modules/.bin:${checkout}/bin:/usr/bin:/bin`;
  const { code, stderr } = await new Promise<{ code: number; stderr: string }>((resolve) => {
    const options = { cwd: checkout, env: { PATH, ...env } };
    const child = execFile(
      "sh",
      ["-c", `${before} exec sh scripts/ensure-installed.sh`],
      options,
      (_, __, text) => {
        resolve({ code: child.exitCode ?? -1, stderr: text });
      },
    );
    child.stderr?.on("data", hears);
  });
  const calls = await readFile(join(checkout, "calls"), "utf8").catch(() => "");
  await rm(join(checkout, "calls"), { force: true });
  return { code, stderr, calls: calls.split("\n").slice(0, -1) };
}

test("once, and with a new Node nothing more", async () => {
  await program("node", node("v26.0.0", 0));
  expect(await ensureInstalled()).toMatchObject({ code: 0, calls: ["ci under v26.0.0"] });
  expect(await ensureInstalled()).toEqual({ code: 0, stderr: "", calls: [] });
});

test("what npm leaves out under an old Node is added under the one that it has installed", async () => {
  await program("node", node("v18.20.8", 1));
  const both = ["ci under v18.20.8", "install under v24.21.0"];
  expect(await ensureInstalled()).toMatchObject({ code: 0, calls: both });
  expect(await ensureInstalled()).toEqual({ code: 0, stderr: "", calls: [] });
});

test("an installation that did not come to its end is none", async () => {
  await program("node", node("v18.20.8", 1));
  const because = expect.stringContaining("could not be installed") as unknown;
  expect(await ensureInstalled({ FAILS: "install" })).toMatchObject({ code: 1, stderr: because });
  expect(await ensureInstalled()).toMatchObject({ code: 0, calls: ["ci under v24.21.0"] });
});

test("a second start waits until the first one has installed everything", async () => {
  await program("node", node("v18.20.8", 1));
  let heard = "";
  const start = () => ensureInstalled({ SLOW: "yes" }, (piece) => (heard += piece));
  const first = start();
  const done = join(checkout, "node_modules/.package-lock.json");
  await until("npm is nearly done", () => existsSync(done));
  const second = start();
  await until("the second one waits", () => heard.includes("Waiting for another installation"));
  await writeFile(join(checkout, "go"), "");
  expect(await Promise.all([first, second])).toMatchObject([{ code: 0 }, { code: 0 }]);
  expect(existsSync(done)).toBe(true);
});

test("an installation that was killed holds nobody up, whose number its process may have by now", async () => {
  await program("node", node("v26.0.0", 0));
  const installed = { code: 0, calls: [expect.stringMatching(/^ci under /) as unknown] };
  await ensureInstalled({ DIES: "ci" });
  expect(existsSync(join(checkout, ".install-lock"))).toBe(true);
  expect(await ensureInstalled()).toMatchObject(installed);

  await rm(join(checkout, "node_modules/.package-lock.json"));
  await ensureInstalled({ DIES: "ci" });
  // As in a restarted container, the PID in the lock is that of the new process.
  const again = 'sed -i.old "s/^[0-9]*/$$/" .install-lock/pid;';
  expect(await ensureInstalled({}, undefined, again)).toMatchObject(installed);
});

test("a Node that is too old and stays the only one is named, with what to do", async () => {
  await program("node", node("v20.20.2", 1));
  const named = {
    code: 1,
    stderr: expect.stringMatching(
      /\ncarillon: Node\.js v20\.20\.2 is too old, [^\n]*ignore-scripts[^\n]*\n$/,
    ) as unknown,
  };
  expect(await ensureInstalled({ WITHOUT_SCRIPTS: "yes" })).toMatchObject(named);
  // A second start still says so, until npm may run scripts.
  expect(await ensureInstalled({ WITHOUT_SCRIPTS: "yes" })).toMatchObject(named);
  expect(await ensureInstalled()).toMatchObject({ code: 0 });
});

test("a new Node of the machine does without ours", async () => {
  await program("node", node("v24.12.0", 0));
  expect(await ensureInstalled({ WITHOUT_SCRIPTS: "yes" })).toMatchObject({ code: 0 });
  expect(await ensureInstalled()).toEqual({ code: 0, stderr: "", calls: [] });
});
