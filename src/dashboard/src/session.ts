import { notifications } from "@mantine/notifications";
import { useQueryClient, type QueryClient } from "@tanstack/react-query";
import { get, isSignedOut } from "./api.ts";
import type { Account, Session } from "./api-types.ts";
import { useLoaded } from "./loaded.ts";
import { dropUnsavedOfOthers } from "./unsaved.ts";

const KEY = ["session"];

/** Key in the browser's storage. A tab that writes it tells the others, which share its cookie. */
const SIGNAL = "carillon-session-changed";

/** The session; null when nobody is signed in. */
export function useSessionQuery() {
  return useLoaded<Session | null>({
    queryKey: KEY,
    queryFn: async ({ client, signal }) => {
      const session = await fetchSession();
      // Somebody has signed in or out meanwhile: this answer is about the session before.
      if (signal.aborted) return session;
      const before = client.getQueryData<Session | null>(KEY);
      if (before && before.user.id !== session?.user.id) {
        forgetLoaded(client);
        if (session === null) sayEnded();
      }
      if (session) notifications.hide(ENDED);
      if (session && before?.user.id === session.user.id && before.user.role !== session.user.role)
        sayRoleChanged(client, session);
      return session;
    },
    staleTime: 60_000,
    refetchOnWindowFocus: "always",
  });
}

async function fetchSession(): Promise<Session | null> {
  try {
    return await get<Session>("/session");
  } catch (error) {
    if (isSignedOut(error)) return null;
    throw error;
  }
}

/** Asks for the session again when another tab has signed in or out. */
export function followOtherTabs(client: QueryClient): void {
  addEventListener("storage", ({ key }) => {
    if (key === SIGNAL) recheckSession(client);
  });
}

/** For everything inside the shell, which is only shown to somebody who is signed in. */
export function useSession(): Session {
  const { data } = useSessionQuery();
  if (!data) throw new Error("there is no session");
  return data;
}

export function useSignedIn(): (session: Session | null) => void {
  const client = useQueryClient();
  return (session) => {
    signedInAs(client, session);
  };
}

function signedInAs(client: QueryClient, session: Session | null): void {
  void client.cancelQueries({ queryKey: KEY });
  forgetLoaded(client);
  dropUnsavedOfOthers(session?.user.id);
  notifications.hide(ENDED);
  client.setQueryData(KEY, session);
  tellOtherTabs();
}

/**
 * Takes in a change of the account that the user has made. A late answer to somebody who was signed in before is
 * about another account, and changes nothing.
 */
export function accountChanged(client: QueryClient, account: Account): void {
  const session = client.getQueryData<Session | null>(KEY);
  if (session?.account.id !== account.id) return;
  void client.cancelQueries({ queryKey: KEY });
  client.setQueryData(KEY, { ...session, account });
  tellOtherTabs();
}

function tellOtherTabs(): void {
  try {
    localStorage.setItem(SIGNAL, String(Date.now()));
  } catch {
    // Storage is blocked: the other tabs ask again when they get the focus.
  }
}

/** Forgets what an earlier user has loaded, so that the next one does not see it. */
function forgetLoaded(client: QueryClient): void {
  client.removeQueries({ predicate: (query) => query.queryKey[0] !== KEY[0] });
}

const ENDED = "session-ended";

function sayEnded(): void {
  notifications.show({
    id: ENDED,
    color: "orange.9",
    message: "Your session has ended. Sign in again.",
    autoClose: false,
  });
}

const ROLE_CHANGED = "role-changed";

/** Says so: with the role, actions disappear from the page, and with them any error that they showed. */
function sayRoleChanged(client: QueryClient, { user }: Session): void {
  // A message about an earlier change of the role is no longer true.
  notifications.hide(ROLE_CHANGED);
  notifications.show({
    id: ROLE_CHANGED,
    color: "orange.9",
    message: `Your role is “${user.role}” now.`,
    autoClose: false,
  });
  void client.invalidateQueries({ queryKey: ["users"] });
}

/**
 * Asks for the session again, after an answer that did not fit it, such as that nobody is signed in. That request
 * may have been sent before somebody signed in, in this tab or in another: only the session itself tells.
 */
export function recheckSession(client: QueryClient): void {
  void client.invalidateQueries({ queryKey: KEY });
}
