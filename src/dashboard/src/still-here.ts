import { useLayoutEffect, useRef } from "react";
import { useLocation, useNavigate, type NavigateOptions } from "react-router";
import { useWholeRouter } from "./whole-router.ts";

/**
 * Whether the user is still on the calling page, and not on the way to another whose code is being loaded. The router
 * itself is asked: what is rendered may not reflect the click yet.
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
    // Without the base name, but otherwise as in the address, where there may be a slash too many.
    (router.state.location.pathname.slice(router.basename?.length) || "/") === pathname;
}

/**
 * Navigates on from the calling page when an answer has come, unless the user has gone elsewhere meanwhile.
 */
export function useNavigateFromHere(): (to: string, options?: NavigateOptions) => Promise<void> {
  const navigate = useNavigate();
  const stillHere = useStillHere();
  return async (to, options) => {
    if (stillHere()) await navigate(to, options);
  };
}
