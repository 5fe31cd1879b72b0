import { parseExactly } from "./exact-json.ts";
import { hearServerClock } from "./server-clock.ts";

/** An answer of the gateway that is not a success. `details` name the fields that were refused. */
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

/** Of an answer that did not come within the patience for it: asking once more would take as long again. */
export const UNANSWERED = "unanswered";

/** Of something that may have been done, or not. */
export const IN_DOUBT = "in_doubt";

/** Far longer than an answer takes: over a network that went away without a word, a request would wait for minutes. */
const PATIENCE_MS = { toRead: 30_000, toChange: 120_000 };

type Method = "GET" | "POST" | "PATCH" | "DELETE";

interface Asked {
  method: Method;
  path: string;
  body?: unknown;
  /** Whether something may have been done, even if no answer comes. */
  changes: boolean;
  idempotencyKey?: string;
}

/** One exchange with the dashboard's API. Throws ApiError, also when the server cannot be reached. */
async function patiently<T>(asked: Asked): Promise<T> {
  const patience = new AbortController();
  const timer = setTimeout(
    () => {
      patience.abort();
    },
    asked.changes ? PATIENCE_MS.toChange : PATIENCE_MS.toRead,
  );
  try {
    return await exchange<T>(asked, patience.signal);
  } finally {
    clearTimeout(timer);
  }
}

async function exchange<T>(
  { method, path, body, changes, idempotencyKey }: Asked,
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
  const asked = Date.now();
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
  hearServerClock(response.headers.get("Date"), asked);
  const answer = await response
    .text()
    .then(parseExactly)
    .catch(() => undefined);
  // A proxy's, which did not hear what became of it.
  if (response.status >= 500 && !isOurs(answer))
    throw noAnswer(`The server answered ${response.status}.`, response.status);
  if (!response.ok) throw new ApiError(response.status, answer ?? {});
  if (answer === undefined)
    throw noAnswer("Carillon's answer cannot be read: it was cut off, or is another program's.");
  return answer as T;
}

/** Not another program's, in JSON or not: some of them have an `error` too. */
function isOurs(problem: unknown): boolean {
  const { error, code } = Object(problem) as { error?: unknown; code?: unknown };
  return typeof error === "string" && typeof code === "string";
}

export const get = <T>(path: string): Promise<T> =>
  patiently<T>({ method: "GET", path, changes: false });
/** By POST, what may be asked again: what is too long or too secret for an address, and who somebody is. */
export const ask = <T>(path: string, body: unknown): Promise<T> =>
  patiently<T>({ method: "POST", path, body, changes: false });
export const call = <T>(method: Exclude<Method, "GET">, path: string, body?: unknown): Promise<T> =>
  patiently<T>({ method, path, body, changes: true });
export const post = <T>(path: string, body?: unknown): Promise<T> => call<T>("POST", path, body);

/** By POST, what is to be made once: whoever tries again, when the answer was lost, gets what the first try made. */
export function making<T>(path: string): (body: unknown) => Promise<T> {
  let tried: { text: string; idempotencyKey: string } | undefined;
  return async (body) => {
    const text = JSON.stringify(body);
    if (tried?.text !== text) tried = { text, idempotencyKey: randomKey() };
    const { idempotencyKey } = tried;
    return patiently<T>({ method: "POST", path, body, changes: true, idempotencyKey });
  };
}

/** randomUUID is not there over http. */
function randomKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}

/** `?a=1&b=2` of the members that have a value. */
export function search(query: Record<string, string | number | null | undefined>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}
