import type { Leadership } from "../domain/ports/leadership.ts";
import { aborted } from "../waiting/until-aborted.ts";

/** Without an election every controller schedules; the cursor makes each run once all the same. */
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
