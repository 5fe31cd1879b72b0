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
import { ApiError, IN_DOUBT, UNANSWERED } from "./api.ts";
import { router } from "./routes.tsx";
import { followOtherTabs, lookAgain } from "./session.ts";
import { createSteadyScheduler } from "./steady.ts";
import { cssVariables, theme } from "./theme.ts";
import { WholeRouter } from "./whole-router.ts";

const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";
// The scroll lock of modals writes a style element; this is the name by which it looks for the nonce.
Object.assign(globalThis, { __webpack_nonce__: nonce });

/** The session, or the role in it, is no longer what the page was drawn for. */
const NOT_WHO_IT_SEEMS = ["signed_out", "forbidden"];

function onError(error: unknown): void {
  if (error instanceof ApiError && NOT_WHO_IT_SEEMS.includes(error.code)) lookAgain(queryClient);
}

/** Whoever is told to look whether it was done sees how it is now, also on pages that do not ask by themselves. */
function onChangeFailed(error: unknown): void {
  onError(error);
  if (error instanceof ApiError && error.code === IN_DOUBT) void queryClient.invalidateQueries();
}

/** Asked at once again, the same would be said, or as long be waited for. */
function isFinal({ status, code }: ApiError): boolean {
  return (status >= 400 && status < 500) || code === UNANSWERED;
}

// What a click has begun is shown before the next click or key comes. By default a timer is between them, and
// a question could be closed while it is being done.
notifyManager.setScheduler(createSteadyScheduler(window));

// A key that is held down does once what it does: whoever presses it for longer would run a job eight times.
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
    // What the browser thinks of the network says nothing about a program on the same machine; and what
    // somebody clicked must fail now, not be done some time later when a network is back.
    mutations: { networkMode: "always" },
    queries: {
      networkMode: "always",
      refetchOnReconnect: true,
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && isFinal(error)),
      staleTime: 2_000,
    },
  },
});

followOtherTabs(queryClient);

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
