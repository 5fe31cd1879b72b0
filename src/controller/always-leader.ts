import type { Leadership } from "../domain/ports/leadership.ts";

/** Leadership of a program that is alone on its database (an advisory lock sees to that). */
export function alwaysLeader(): Leadership {
  return {
    holds: () => true,
    onChange(listener) {
      listener(true);
      return () => {};
    },
    run: (signal) =>
      new Promise((resolve) => {
        if (signal.aborted) resolve();
        else
          signal.addEventListener(
            "abort",
            () => {
              resolve();
            },
            { once: true },
          );
      }),
  };
}
