import { useEffect, useState } from "react";
import { useLocation } from "react-router";

/** In memory only: what `by` has typed into the form of a page and not saved. */
const typed = new Map<string, unknown>();
let by: string | undefined;

/** `user` is signed in; undefined: somebody has signed out. */
export function dropUnsavedOfOthers(user: string | undefined): void {
  if (by !== user) typed.clear();
}

/** How a form keeps what it holds: no password, and nothing else that is secret. */
interface Unsaved<T> {
  /** What was there when the same user left this page, or their session ended; until it is dropped. */
  found: T | undefined;
  hold: (typed: T) => void;
  /** It has been saved, or is not wanted any more. */
  drop: () => void;
}

/** Whoever closes the page with something in its form is asked first. */
export function useUnsaved<T>(user: string): Unsaved<T> {
  const { pathname, search } = useLocation();
  const [page] = useState(pathname + search);
  const [found, setFound] = useState(() =>
    by === user ? (typed.get(page) as T | undefined) : undefined,
  );
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent) => {
      if (typed.has(page)) event.preventDefault();
    };
    addEventListener("beforeunload", ask);
    return () => {
      removeEventListener("beforeunload", ask);
    };
  }, [page]);
  return {
    found,
    hold: (what) => {
      dropUnsavedOfOthers(user);
      by = user;
      typed.set(page, what);
    },
    drop: () => {
      typed.delete(page);
      setFound(undefined);
    },
  };
}
