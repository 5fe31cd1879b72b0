import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, openSync } from "node:fs";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";

const MODULE = new URL("../../../cmd/say.ts", import.meta.url).href;
/** Writes once its standard input ends, and tells on standard error how that went. */
const PROGRAM = `import { ignoreClosedReaders, write } from "${MODULE}";
  ignoreClosedReaders();
  for await (const _ of process.stdin);
  await write("a result").then(
    () => console.error("written"),
    (error) => console.error(error.code),
  );`;

test("a reader that has gone is no failure", async () => {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", PROGRAM]);
  const said = text(child.stderr);
  child.stdout.destroy();
  await once(child.stdout, "close");
  child.stdin.end();
  expect(await said).toBe("written\n");
});

test.runIf(existsSync("/dev/full"))("a full disk is one", () => {
  const { stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", PROGRAM], {
    encoding: "utf8",
    stdio: ["ignore", openSync("/dev/full", "w"), "pipe"],
  });
  expect(stderr).toBe("ENOSPC\n");
});
