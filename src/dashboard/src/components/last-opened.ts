import { useEffect, useRef } from "react";

/**
 * What a dialog shows: while it fades out, what it showed last. What it is about is forgotten by then, and it
 * would ask something else.
 */
export function useLastOpened<T extends { opened: boolean }>(props: T): T {
  const last = useRef(props);
  useEffect(() => {
    if (props.opened) last.current = props;
  });
  return props.opened ? props : last.current;
}
