import { expect, test } from "vitest";
import { FailurePolicy, type AfterFailure } from "../../../src/controller/failure-policy.ts";
import { ContentRefused } from "../../../src/domain/ports/content-refused.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";

const refused = new ContentRefused("no");
const away = new DependencyUnavailable("postgres");
const unknown = new Error("a duplicate key");

interface Batch {
  /** How many jobs it takes at most; by default as many as it may. */
  of?: number;
  /** Undefined: it succeeds. */
  error?: Error;
  /** Whether PostgreSQL answers when it is asked; by default it must not be. */
  answers?: boolean;
}

const CASES: {
  name: string;
  batches: Batch[];
  /** What follows each: jobs in the next batch, and what happens before it. */
  next: string[];
}[] = [
  {
    name: "the job that cannot be written is found by halving, and batches grow again",
    batches: [
      ...Array.from({ length: 4 }, () => ({ error: refused })),
      ...Array.from({ length: 4 }, () => ({})),
    ],
    next: ["4 bisect", "2 bisect", "1 bisect", "1 put_off job-0", "2", "4", "8", "8"],
  },
  {
    name: "so is a job with which any other statement fails, while PostgreSQL answers",
    batches: [
      { of: 2, error: unknown, answers: true },
      { error: unknown, answers: true },
    ],
    next: ["1 bisect", "1 put_off job-0"],
  },
  {
    name: "when PostgreSQL does not answer, no job is at fault, and batches stay as they are",
    batches: [{ error: unknown, answers: false }, { error: unknown, answers: false }, {}],
    next: ["8 pause 200", "8 pause 400", "8"],
  },
  {
    name: "when PostgreSQL says that it cannot, it is not asked, and gets less to do",
    batches: [
      ...Array.from({ length: 6 }, () => ({ error: away })),
      { of: 0 },
      { error: away },
      {},
      {},
    ],
    next: [
      "4 pause 200",
      "2 pause 400",
      "1 pause 800",
      "1 pause 1600",
      "1 pause 3200",
      "1 pause 5000",
      "1",
      "1 pause 200",
      "2",
      "4",
    ],
  },
  {
    name: "work without jobs is at nobody's fault but PostgreSQL's",
    batches: [
      { of: 0, error: unknown },
      { of: 0, error: away },
      { of: 0, error: refused },
    ],
    next: ["8 pause 200", "4 pause 400", "1 bisect"],
  },
  {
    name: "after 16 failures in a row for which a job might be at fault, PostgreSQL gets time",
    batches: [
      ...Array.from({ length: 16 }, () => ({ of: 1, error: unknown, answers: true })),
      { of: 1, error: unknown },
      { of: 1, error: refused },
      { of: 1 },
      { of: 1, error: unknown, answers: true },
    ],
    next: [
      ...Array.from({ length: 16 }, () => "1 put_off job-0"),
      "1 pause 200",
      "1 put_off job-0",
      "2",
      "1 put_off job-0",
    ],
  },
];

test.each(CASES)("$name", async ({ batches, next }) => {
  let answers: boolean | undefined;
  const policy = new FailurePolicy({
    mostJobs: 8,
    answers: async (jobs) => {
      if (answers === undefined || jobs.length === 0) throw new Error("nobody was to ask");
      return answers;
    },
    random: () => 1,
    log: createLogger({ level: "silent" }),
  });
  const followed: string[] = [];
  for (const { of = policy.limit, error, ...given } of batches) {
    answers = given.answers;
    const jobs = Array.from({ length: of }, (_, n) => `job-${n}`);
    const after = error && (await policy.failed(jobs, error));
    if (error === undefined) policy.succeeded(jobs);
    followed.push([policy.limit, ...(after ? [told(after)] : [])].join(" "));
  }
  expect(followed).toEqual(next);
});

function told(after: AfterFailure): string {
  return Object.values(after).join(" ");
}
