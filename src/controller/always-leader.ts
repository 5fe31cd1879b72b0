import type { Leadership } from "../domain/ports/leadership.ts";
import { aborted } from "../waiting/until-aborted.ts";

/** Without an election: every controller schedules. The cursor still makes each run exist only once. */
export function alwaysLeader(): Leadership {
  return {
    holds: () => true,
    onChange(listener) {
      listener(true);
      return () => {};
    },
    run: aborted,
  };
}
