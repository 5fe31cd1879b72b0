import { useDebouncedValue } from "@mantine/hooks";
import { useEffect, useState } from "react";
import { NavigationType, useLocation, useNavigationType, useSearchParams } from "react-router";

/** Far behind the last one of any list; what is behind that is no page. */
const LAST_PAGE = 1_000_000;

/**
 * A list's filters, kept in the address: a reload, a bookmark and the way back show the same. What is
 * typed takes the place of the entry before it, so that the way back does not go letter by letter.
 */
export function useFilters(typed: string) {
  const [params, setParams] = useSearchParams();
  const [text, setText] = useState(params.get(typed) ?? "");
  const [settled] = useDebouncedValue(text.trim(), 200);
  // The way back and a link to the list itself change the address under the box; its own letters replace.
  const { key } = useLocation();
  const how = useNavigationType();
  useEffect(() => {
    if (how !== NavigationType.Replace) setText(params.get(typed) ?? "");
  }, [key]);
  const change = (name: string, value: string | null, replace = name === typed) => {
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        if (value === null || value === "") next.delete(name);
        else next.set(name, value);
        if (name !== "page") next.delete("page");
        return next;
      },
      { replace },
    );
  };
  return {
    of: (name: string) => params.get(name),
    page: Math.min(LAST_PAGE, Math.max(1, Math.trunc(Number(params.get("page") ?? "1")) || 1)),
    change,
    text,
    /** What was typed, once the typing has paused. */
    settled,
    type: (value: string) => {
      setText(value);
      change(typed, value.trim());
    },
  };
}
