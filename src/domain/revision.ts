import { createHash } from "node:crypto";
import type { Cursor } from "./cursor.ts";
import type { Job } from "./job.ts";

/**
 * Of the form that a spec has in this release: to be raised when the same spec is hashed to something else,
 * say for a field that specs did not have before. Hashes of two forms say nothing about each other.
 */
const FORM = 1;

/**
 * Names a generation together with what the spec says in it. The number alone does not: a store that was
 * restored from a backup counts on from there, and gives a number to a second spec. Stored in PostgreSQL.
 */
export function revisionOf({ generation, spec }: Pick<Job, "generation" | "spec">): string {
  const hash = createHash("sha256").update(JSON.stringify(spec, inOrder)).digest("base64url");
  return comparable(generation) + hash.slice(0, 22);
}

type Revision = Pick<Cursor, "generation" | "revision">;

/**
 * Whether runs of the one are runs of the other. A cursor that another release wrote may have no revision, that
 * of an older generation, or one of another form: its own number has to do.
 */
export function sameRevision(known: Revision, now: Revision): boolean {
  if (known.generation !== now.generation) return false;
  return !known.revision?.startsWith(comparable(now.generation)) || known.revision === now.revision;
}

/** How revisions begin that can be compared with one of this generation. */
function comparable(generation: number): string {
  return `${generation}:${FORM}:`;
}

/** In whichever order a store, or our own code, names the members of an object. */
function inOrder(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
