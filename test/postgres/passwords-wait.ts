import { passwordWork } from "../../src/postgres/password-work.ts";

/** Until `go`, all password hashing of this process waits. */
export function passwordsWait(): { go(): void } {
  const gate = Promise.withResolvers<void>();
  void Promise.all([0, 1].map(() => passwordWork.hash(() => gate.promise)));
  return { go: gate.resolve };
}
