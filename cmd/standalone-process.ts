/**
 * `npm start`: gateway, controller and delivery in one process, with a PostgreSQL and a mail catcher of
 * its own. Standard output carries what a newcomer needs, line by line; the log goes to standard error.
 */
import { join } from "node:path";
import { required } from "../src/configuration/configuration.ts";
import { StartProblem } from "../src/configuration/start-problem.ts";
import { aborted, untilAborted } from "../src/waiting/until-aborted.ts";
import { parseKeyRing } from "../src/postgres/key-ring.ts";
import { migrate } from "../src/postgres/migrate.ts";
import { assertNoTransactionPooling } from "../src/postgres/transaction-pooling.ts";
import { assertKeysKnown } from "../src/postgres/sealed-columns.ts";
import { createUsers } from "../src/postgres/users.ts";
import { openDataDirectory } from "../src/standalone/data-directory.ts";
import { lockDatabase } from "../src/standalone/database-lock.ts";
import { startEmbeddedPostgres } from "../src/standalone/embedded-postgres.ts";
import { encryptionKeys } from "../src/standalone/encryption-keys.ts";
import {
  createCredentials,
  followMailCatcher,
  type Credentials,
} from "../src/standalone/first-start.ts";
import { CONNECTION_FILE } from "../src/standalone/running-database.ts";
import { readState, writeState } from "../src/standalone/state.ts";
import { startHealthServer } from "../src/telemetry/health-server.ts";
import { createLogger } from "../src/telemetry/logger.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { createDependencyChecks, createReadiness } from "../src/telemetry/readiness.ts";
import { installationRules } from "./account-rules.ts";
import { runController } from "./controller-part.ts";
import { createShutdown, type Shutdown } from "./shutdown.ts";
import { readEnvironment } from "./environment.ts";
import { runFinishedJobs } from "./finished-jobs-part.ts";
import { createFoundation } from "./foundation.ts";
import { createGatewayPart } from "./gateway-part.ts";
import { assertFree, baseUrl, listen, onPort } from "./listen.ts";
import { logOptions } from "./log-options.ts";
import { startCatcher } from "./mail-catcher.ts";
import { createPostgresJobs } from "./postgres-jobs.ts";
import { reportFailure } from "./problem.ts";
import { ignoreClosedReaders, say } from "./say.ts";
import { endWithFailure, untilTerminated } from "./termination.ts";
import { untilReady } from "./until-ready.ts";
import { VERSION } from "./version.ts";

ignoreClosedReaders();
const terminated = untilTerminated();
let databaseUrl: string | undefined;
let lookAt: string | undefined;
const shutdown = createShutdown();
try {
  await start(shutdown);
  await aborted(terminated);
} catch (error) {
  if (!terminated.aborted) reportFailure(error, databaseUrl, lookAt);
}
await shutdown.run();
process.exit();

async function start(shutdown: Shutdown): Promise<void> {
  const configuration = readEnvironment("standalone");
  if (required(configuration, "jobStore") !== "postgres")
    throw new StartProblem(
      "standalone keeps its jobs in PostgreSQL: unset CARILLON_JOB_STORE, or run npm run gateway and npm run controller",
    );
  installationRules(configuration);
  const directory = await openDataDirectory(required(configuration, "dataDir"));
  shutdown.add("data directory", () => directory.release());
  const state = await readState(directory);
  const host = required(configuration, "host");
  const port = required(configuration, "port");
  const metricsPort = required(configuration, "metricsPort");
  // Checked before a database is created for nothing.
  await onPort("PORT", assertFree({ host, port }));
  await onPort("CARILLON_METRICS_PORT", assertFree({ host, port: metricsPort }));

  databaseUrl = configuration.databaseUrl ?? (await embedded(join(directory.path, "postgres")));
  if (terminated.aborted) return;
  const catcher = await startCatcher({
    remembered: state.mailCatcher,
    reserved: [port, metricsPort],
    say,
  });
  shutdown.add("mail catcher", () => catcher.close());

  const log = createLogger({ ...logOptions(configuration, process.stderr), output: "stderr" });
  const lock = await lockDatabase({
    url: databaseUrl,
    onLost: (error) => {
      log.warn(
        { err: error },
        "the connection that holds the database for this process broke: until it is back a second standalone is not refused",
      );
    },
    onTaken: () => {
      log.error("another Carillon standalone is running on this database: stop one of the two");
    },
    onHeld: () => {
      log.info("this process holds the database again");
    },
  });
  shutdown.add("database lock", () => lock.release());
  await migrate({ url: databaseUrl, appVersion: VERSION, onProgress: say, signal: terminated });

  const metrics = createMetrics({ version: VERSION, program: "standalone" });
  const keyRing = parseKeyRing(
    await encryptionKeys({ configured: configuration.encryptionKeys, directory }),
  );
  const foundation = createFoundation({
    program: "standalone",
    configuration,
    databaseUrl,
    keyRing,
    metrics,
    log,
  });
  shutdown.add("database connections", () => foundation.close());
  const { pool, runPool, leasePool, accounts, apiKeys, smtpSettings, clock } = foundation;
  await assertNoTransactionPooling([runPool, leasePool]);
  await assertKeysKnown({ pool, keyRing });
  await untilAborted(clock.start(), terminated);
  await directory.write(CONNECTION_FILE, `${databaseUrl}\n`);
  shutdown.add("connection file", () => directory.remove(CONNECTION_FILE));

  const before = state.mailCatcher?.smtpPort;
  const begins = state.firstStart === "begun" || (await accounts.list()).length === 0;
  const mailCatcher = { smtpPort: catcher.smtpPort, httpPort: catcher.httpPort };
  await writeState(directory, { firstStart: begins ? "begun" : "done", mailCatcher });
  if (before !== undefined && before !== catcher.smtpPort)
    await followMailCatcher(
      { accounts, smtpSettings },
      { host: catcher.host, from: before, to: catcher.smtpPort },
    );

  const store = createPostgresJobs(foundation);
  const readiness = createReadiness(
    createDependencyChecks({
      postgres: () => foundation.pingDatabase(),
      jobs: () => store.jobs.ping(),
    }),
  );
  const gateway = await createGatewayPart({ foundation, configuration, store, readiness });
  const url = await onPort("PORT", listen(gateway.server(), { host, port }));
  const health = await onPort(
    "CARILLON_METRICS_PORT",
    startHealthServer({ host, port: metricsPort, metrics, readiness }),
  );
  shutdown.add("metrics", () => health.close());
  const controller = runController({
    foundation,
    configuration,
    store,
    worker: `standalone-${process.pid}-${Date.now().toString(36)}`,
  });
  const finishedJobs = runFinishedJobs({ foundation, configuration, store });
  // Runs after the next step: deliveries send their mails by the same mailer.
  shutdown.add("mails", () => gateway.endMails());
  // At the same time, so that requests finish while runs do.
  shutdown.add("gateway and deliveries", async () => {
    await Promise.all([gateway.close(), controller.end(), finishedJobs.end()]);
  });

  let credentials: Credentials | undefined;
  if (begins) {
    const users = createUsers({ pool });
    credentials = await createCredentials({ accounts, apiKeys, smtpSettings, users }, catcher);
  }
  // So that the lines below are true, and /readyz remembers that the process was ready.
  await untilReady(readiness, terminated);
  if (terminated.aborted) return;
  announce({
    url,
    metricsUrl: baseUrl(host, health.port),
    catcherUrl: catcher.url,
    allowed: required(configuration, "allowDestinations"),
    credentials,
  });
  if (begins) await writeState(directory, { firstStart: "done", mailCatcher });
}

async function embedded(dataDir: string): Promise<string> {
  const log = join(dataDir, "postgres.log");
  lookAt = `see ${log}`;
  try {
    const server = await startEmbeddedPostgres({
      dataDir,
      onProgress: say,
      signal: terminated,
      onLost: () => {
        databaseLost(log);
      },
    });
    shutdown.add("PostgreSQL", () => server.stop());
    return server.url;
  } catch (cause) {
    throw new StartProblem(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/**
 * Ends the process, so that its supervisor notices, rather than starting the server again. The next start is the way to
 * recover that is tried every day, and a server that was killed for a lasting reason (no memory, no disk) must not be
 * started over and over behind a process that looks healthy.
 */
function databaseLost(log: string): void {
  if (terminated.aborted) return;
  process.stderr.write(
    `carillon: PostgreSQL has ended by itself (see ${log}): stopping; the next start recovers what is in it\n`,
  );
  endWithFailure();
}

function announce(lines: {
  url: string;
  metricsUrl: string;
  catcherUrl: string;
  allowed: readonly string[];
  credentials: Credentials | undefined;
}): void {
  const { url, credentials } = lines;
  const besides = lines.allowed.length === 0 ? "" : ` and ${lines.allowed.join(", ")}`;
  say(`May be called: public addresses${besides} (CARILLON_ALLOW_DESTINATIONS).`);
  say(`Metrics: ${lines.metricsUrl}/metrics`);
  if (credentials) say(`API key: ${credentials.apiKey}`);
  say(`Dashboard: ${url}/dashboard/`);
  if (credentials) say(`Sign in: ${credentials.email} ${credentials.password}`);
  say(`Mail catcher: ${lines.catcherUrl}`);
  say(`Ready: ${url}`);
  const key = credentials?.apiKey ?? "$CARILLON_API_KEY";
  say("Send a first email:");
  say(
    `  curl -sS ${url}/send -H 'Content-Type: application/json' -H "X-API-Key: ${key}" -d '{"to":"you@example.com","subject":"Hello","body":"It works."}'`,
  );
}
