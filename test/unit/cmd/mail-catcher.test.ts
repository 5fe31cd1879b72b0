import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { startCatcher } from "../../../cmd/mail-catcher.ts";
import { freePort } from "../../network/free-port.ts";

/** The first port that is not for root alone. */
const UNPRIVILEGED = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

async function started(options: Partial<Parameters<typeof startCatcher>[0]> = {}) {
  const said: string[] = [];
  const catcher = await startCatcher({
    remembered: undefined,
    reserved: [],
    say: (line) => said.push(line),
    ...options,
  });
  onTestFinished(() => catcher.close());
  return { said, ports: { smtpPort: catcher.smtpPort, httpPort: catcher.httpPort } };
}

async function takenPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function freePorts() {
  return { smtpPort: await freePort(), httpPort: await freePort() };
}

test("is where it was last time", async () => {
  const remembered = await freePorts();
  expect(await started({ remembered })).toEqual({ said: [], ports: remembered });
});

test.each(["smtpPort", "httpPort"] as const)(
  "is elsewhere, and says so, when its %s has been taken or is for us",
  async (name) => {
    const remembered = await freePorts();
    const taken = await takenPort();
    const inUse = { ...remembered, [name]: taken };
    const cases = [{ remembered: inUse }, { remembered, reserved: [remembered[name]] }];
    for (const options of cases) {
      const { said, ports } = await started(options);
      expect(said).toHaveLength(1);
      expect(ports[name]).not.toBe(options.remembered[name]);
    }
  },
);

test.runIf(existsSync(UNPRIVILEGED) && Number(readFileSync(UNPRIVILEGED)) > 2)(
  "is elsewhere, too, when it may not have its ports any more",
  () => {
    const module = new URL("../../../cmd/mail-catcher.ts", import.meta.url).href;
    const program = `import { startCatcher } from "${module}";
      if (process.getuid() === 0) process.setuid(65534);
      const remembered = { smtpPort: 1, httpPort: 2 };
      const catcher = await startCatcher({ remembered, reserved: [], say: console.log });
      await catcher.close();`;
    const { stdout, stderr } = spawnSync(
      process.execPath,
      ["--input-type=module", "--eval", program],
      { encoding: "utf8" },
    );
    expect(stderr).toBe("");
    expect(stdout).toMatch(
      /^The mail catcher's ports 1 and 2 are not both free: it takes mail on \d/,
    );
  },
);

test("at a first start it is anywhere rather than on our own ports, and says where", async () => {
  const { said, ports } = await started({ reserved: [1025] });
  expect(ports.smtpPort).not.toBe(1025);
  expect(said).toEqual([
    `The mail catcher's ports 1025 and 8025 are not both free: it takes mail on ${ports.smtpPort} and shows it on ${ports.httpPort}.`,
  ]);
});
