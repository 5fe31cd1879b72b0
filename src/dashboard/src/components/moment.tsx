import { Text } from "@mantine/core";
import { useEffect, useState } from "react";
import { formatRelative, formatTime } from "../time.ts";

/** `5 minutes ago`, with the exact time on demand. */
export function Moment({ at, none = "never" }: { at: string | null; none?: string }) {
  const now = useNow(at !== null);
  if (at === null)
    return (
      <Text span size="sm" c="dimmed">
        {none}
      </Text>
    );
  return (
    <time dateTime={at} title={formatTime(at)} style={{ whiteSpace: "nowrap" }}>
      {formatRelative(at, now)}
    </time>
  );
}

/** The browser's clock, every second while it is looked at. */
export function useNow(ticking = true): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!ticking) return undefined;
    const timer = setInterval(() => {
      setNow(Date.now());
    }, 1_000);
    return () => {
      clearInterval(timer);
    };
  }, [ticking]);
  return now;
}
