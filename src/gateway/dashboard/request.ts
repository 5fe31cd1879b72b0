import type { User } from "../../domain/account.ts";
import type { ApiAnswer, ApiRequest } from "../endpoint.ts";
import { ApiError } from "../errors.ts";

/** A request of the dashboard that passed every check of its endpoint. */
export interface DashboardRequest<Body = unknown, Query = unknown> extends ApiRequest<Body, Query> {
  /** Undefined on open endpoints only. */
  user: User | undefined;
  /** The session token that came along, valid or not. */
  token: string | undefined;
  /** Whether the user signed in within the last ten minutes. */
  fresh: boolean;
  /** The Cookie header. */
  cookies: string;
  host: string;
  /** `https://host` of the dashboard; on reads, which need none, empty. */
  origin: string;
  /** What sign-ins are counted by: the address of the client, or its network; see `clientAddress`. */
  client: string;
}

export type DashboardHandler<Body = never, Query = never> = (
  request: DashboardRequest<Body, Query>,
) => Promise<ApiAnswer>;

/** The user of a request to an endpoint that is not open. */
export function signedIn(request: Pick<DashboardRequest, "user">): User {
  if (!request.user) throw new ApiError("signed_out", "you are not signed in");
  return request.user;
}

export const DONE: ApiAnswer = { status: 200, body: { message: "done" } };
