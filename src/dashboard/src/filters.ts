import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useState } from "react";
import { NavigationType, useLocation, useNavigationType, useSearchParams } from "react-router";
import { useStillHere } from "./still-here.ts";
import { useWholeRouter } from "./whole-router.ts";

/** Far behind the last page of any list. A higher number in the address counts as this one. */
const LAST_PAGE = 1_000_000;

/** The state of those entries of the browser's history that the filters have written. */
const WRITTEN_BY_FILTERS = "filters";

/**
 * A list's filters. They are kept in the address, so that a reload, a bookmark and the browser's Back button show the
 * same list. `typed` names the filter with a text box: what is typed there replaces the entry in the history instead of
 * adding one, so that Back does not go letter by letter.
 */
export function useFilters(typed: string) {
  const [params, setParams] = useSearchParams();
  const [text, setText] = useState(params.get(typed) ?? "");
  const router = useWholeRouter();
  const stillHere = useStillHere();
  const change = (name: string, value: string | null, replace = name === typed) => {
    // Somebody may be on the way to another page, whose code is being loaded: replacing the entry now would stop that.
    if (replace && !stillHere()) return;
    write.cancel();
    // Read from the router itself: a filter that was chosen just before may not be rendered yet.
    const next = new URLSearchParams(router.state.location.search);
    // The text may not have been written to the address yet.
    for (const [each, set] of [
      [typed, text.trim()],
      [name, value],
    ] as const)
      if (set === null || set === "") next.delete(each);
      else next.set(each, set);
    if (name !== "page") next.delete("page");
    // Rendered before the next click: otherwise the second click of a double click would start from the same state as
    // the first.
    setParams(next, { replace, state: WRITTEN_BY_FILTERS, flushSync: true });
  };
  // Written after a pause, not with each letter: Safari throws when a page writes its address more than a hundred times
  // in ten seconds.
  const write = useDebouncedCallback((value: string) => {
    change(typed, value);
  }, 200);
  // Back, or a link to the list, changes the address: then the text box follows. It does not follow what the filters
  // themselves have written: more may have been typed by the time that it is rendered.
  const { key, state } = useLocation();
  const navigationType = useNavigationType();
  useEffect(() => {
    if (navigationType !== NavigationType.Pop && state === WRITTEN_BY_FILTERS) return;
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
