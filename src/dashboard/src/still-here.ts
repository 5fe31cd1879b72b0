import { useLayoutEffect, useRef } from "react";
import { useLocation, useNavigate } from "react-router";
import { useWholeRouter } from "./whole-router.ts";

/**
 * Whether somebody is still on the page that asks, and not on the way to another whose code is being loaded. The
 * router is asked itself: what is rendered may not know of the click yet.
 */
export function useStillHere(): () => boolean {
  const router = useWholeRouter();
  const { pathname } = useLocation();
  const shown = useRef(false);
  useLayoutEffect(() => {
    shown.current = true;
    return () => {
      shown.current = false;
    };
  }, []);
  return () =>
    shown.current &&
    router.state.navigation.state === "idle" &&
    // As it is in the address, where there may be a slash too many.
    (router.state.location.pathname.slice(router.basename?.length) || "/") === pathname;
}

/**
 * Leads on from the page that asked for something, when the answer is there. Whoever has gone elsewhere
 * meanwhile stays there.
 */
export function useNavigateFromHere(): (to: string) => Promise<void> {
  const navigate = useNavigate();
  const stillHere = useStillHere();
  return async (to) => {
    if (stillHere()) await navigate(to);
  };
}
