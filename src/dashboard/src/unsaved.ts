import { useEffect, useState } from "react";
import { useLocation } from "react-router";

/** What somebody typed into the form of a page. */
interface Unsaved {
  page: string;
  typed: unknown;
}

/** In memory only: of the form that is open, and of the one that was when the session of `user` ended. */
let open: Unsaved | undefined;
let left: (Unsaved & { user: string }) | undefined;

/** The session of `user` has ended, and the page goes away: the same user finds it again as it was. */
export function keepUnsaved(user: string): void {
  left = open && { ...open, user };
}

/** `user` is signed in; undefined: somebody has signed out. */
export function dropUnsavedOfOthers(user: string | undefined): void {
  if (left?.user !== user) left = undefined;
}

/**
 * What this page's form held when the session of the same user ended, and how the form says what it holds:
 * no password, and nothing else that is secret.
 */
export function useUnsaved<T>(user: string): [found: T | undefined, hold: (typed: T) => void] {
  const { pathname, search } = useLocation();
  const page = pathname + search;
  const [found] = useState(() =>
    left?.user === user && left.page === page ? (left.typed as T) : undefined,
  );
  useEffect(() => {
    left = undefined;
    return () => {
      open = undefined;
    };
  }, []);
  return [
    found,
    (typed) => {
      open = { page, typed };
    },
  ];
}
