import { useSyncExternalStore } from "react";

/** Where this browser keeps the choice, for all of its tabs. */
const NAME = "carillon-exact-times";

const listeners = new Set<() => void>();
let exact = read();

addEventListener("storage", ({ key }) => {
  if (key === NAME) change(read());
});

/** Whether times are shown as dates, and not as `5 minutes ago`. */
export function useExactTimes(): boolean {
  return useSyncExternalStore(subscribe, () => exact);
}

export function showExactTimes(shown: boolean): void {
  change(shown);
  try {
    localStorage.setItem(NAME, String(shown));
  } catch {
    // Storage is blocked: the choice ends with the page.
  }
}

function change(shown: boolean): void {
  exact = shown;
  for (const tell of listeners) tell();
}

function read(): boolean {
  try {
    return localStorage.getItem(NAME) === "true";
  } catch {
    return false;
  }
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}
