import { notifications } from "@mantine/notifications";
import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { ApiError, get } from "./api.ts";
import type { Account, Session } from "./api-types.ts";
import { dropUnsavedOfOthers } from "./unsaved.ts";

const KEY = ["session"];

/** What one tab of the browser writes, the others are told: the cookie is theirs, too. */
const SIGNAL = "carillon-session-changed";

/** Null: nobody is signed in. */
export function useSessionQuery() {
  return useQuery<Session | null>({
    queryKey: KEY,
    queryFn: async ({ client, signal }) => {
      const session = await current();
      // Somebody has signed in or out meanwhile: this is about what was before.
      if (signal.aborted) return session;
      const before = client.getQueryData<Session | null>(KEY);
      if (before && before.user.id !== session?.user.id) {
        forget(client);
        if (session === null) sayEnded();
      }
      if (session) notifications.hide(ENDED);
      if (session && before?.user.id === session.user.id && before.user.role !== session.user.role)
        roleChanged(client, session);
      return session;
    },
    staleTime: 60_000,
    refetchOnWindowFocus: "always",
  });
}

async function current(): Promise<Session | null> {
  try {
    return await get<Session>("/session");
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null;
    throw error;
  }
}

/** Looks again when another tab has signed in or out. */
export function followOtherTabs(client: QueryClient): void {
  addEventListener("storage", ({ key }) => {
    if (key === SIGNAL) lookAgain(client);
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
  forget(client);
  dropUnsavedOfOthers(session?.user.id);
  notifications.hide(ENDED);
  client.setQueryData(KEY, session);
  tellOtherTabs();
}

/** By whoever is signed in. By somebody before, whose answer comes late: then it changes nothing here. */
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
    // Storage is blocked: the others look again when somebody looks at them.
  }
}

/** What an earlier user loaded is nothing for the next one. */
function forget(client: QueryClient): void {
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

/** What may no longer be done goes away from the page, and with it whatever said so. */
function roleChanged(client: QueryClient, { user }: Session): void {
  // What was said of the role before is not true any more.
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
 * Something was answered that nobody is signed in. It may have been asked before somebody signed in, in this
 * tab or in another: only the session itself tells.
 */
export function lookAgain(client: QueryClient): void {
  void client.invalidateQueries({ queryKey: KEY });
}
