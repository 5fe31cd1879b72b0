/** `npm run migrate`: brings the database of DATABASE_URL up to this release. Safe to run at any time. */
import { readConfiguration, required } from "../src/configuration/configuration.ts";
import { migrate } from "../src/postgres/migrate.ts";
import { reportFailure } from "./problem.ts";
import { say } from "./say.ts";
import { VERSION } from "./version.ts";

let databaseUrl: string | undefined;
try {
  databaseUrl = required(readConfiguration("migrate", process.env), "databaseUrl");
  const { applied } = await migrate({ url: databaseUrl, appVersion: VERSION, onProgress: say });
  say(
    applied.length === 0 ? "The database is up to date" : `Applied ${applied.length} migration(s)`,
  );
} catch (error) {
  reportFailure(error, databaseUrl);
}
