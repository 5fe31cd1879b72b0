import { focusManager, type Query, type QueryClient } from "@tanstack/react-query";
import { ApiError, UNANSWERED } from "./api.ts";

/** Milliseconds from the failure of a query to its next try: doubled with each failure, up to the longest. */
const WAIT_MS = { first: 5_000, longest: 30_000 };

/** The part of a query that tells when it is tried again. */
type Failing = Pick<Query["state"], "status" | "error" | "errorUpdateCount">;

/** `retry` of a query. Not after an answer that another try at once would get again, or wait as long for. */
export function triesAtOnce(failures: number, error: Error): boolean {
  return (
    failures < 2 && mayPass(error) && !(error instanceof ApiError && error.code === UNANSWERED)
  );
}

/**
 * `refetchInterval` of a query that asks only once: while its failure is shown, it asks again, so that a page comes
 * back by itself when the server does. Only queries do: what the user has clicked is never done by itself.
 */
export function triesAgainAfter({ state }: { state: Failing }): number | false {
  if (!hasFailed({ state })) return false;
  return Math.min(WAIT_MS.first * 2 ** (state.errorUpdateCount - 1), WAIT_MS.longest);
}

/** A hidden page waits: when it is shown again, what has failed is asked for at once. */
export function tryAgainWhenShown(client: QueryClient): void {
  focusManager.subscribe((shown) => {
    if (shown)
      void client.refetchQueries(
        { type: "active", predicate: hasFailed },
        { cancelRefetch: false },
      );
  });
}

function hasFailed({ state }: { state: Failing }): boolean {
  return state.status === "error" && mayPass(state.error);
}

/** Whether the same question may get another answer later: it cannot when the gateway itself has refused it. */
function mayPass(error: Error | null): boolean {
  return !(
    error instanceof ApiError &&
    error.status >= 400 &&
    error.status < 500 &&
    error.code !== ""
  );
}
