import { createHash } from "node:crypto";
import { copiedText } from "./copied-text.ts";
import type { Cursor } from "./cursor.ts";
import type { Job } from "./job.ts";

/**
 * The form of a spec in this release. Raise it when the same spec would be hashed to something else, for instance
 * because specs have a new field. Hashes of different forms cannot be compared.
 */
const FORM = 1;

/**
 * Names a generation together with the contents of its spec. The number alone is not unique: a store that was restored
 * from a backup counts on from there, and so gives the same number to a second spec. Stored in PostgreSQL.
 */
export function revisionOf({ generation, spec }: Pick<Job, "generation" | "spec">): string {
  const hash = createHash("sha256").update(JSON.stringify(spec, inOrder)).digest("base64url");
  return copiedText(comparable(generation) + hash.slice(0, 22));
}

type Revision = Pick<Cursor, "generation" | "revision">;

/**
 * Whether runs of one revision are runs of the other. A cursor that another release wrote may have no revision, one
 * of an older generation, or one of another form: then the number of the generation must do.
 */
export function sameRevision(known: Revision, now: Revision): boolean {
  if (known.generation !== now.generation) return false;
  return !known.revision?.startsWith(comparable(now.generation)) || known.revision === now.revision;
}

/** The beginning of all revisions that can be compared with one of this generation. */
function comparable(generation: number): string {
  return `${generation}:${FORM}:`;
}

/** Sorts the members of an object: stores, and our own code, write them in different orders. */
function inOrder(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
