import { parseExactly } from "./exact-json.ts";
import { hearServerClock } from "./server-clock.ts";

/**
 * An answer that is not a success. `code` is the gateway's word for why; it is empty if the answer is not the gateway's,
 * but a proxy's: its 404 says nothing of a job, and its 401 nothing of the session. `details` name the fields that were
 * refused.
 */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: readonly { field: string; message: string }[];
  constructor(
    status: number,
    body: { error?: string; code?: string; details?: { field: string; message: string }[] },
  ) {
    super(body.error ?? `the server answered ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.code = body.code ?? "";
    this.details = body.details ?? [];
  }
}

/** Code of an `ApiError`: no answer came within `PATIENCE_MS`. Another try would take as long again. */
export const UNANSWERED = "unanswered";

/** Code of an `ApiError`: nobody knows whether the change was made. */
export const IN_DOUBT = "in_doubt";

/**
 * How long to wait for an answer: far longer than one takes. Without a limit, a request whose connection was lost
 * without notice would wait for many minutes.
 */
const PATIENCE_MS = { toRead: 30_000, toChange: 120_000 };

type Method = "GET" | "POST" | "PATCH" | "DELETE";

interface ApiRequest {
  method: Method;
  path: string;
  body?: unknown;
  /** Whether it changes something: then it may have been done even if no answer comes. */
  changes: boolean;
  idempotencyKey?: string;
}

/** One exchange with the dashboard's API. Throws ApiError, also when the server cannot be reached. */
async function send<T>(request: ApiRequest): Promise<T> {
  const patience = new AbortController();
  const timer = setTimeout(
    () => {
      patience.abort();
    },
    request.changes ? PATIENCE_MS.toChange : PATIENCE_MS.toRead,
  );
  try {
    return await exchange<T>(request, patience.signal);
  } finally {
    clearTimeout(timer);
  }
}

async function exchange<T>(
  { method, path, body, changes, idempotencyKey }: ApiRequest,
  signal: AbortSignal,
): Promise<T> {
  const noAnswer = (why: string, status = 0) => {
    const [text, code] = signal.aborted ? ["Carillon does not answer.", UNANSWERED] : [why, ""];
    return changes
      ? new ApiError(status, {
          error: `${text} Look whether it was done all the same.`,
          code: IN_DOUBT,
        })
      : new ApiError(status, { error: text, code });
  };
  const askedAt = Date.now();
  let response: Response;
  try {
    response = await fetch(`/dashboard/api${path}`, {
      method,
      credentials: "same-origin",
      signal,
      headers: {
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch {
    throw noAnswer("Carillon cannot be reached. Is it running?");
  }
  hearServerClock(response.headers.get("Date"), askedAt);
  const answer = await response
    .text()
    .then(parseExactly)
    .catch(() => undefined);
  // Such an answer is a proxy's, which does not know whether the change was made.
  if (response.status >= 500 && !isOurs(answer))
    throw noAnswer(`The server answered ${response.status}.`, response.status);
  if (!response.ok) throw new ApiError(response.status, isOurs(answer) ? answer : {});
  if (answer === undefined)
    throw noAnswer("Carillon's answer cannot be read: it was cut off, or is another program's.");
  return answer as T;
}

/** The gateway says that nobody is signed in. */
export function isSignedOut(error: unknown): boolean {
  return error instanceof ApiError && error.code === "signed_out";
}

/** An error of the gateway, not of a proxy. Both members are required: other programs' errors may have an `error`. */
function isOurs(problem: unknown): problem is { error: string; code: string } {
  const { error, code } = Object(problem) as { error?: unknown; code?: unknown };
  return typeof error === "string" && typeof code === "string";
}

export const get = <T>(path: string): Promise<T> =>
  send<T>({ method: "GET", path, changes: false });
/** A POST that is safe to repeat: a question that is too long or too secret for an address, or a sign-in. */
export const ask = <T>(path: string, body: unknown): Promise<T> =>
  send<T>({ method: "POST", path, body, changes: false });
export const call = <T>(method: Exclude<Method, "GET">, path: string, body?: unknown): Promise<T> =>
  send<T>({ method, path, body, changes: true });
export const post = <T>(path: string, body?: unknown): Promise<T> => call<T>("POST", path, body);

/**
 * Creates something by POST, at most once: another try with the same body, after an answer was lost, gets what the
 * first try created.
 */
export function idempotentPost<T>(path: string): (body: unknown) => Promise<T> {
  let tried: { text: string; idempotencyKey: string } | undefined;
  return async (body) => {
    const text = JSON.stringify(body);
    if (tried?.text !== text) tried = { text, idempotencyKey: randomKey() };
    const { idempotencyKey } = tried;
    return send<T>({ method: "POST", path, body, changes: true, idempotencyKey });
  };
}

/** Not by `randomUUID`, which browsers do not offer to a page that came over http. */
function randomKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}

/** `?a=1&b=2`, without the members that are null, undefined or empty. */
export function search(query: Record<string, string | number | null | undefined>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}
