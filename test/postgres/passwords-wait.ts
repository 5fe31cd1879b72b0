import { passwordWork } from "../../src/postgres/password-work.ts";

/** Nobody's password gets its turn in this process until `go`. */
export function passwordsWait(): { go(): void } {
  const gate = Promise.withResolvers<void>();
  void Promise.all([0, 1].map(() => passwordWork.hash(() => gate.promise)));
  return { go: gate.resolve };
}
