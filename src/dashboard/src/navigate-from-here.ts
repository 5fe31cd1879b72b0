import { useEffect, useRef } from "react";
import { useLocation, useNavigate } from "react-router";

/**
 * Leads on from the page that asked for something, when the answer is there. Whoever has gone elsewhere
 * meanwhile stays there.
 */
export function useNavigateFromHere(): (to: string) => Promise<void> {
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const shown = useRef<string>(undefined);
  useEffect(() => {
    shown.current = pathname;
    return () => {
      shown.current = undefined;
    };
  }, [pathname]);
  return async (to) => {
    if (shown.current === pathname) await navigate(to);
  };
}
