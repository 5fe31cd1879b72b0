import { notifications } from "@mantine/notifications";
import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { ApiError, get } from "./api.ts";
import type { Session } from "./api-types.ts";

const KEY = ["session"];

/** What one tab of the browser writes, the others are told: the cookie is theirs, too. */
const SIGNAL = "carillon-session-changed";

/** Null: nobody is signed in. */
export function useSessionQuery() {
  return useQuery<Session | null>({
    queryKey: KEY,
    queryFn: async ({ client }) => {
      const session = await current();
      const before = client.getQueryData<Session | null>(KEY);
      // Another tab has signed in as somebody else.
      if (before && before.user.id !== session?.user.id) forget(client);
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
    if (key === SIGNAL) void client.invalidateQueries({ queryKey: KEY });
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

export function signedInAs(client: QueryClient, session: Session | null): void {
  forget(client);
  notifications.hide(ENDED);
  client.setQueryData(KEY, session);
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

/** The server says that nobody is signed in any more, whatever the page was doing. */
export function sessionEnded(client: QueryClient): void {
  const was = client.getQueryData<Session | null>(KEY);
  signedInAs(client, null);
  if (was)
    notifications.show({
      id: ENDED,
      color: "orange.9",
      message: "Your session has ended. Sign in again.",
      autoClose: false,
    });
}
