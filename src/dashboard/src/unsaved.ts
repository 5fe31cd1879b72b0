import { useState } from "react";
import { useBeforeUnload, useLocation } from "react-router";

/** What the user `by` has typed into forms and not saved, by page and form. In memory only. */
const typed = new Map<string, unknown>();
let by: string | undefined;

/** To be called when `user` signs in; undefined: somebody has signed out. */
export function dropUnsavedOfOthers(user: string | undefined): void {
  if (by !== user) typed.clear();
}

/** Keeps what a form holds while its page is not shown. Give it no password, and nothing else that is secret. */
interface Unsaved<T> {
  /** What the form held when the same user left this page, or when their session ended; until it is dropped. */
  found: T | undefined;
  hold: (typed: T) => void;
  /** To be called when it has been saved, or is no longer wanted. */
  drop: () => void;
  /** Leaves `rest` to the form of that page, which finds it, unless what was held has been dropped meanwhile. */
  leave: (pathname: string, rest: T) => void;
}

/**
 * Also makes the browser ask before it closes a page with something unsaved. `form`: its name, where a page has
 * several.
 */
export function useUnsaved<T>(user: string, form = ""): Unsaved<T> {
  const { pathname, search } = useLocation();
  const [key] = useState(`${pathname}${search} ${form}`);
  const [found, setFound] = useState(() =>
    by === user ? (typed.get(key) as T | undefined) : undefined,
  );
  useBeforeUnload((event) => {
    if (typed.has(key)) event.preventDefault();
  });
  return {
    found,
    hold: (what) => {
      dropUnsavedOfOthers(user);
      by = user;
      typed.set(key, what);
    },
    drop: () => {
      typed.delete(key);
      setFound(undefined);
    },
    leave: (to, rest) => {
      if (by === user && typed.delete(key)) typed.set(`${to} ${form}`, rest);
    },
  };
}
