import { isBefore } from "./resource-version.ts";

/**
 * Namespaces that were listed while a watch was behind: what the watch then tells of them is older than the list, until
 * it has come as far. Only deletions are news, as a list does not tell of them.
 */
export class Relisted {
  /** By namespace, the resource version of its list. */
  readonly #at = new Map<string, string>();

  /** The watch has not come as far as all of the lists. */
  get isAhead(): boolean {
    return this.#at.size > 0;
  }

  add(namespace: string, version: string): void {
    this.#at.set(namespace, version);
  }

  /** Whether the list of the namespace has shown what this version of a job is, or a later one. */
  hasShown(namespace: string, version: string): boolean {
    const listed = this.#at.get(namespace);
    return listed !== undefined && !isBefore(listed, version);
  }

  /** The watch has come so far. */
  reached(version: string): void {
    for (const [namespace, listed] of this.#at)
      if (!isBefore(version, listed)) this.#at.delete(namespace);
  }
}
