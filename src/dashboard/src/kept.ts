import { useEffect, useState } from "react";
import { useSession } from "./session.ts";
import { useUnsaved } from "./unsaved.ts";

/**
 * What is typed into a form. It is there again when the same user comes back to the page, or signs in again after the
 * session has ended. Give it no password, and nothing else that is secret.
 */
export function useKept<T extends object>(form: string, start: T) {
  const { found, hold, drop } = useUnsaved<T>(useSession().user.id, form);
  const [typed, setTyped] = useState(found ?? start);
  return {
    typed,
    /** Whether it was typed earlier. */
    found: found !== undefined,
    type: (changes: Partial<T>) => {
      const next = { ...typed, ...changes };
      hold(next);
      setTyped(next);
    },
    /** To be called when it has been saved. */
    drop,
    /** Begins anew; `changes` are kept only once something is typed. */
    clear: (changes: Partial<T> = {}) => {
      drop();
      setTyped({ ...start, ...changes });
    },
  };
}

/** The same for a form in a dialog, which is then open again. */
export function useKeptDialog<T extends object>(form: string, start: T) {
  const kept = useKept(form, start);
  const [opened, setOpened] = useState(false);
  // Only now, when the page's title has the focus: it gets it back when the dialog is closed.
  useEffect(() => {
    setOpened(kept.found);
  }, []);
  return {
    ...kept,
    opened,
    open: (changes?: Partial<T>) => {
      kept.clear(changes);
      setOpened(true);
    },
    close: () => {
      setOpened(false);
      kept.clear();
    },
  };
}

/** A dialog's form of the fields `T`. */
export type KeptDialog<T extends object> = ReturnType<typeof useKeptDialog<T>>;
