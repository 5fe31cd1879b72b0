import { once } from "node:events";
import { createServer } from "node:net";
import { isSystemError } from "../../src/standalone/system-error.ts";

/** Below those that systems give to whoever asks for any (Linux: from 32768), and away from the well-known ones. */
const [FIRST, LAST] = [20_000, 32_000];

/** Nobody in this process is given one twice. */
const given = new Set<number>();

/**
 * A port for what has to be named before it listens. Nothing listens there, and nothing is given it until then that
 * asks for any port, as other tests do all the time.
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
