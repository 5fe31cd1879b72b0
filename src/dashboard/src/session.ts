import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { ApiError, get } from "./api.ts";
import type { Session } from "./api-types.ts";

const KEY = ["session"];

/** Null: nobody is signed in. */
export function useSessionQuery() {
  return useQuery<Session | null>({
    queryKey: KEY,
    queryFn: async () => {
      try {
        return await get<Session>("/session");
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) return null;
        throw error;
      }
    },
    staleTime: 60_000,
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

/** What an earlier user loaded is nothing for the next one. */
export function signedInAs(client: QueryClient, session: Session | null): void {
  client.removeQueries({ predicate: (query) => query.queryKey[0] !== KEY[0] });
  client.setQueryData(KEY, session);
}
