/**
 * `npm run migrate`: brings the database of DATABASE_URL up to this release, and creates the first
 * account when one is asked for. Safe to run at any time, and by several at once.
 */
import { required } from "../src/configuration/configuration.ts";
import { pause } from "../src/domain/pause.ts";
import { DependencyUnavailable } from "../src/domain/ports/dependency-down.ts";
import { migrate } from "../src/postgres/migrate.ts";
import { bootstrap } from "./bootstrap.ts";
import { readEnvironment } from "./environment.ts";
import { reportFailure } from "./problem.ts";
import { outliveReaders, say } from "./say.ts";
import { monotonic, timers } from "./system.ts";
import { VERSION } from "./version.ts";

const RETRY_MS = 1_000;
/** Between two lines that say what is waited for. */
const PROGRESS_MS = 10_000;

outliveReaders();
// The first process of a container, which this is in a pod, is ended by no signal that it does not handle.
// PostgreSQL takes back what is under way.
process.once("SIGTERM", () => process.exit(143));
process.once("SIGINT", () => process.exit(130));

let databaseUrl: string | undefined;
try {
  const configuration = readEnvironment("migrate");
  const url = required(configuration, "databaseUrl");
  databaseUrl = url;
  const waitMs = required(configuration, "databaseWaitSeconds") * 1_000;
  const { applied } = await available(waitMs, () =>
    migrate({ url, appVersion: VERSION, onProgress: say }),
  );
  say(
    applied.length === 0 ? "The database is up to date" : `Applied ${applied.length} migration(s)`,
  );
  await available(waitMs, () => bootstrap({ configuration, databaseUrl: url, say }));
} catch (error) {
  reportFailure(error, databaseUrl);
}

/** Tries again while something does not answer yet: a database that starts at the same time as we do. */
async function available<T>(waitMs: number, work: () => Promise<T>): Promise<T> {
  const began = monotonic();
  let told = Number.NEGATIVE_INFINITY;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const waited = monotonic() - began;
      if (!(error instanceof DependencyUnavailable) || waited >= waitMs) throw error;
      if (waited - told >= PROGRESS_MS) {
        const name = error.dependency === "postgres" ? "PostgreSQL" : "the Kubernetes API";
        say(`Waiting for ${name}, ${Math.round(waited / 1_000)} of ${waitMs / 1_000} s`);
        told = waited;
      }
      await pause(RETRY_MS, timers);
    }
  }
}
