import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import {
  MutationCache,
  notifyManager,
  QueryCache,
  QueryClient,
  QueryClientProvider,
} from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { RouterProvider } from "react-router/dom";
import { triesAgainAfter, triesAtOnce, tryAgainWhenShown } from "./again.ts";
import { ApiError, IN_DOUBT } from "./api.ts";
import { router } from "./routes.tsx";
import { followOtherTabs, recheckSession } from "./session.ts";
import { createSteadyScheduler } from "./steady.ts";
import { cssVariables, theme } from "./theme.ts";
import { WholeRouter } from "./whole-router.ts";

const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";
// The scroll lock of modals writes a style element; this is the name by which it looks for the nonce.
Object.assign(globalThis, { __webpack_nonce__: nonce });

/** Errors after which the session, or the role in it, may no longer be what the page shows. */
const SESSION_MAY_HAVE_CHANGED = ["signed_out", "forbidden"];

function onError(error: unknown): void {
  if (error instanceof ApiError && SESSION_MAY_HAVE_CHANGED.includes(error.code))
    recheckSession(queryClient);
}

/**
 * When nobody knows whether a change was made, everything is loaded again: the error tells the user to look, and not
 * every page refreshes by itself.
 */
function onChangeFailed(error: unknown): void {
  onError(error);
  if (error instanceof ApiError && error.code === IN_DOUBT) void queryClient.invalidateQueries();
}

// Shows what a click has begun before the next click or key comes. By default a timer is in between: a dialog could
// still be cancelled while its action is already under way.
notifyManager.setScheduler(createSteadyScheduler(window));

// An Enter key that is held down acts once: its repetitions would run a job eight times.
addEventListener(
  "keydown",
  (event) => {
    const { key, repeat, target } = event;
    if (repeat && key === "Enter" && !(target instanceof HTMLTextAreaElement))
      event.preventDefault();
  },
  true,
);

const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({ onError: onChangeFailed }),
  defaultOptions: {
    // Requests are sent even when the browser believes to be offline: Carillon may run on the same machine. And what
    // somebody clicked must fail now, not be done some time later when the network is back.
    mutations: { networkMode: "always" },
    queries: {
      networkMode: "always",
      refetchOnReconnect: true,
      retry: triesAtOnce,
      refetchInterval: triesAgainAfter,
      staleTime: 2_000,
    },
  },
});

followOtherTabs(queryClient);
tryAgainWhenShown(queryClient);

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      cssVariablesResolver={cssVariables}
      defaultColorScheme="auto"
      getStyleNonce={() => nonce}
    >
      <QueryClientProvider client={queryClient}>
        <Notifications position="bottom-right" portalProps={{ target: document.body }} />
        <WholeRouter value={router}>
          <RouterProvider router={router} />
        </WholeRouter>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
