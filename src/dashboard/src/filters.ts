import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { useSearchParams } from "react-router";

/**
 * A list's filters, kept in the address: a reload, a bookmark and the way back show the same. What is
 * typed takes the place of the entry before it, so that the way back does not go letter by letter.
 */
export function useFilters(typed: string) {
  const [params, setParams] = useSearchParams();
  const [text, setText] = useState(params.get(typed) ?? "");
  const [settled] = useDebouncedValue(text.trim(), 200);
  const change = (name: string, value: string | null) => {
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        if (value === null || value === "") next.delete(name);
        else next.set(name, value);
        if (name !== "page") next.delete("page");
        return next;
      },
      { replace: name === typed },
    );
  };
  return {
    of: (name: string) => params.get(name),
    page: Math.max(1, Math.trunc(Number(params.get("page") ?? "1")) || 1),
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
