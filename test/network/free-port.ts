import { once } from "node:events";
import { createServer } from "node:net";
import { isSystemError } from "../../src/standalone/system-error.ts";

/** Below the ports that systems choose themselves (Linux: from 32768), and above the well-known ones. */
const [FIRST, LAST] = [20_000, 32_000];

/** Ports are given only once in this process. */
const given = new Set<number>();

/**
 * A port for something that has to be named before it listens. Nothing listens on it, and the system will not choose it
 * for others, such as other tests, which let the system choose all the time.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (given.has(port) || !(await canListen(port))) continue;
    given.add(port);
    return port;
  }
}

async function canListen(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, "127.0.0.1"), "listening");
  } catch (error) {
    if (isSystemError(error, "EADDRINUSE")) return false;
    throw error;
  }
  await once(server.close(), "close");
  return true;
}
