/** A press counts as ended after this: its end may never be reported, for instance over a menu of the browser. */
const LONGEST_PRESS_MS = 5_000;
/** After a finger is lifted, the click comes a moment later. */
const CLICK_COMES_WITHIN_MS = 100;

interface Press {
  isPrimary: boolean;
  button: number;
}

/** The part of the window that reports presses. */
export interface Presses {
  addEventListener(
    type: "pointerdown" | "pointerup" | "pointercancel" | "click",
    listener: (press: Press) => void,
    capture: true,
  ): void;
}

/**
 * Runs callbacks at once, but those that come while a finger or the mouse button is down only after it is up.
 * Otherwise data that arrives between press and release could move the button that is being pressed, and the click
 * would be lost.
 */
export function createSteadyScheduler(page: Presses): (callback: () => void) => void {
  let held: (() => void)[] = [];
  let press: ReturnType<typeof setTimeout> | undefined;

  function release(): void {
    clearTimeout(press);
    press = undefined;
    const callbacks = held;
    held = [];
    // After the click's own handlers.
    setTimeout(() => {
      for (const callback of callbacks) callback();
    });
  }

  page.addEventListener(
    "pointerdown",
    ({ isPrimary, button }) => {
      if (!isPrimary || button !== 0) return;
      clearTimeout(press);
      press = setTimeout(release, LONGEST_PRESS_MS);
    },
    true,
  );
  page.addEventListener(
    "pointerup",
    ({ isPrimary }) => {
      if (!isPrimary) return;
      const ended = press;
      setTimeout(() => {
        if (press === ended) release();
      }, CLICK_COMES_WITHIN_MS);
    },
    true,
  );
  page.addEventListener(
    "pointercancel",
    ({ isPrimary }) => {
      if (isPrimary) release();
    },
    true,
  );
  // A click ends the wait early, so that what it begins is shown before the next click comes.
  page.addEventListener("click", release, true);

  return (callback) => {
    if (press === undefined) queueMicrotask(callback);
    else held.push(callback);
  };
}
