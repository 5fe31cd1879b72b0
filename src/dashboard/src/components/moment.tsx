import { useSyncExternalStore } from "react";
import { useExactTimes } from "../exact-times.ts";
import { serverNow } from "../server-clock.ts";
import { formatRelative, formatTime } from "../time.ts";

/**
 * `5 minutes ago`, with the exact time as its tooltip; or the other way round if exact times were chosen. No time is
 * `none`, and so is one that the answer lacks: during an upgrade a gateway of another release may have given it.
 */
export function Moment(props: { at: string | null | undefined; none?: string }) {
  const { none = "never" } = props;
  const at = props.at ?? null;
  const exact = useExactTimes();
  // Rendered again when its words change, not each second: a list has many moments.
  const words = useSyncExternalStore(eachSecond, () =>
    at === null ? none : formatRelative(at, clock.now),
  );
  if (at === null) return <span className="dimmed">{words}</span>;
  return exact ? (
    <time dateTime={at} title={words}>
      {formatTime(at)}
    </time>
  ) : (
    <time dateTime={at} title={formatTime(at)} style={{ whiteSpace: "nowrap" }}>
      {words}
    </time>
  );
}

/** One timer for all moments; it runs while there are any. */
const clock = { now: serverNow(), listeners: new Set<() => void>(), timer: 0 };

function eachSecond(listener: () => void): () => void {
  if (clock.listeners.size === 0) {
    clock.now = serverNow();
    clock.timer = window.setInterval(() => {
      clock.now = serverNow();
      for (const tell of clock.listeners) tell();
    }, 1_000);
  }
  clock.listeners.add(listener);
  return () => {
    clock.listeners.delete(listener);
    if (clock.listeners.size === 0) window.clearInterval(clock.timer);
  };
}
