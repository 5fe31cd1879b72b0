/** The end of a press may never be heard of, over a menu of the browser's own, say. */
const LONGEST_PRESS_MS = 5_000;
/** What a finger has tapped is clicked a moment after it is up. */
const CLICK_COMES_WITHIN_MS = 100;

interface Press {
  isPrimary: boolean;
  button: number;
}

/** The window, as far as it tells of them. */
export interface Presses {
  addEventListener(
    type: "pointerdown" | "pointerup" | "pointercancel" | "click",
    listener: (press: Press) => void,
    capture: true,
  ): void;
}

/**
 * Does at once what it is given; while a finger or the mouse's button is down, not before it is up. What was loaded
 * would otherwise be drawn between press and release, move what is pressed, and the click would be lost.
 */
export function createSteadyScheduler(page: Presses): (callback: () => void) => void {
  let held: (() => void)[] = [];
  let press: ReturnType<typeof setTimeout> | undefined;

  function release(): void {
    clearTimeout(press);
    press = undefined;
    const callbacks = held;
    held = [];
    // Behind what the click does.
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
  // What the click begins is shown before the next one comes.
  page.addEventListener("click", release, true);

  return (callback) => {
    if (press === undefined) queueMicrotask(callback);
    else held.push(callback);
  };
}
