import { useSyncExternalStore } from "react";

/** Key in the browser's storage, which all of its tabs share. */
const STORAGE_KEY = "carillon-exact-times";

const listeners = new Set<() => void>();
let exact = read();

addEventListener("storage", ({ key }) => {
  if (key === STORAGE_KEY) change(read());
});

/** Whether times are shown as dates, and not as `5 minutes ago`. */
export function useExactTimes(): boolean {
  return useSyncExternalStore(subscribe, () => exact);
}

export function showExactTimes(shown: boolean): void {
  change(shown);
  try {
    localStorage.setItem(STORAGE_KEY, String(shown));
  } catch {
    // Storage is blocked: the choice holds until the page is closed.
  }
}

function change(shown: boolean): void {
  exact = shown;
  for (const tell of listeners) tell();
}

function read(): boolean {
  try {
    return localStorage.getItem(STORAGE_KEY) === "true";
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
