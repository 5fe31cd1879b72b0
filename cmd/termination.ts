import type { Logger } from "../src/telemetry/logger.ts";

/** A process has 30 s from SIGTERM to its end. If something hangs, it ends itself just before. */
const LAST_RESORT_MS = 29_000;

/**
 * Aborts at the first SIGTERM, SIGINT or SIGHUP. The same signal comes twice when it goes to npm's process group
 * (npm passes it on), so that repeats are ignored. Whatever hangs, the process ends within 30 s.
 */
export function untilTerminated(): AbortSignal {
  const controller = new AbortController();
  const stop = () => {
    if (controller.signal.aborted) return;
    setTimeout(() => {
      process.stderr.write("carillon: not everything ended in time\n");
      process.exit(1);
    }, LAST_RESORT_MS).unref();
    controller.abort(new Error("terminated"));
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  // The terminal was closed: a standalone in it should end as with Ctrl-C.
  process.on("SIGHUP", stop);
  return controller.signal;
}

/** Ends this process as SIGTERM does, but with exit code 1, so that its supervisor notices. */
export function endWithFailure(): void {
  process.exitCode = 1;
  process.kill(process.pid, "SIGTERM");
}

/** Logs a loop that rejects, which is a fault of ours, and ends the process. */
export function endOnRejection(loop: Promise<void>, log: Logger): void {
  loop.catch((error: unknown) => {
    log.error({ err: error }, "a part that must not end has ended: stopping");
    endWithFailure();
  });
}
