import { once } from "node:events";
import { createServer, type AddressInfo, isIPv6, type Server } from "node:net";
import { StartProblem } from "../src/configuration/start-problem.ts";

/** Which variable sets the port that something listens on. */
type PortVariable = "PORT" | "CARILLON_METRICS_PORT";

export interface ListenAddress {
  /** Undefined: on all addresses, of IPv6 and IPv4. */
  host: string | undefined;
  port: number;
}

/** Listens and returns the base URL; rejects with the listen error. */
export async function listen(server: Server, { host, port }: ListenAddress): Promise<string> {
  server.listen({ port, host });
  await once(server, "listening");
  return baseUrl(host, (server.address() as AddressInfo).port);
}

/** Rejects as `listen` would there, before anything is started that would have to end again. */
export async function assertFree(at: ListenAddress): Promise<void> {
  const server = createServer();
  await listen(server, at);
  server.close();
  await once(server, "close");
}

/** `work` listens on the variable's port. If it cannot, the StartProblem says which variable to set. */
export async function onPort<T>(variable: PortVariable, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    const problem = cause instanceof Error ? listenProblem(cause, variable) : undefined;
    throw problem === undefined ? cause : new StartProblem(problem, { cause });
  }
}

function listenProblem(error: Error, variable: PortVariable): string | undefined {
  const { syscall, code, port, address, hostname } = error as NodeJS.ErrnoException & {
    port?: number;
    address?: string;
    hostname?: string;
  };
  if (syscall === "getaddrinfo")
    return `cannot listen on ${hostname} (${code}): set CARILLON_HOST to an address of this machine`;
  if (syscall !== "listen") return undefined;
  const where = [address, port].filter(Boolean).join(":");
  if (code === "EADDRINUSE")
    return `port ${port} on ${address} is in use: stop the other program, or set ${variable} to a free one`;
  if (code === "EACCES")
    return `${where} may not be listened on: set ${variable} to one above 1023`;
  return `cannot listen on ${where} (${code}): set CARILLON_HOST to an address of this machine`;
}

/** The URL that a person on this machine would type. */
export function baseUrl(host: string | undefined, port: number): string {
  const name =
    host === undefined || host === "0.0.0.0" || host === "::"
      ? "localhost"
      : isIPv6(host)
        ? `[${host}]`
        : host;
  return `http://${name}:${port}`;
}
