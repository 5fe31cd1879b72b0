import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useState } from "react";
import { NavigationType, useLocation, useNavigationType, useSearchParams } from "react-router";
import { router } from "./routes.tsx";

/** Far behind the last one of any list; what is behind that is no page. */
const LAST_PAGE = 1_000_000;

/**
 * A list's filters, kept in the address: a reload, a bookmark and the way back show the same. What is
 * typed takes the place of the entry before it, so that the way back does not go letter by letter.
 */
export function useFilters(typed: string) {
  const [params, setParams] = useSearchParams();
  const [text, setText] = useState(params.get(typed) ?? "");
  const change = (name: string, value: string | null, replace = name === typed) => {
    write.cancel();
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        // What is typed and not yet written goes along.
        for (const [each, set] of [
          [typed, text.trim()],
          [name, value],
        ] as const)
          if (set === null || set === "") next.delete(each);
          else next.set(each, set);
        if (name !== "page") next.delete("page");
        return next;
      },
      { replace },
    );
  };
  // Not each letter: Safari lets a page write its address a hundred times in ten seconds, and then throws.
  const write = useDebouncedCallback((value: string) => {
    // It would take the place of the page that somebody goes to, while the code of that one is loaded. The
    // router is asked itself: what is rendered may not know of the click yet.
    if (router.state.navigation.state === "idle") change(typed, value);
  }, 200);
  // The way back and a link to the list itself change the address under the box; its own letters replace.
  const { key } = useLocation();
  const how = useNavigationType();
  useEffect(() => {
    if (how === NavigationType.Replace) return;
    write.cancel();
    setText(params.get(typed) ?? "");
  }, [key]);
  return {
    of: (name: string) => params.get(name),
    page: Math.min(LAST_PAGE, Math.max(1, Math.trunc(Number(params.get("page") ?? "1")) || 1)),
    change,
    text,
    /** What was typed, once the typing has paused. */
    settled: params.get(typed) ?? "",
    type: (value: string) => {
      setText(value);
      write(value.trim());
    },
  };
}
