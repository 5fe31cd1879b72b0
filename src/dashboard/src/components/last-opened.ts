import { useEffect, useRef } from "react";

/**
 * The props that a dialog shows: while it fades out, those it had when it was last open. Its owner has cleared them by
 * then, and the dialog would ask about something else.
 */
export function useLastOpened<T extends { opened: boolean }>(props: T): T {
  const last = useRef(props);
  useEffect(() => {
    if (props.opened) last.current = props;
  });
  return props.opened ? props : last.current;
}
