import type { LedgerChange } from "../domain/ports/run-ledger.ts";
import { sameRevision } from "../domain/revision.ts";
import { byKey } from "./by-key.ts";
import { SPECS_AT_A_TIME } from "./job-row.ts";
import type { Queryable } from "./pool.ts";

/** Stores what runs of these changes send, and sets apart what was known under the same numbers. */
export async function storeRevisions(
  client: Queryable,
  changes: readonly LedgerChange[],
): Promise<void> {
  // A null revision, from a release without revisions, counts as different: it is not known which spec the number has.
  const changed = changes.filter(({ from, to }) => from?.revision !== to.revision);
  for (const { some, texts } of bySize(changed)) {
    // One text of JSON, not an array of texts: in an array each quote is escaped, which takes thirty times the memory.
    const { rows } = await client.query<Forgotten>(
      `with stored as (
         insert into job_revisions (job_uid, generation, spec)
         select * from rows from (unnest($1::uuid[], $2::int[]), json_array_elements($3::json))
                    as i(job_uid, generation, spec)
         -- Another spec under a known number: the store has been restored from a backup.
         on conflict (job_uid, generation) do update set spec = excluded.spec
         returning job_uid, generation, old.spec::text as before, new.spec::text as now
       )
       select job_uid, generation, before as spec from stored where before <> now`,
      [some.map(({ job }) => job.uid), some.map(({ to }) => to.generation), `[${texts.join(",")}]`],
    );
    // Read by another release, the same spec may be another text.
    const read = new Set(
      some.flatMap(({ job, from, to }) => (from && sameRevision(from, to) ? [job.uid] : [])),
    );
    await setApart(
      client,
      rows.filter((row) => !read.has(row.job_uid)),
    );
  }
}

/** A revision that the store forgot when it was restored, and whose number it gave to another spec. */
interface Forgotten {
  job_uid: string;
  generation: number;
  spec: string;
}

/**
 * Gives the negative number to runs of such a revision that have been started or attempted. Otherwise they would count
 * as the new one's: settle or halt its job, and be tried again with what it sends (docs/decisions/0023,
 * "re-used number" and "re-used, other time").
 */
async function setApart(client: Queryable, forgotten: readonly Forgotten[]): Promise<void> {
  if (forgotten.length === 0) return;
  await client.query(
    `with input as materialized (
       select * from unnest($1::uuid[], $2::int[], $3::text[]) as i(job_uid, generation, spec)
     ), kept as (
       insert into job_revisions (job_uid, generation, spec)
       select job_uid, -generation, spec::json from input
       on conflict (job_uid, generation) do update set spec = excluded.spec
     ), begun as materialized (
       select r.id from runs r join input i on ${byKey("r.job_uid", "i.job_uid")} and r.generation = i.generation
        where r.started_at is not null or r.attempts > 0
        order by r.id for update of r
     )
     update runs r set generation = -r.generation from begun where ${byKey("r.id", "begun.id")}`,
    [
      forgotten.map(({ job_uid }) => job_uid),
      forgotten.map(({ generation }) => generation),
      forgotten.map(({ spec }) => spec),
    ],
  );
}

function* bySize(
  changes: readonly LedgerChange[],
): Generator<{ some: LedgerChange[]; texts: string[] }> {
  let some: LedgerChange[] = [];
  let texts: string[] = [];
  let size = 0;
  for (const change of changes) {
    const text = textOf(change);
    some.push(change);
    texts.push(text);
    size += text.length;
    if (size < SPECS_AT_A_TIME) continue;
    yield { some, texts };
    [some, texts, size] = [[], [], 0];
  }
  if (some.length > 0) yield { some, texts };
}

/**
 * The spec's JSON with U+FFFD for NUL. A resource may have NUL in places that no rule of its definition checks.
 * PostgreSQL stores such JSON, but then refuses every statement that reads a member of it, and with it all other
 * runs in the statement.
 */
function textOf({ job, spec }: LedgerChange): string {
  if (spec === undefined) throw new Error(`the change of job ${job.uid} comes without its spec`);
  const text = JSON.stringify(spec);
  return text.includes("\\u0000") ? text.replaceAll(ESCAPED_NUL, "$1\\ufffd") : text;
}

/** Not if the backslash is itself escaped. */
const ESCAPED_NUL = /(?<!\\)((?:\\\\)*)\\u0000/g;
