import { translating } from "../postgres/connection-errors.ts";
import { createClient } from "../postgres/pool.ts";
import { StartProblem } from "../configuration/start-problem.ts";

/** Any two numbers that nobody else uses as advisory lock of the database. */
const LOCK = [0x6361_7269, 0x6c6c_6f6e];
/** PostgreSQL notices a killed holder as soon as its connection breaks; across a network not at once. */
const WAIT_MS = 3_000;
const RETRY_MS = 100;

export interface DatabaseLock {
  release(): Promise<void>;
}

/**
 * Takes the database for this standalone alone, by an advisory lock that lives as long as its
 * connection. Throws StartProblem when another standalone has it.
 * `onLost` is called when the connection breaks: somebody else may take the database from then on.
 */
export async function lockDatabase(options: {
  url: string;
  onLost: (error: Error) => void;
}): Promise<DatabaseLock> {
  let released = false;
  const client = createClient({
    url: options.url,
    applicationName: "carillon standalone lock",
    onError: (error) => {
      if (!released) options.onLost(error);
    },
  });
  await translating(() => client.connect());
  const deadline = performance.now() + WAIT_MS;
  for (;;) {
    const { rows } = await client.query<{ held: boolean }>(
      "select pg_try_advisory_lock($1, $2) as held",
      LOCK,
    );
    if (rows[0]?.held === true) break;
    if (performance.now() > deadline) {
      released = true;
      await client.end();
      throw new StartProblem(
        "another Carillon standalone is running on this database: stop it, or use another DATABASE_URL",
      );
    }
    await new Promise((resolve) => {
      setTimeout(resolve, RETRY_MS);
    });
  }
  return {
    async release() {
      released = true;
      await client.end();
    },
  };
}
