import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useState } from "react";
import { NavigationType, useLocation, useNavigationType, useSearchParams } from "react-router";
import { useStillHere } from "./still-here.ts";
import { useWholeRouter } from "./whole-router.ts";

/** Far behind the last one of any list; what is behind that is no page. */
const LAST_PAGE = 1_000_000;

/** What the entries of the history that filters make are known by. */
const OWN = "filters";

/**
 * A list's filters, kept in the address: a reload, a bookmark and the way back show the same. What is
 * typed takes the place of the entry before it, so that the way back does not go letter by letter.
 */
export function useFilters(typed: string) {
  const [params, setParams] = useSearchParams();
  const [text, setText] = useState(params.get(typed) ?? "");
  const router = useWholeRouter();
  const stillHere = useStillHere();
  const change = (name: string, value: string | null, replace = name === typed) => {
    // What nobody chose would take the place of the page that somebody goes to, while its code is loaded.
    if (replace && !stillHere()) return;
    write.cancel();
    // Of the router itself: a filter that was chosen just before may not be rendered yet.
    const next = new URLSearchParams(router.state.location.search);
    // What is typed and not yet written goes along.
    for (const [each, set] of [
      [typed, text.trim()],
      [name, value],
    ] as const)
      if (set === null || set === "") next.delete(each);
      else next.set(each, set);
    if (name !== "page") next.delete("page");
    // Drawn before the next click: of a double one the second would begin where the first did.
    setParams(next, { replace, state: OWN, flushSync: true });
  };
  // Not each letter: Safari lets a page write its address a hundred times in ten seconds, and then throws.
  const write = useDebouncedCallback((value: string) => {
    change(typed, value);
  }, 200);
  // The way back and a link to the list itself change the address under the box. What the filters write comes out
  // of it, and may be rendered when more is typed already.
  const { key, state } = useLocation();
  const how = useNavigationType();
  useEffect(() => {
    if (how !== NavigationType.Pop && state === OWN) return;
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
