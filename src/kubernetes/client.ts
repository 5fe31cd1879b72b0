import type { KubeConfig } from "@kubernetes/client-node";
import { errors, request, type Dispatcher } from "undici";
import type { Monotonic, Random, Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-down.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { AnswerTooLarge, ApiError, isTooLarge, parseStatus } from "./api-error.ts";
import { createCredentials } from "./credentials.ts";
import { canonicalJson, parseExactJson } from "../domain/exact-json.ts";
import { backoffMs } from "../waiting/backoff.ts";
import { pause } from "../waiting/pause.ts";
import { untilAborted } from "../waiting/until-aborted.ts";
import { limited } from "../waiting/within.ts";

export interface ApiCall {
  verb: "get" | "list" | "create" | "update" | "patch" | "apply" | "delete";
  /** Plural name for the metrics, as in RBAC: `scheduledjobs`, `scheduledjobs/status`, `leases`. */
  resource: string;
  /** From the root: `/apis/carillon.dev/v1/namespaces/a/scheduledjobs`. */
  path: string;
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  /** For the verb `patch`: RFC 7396 (default) or RFC 6902. `apply` needs a `fieldManager` in the query. */
  patch?: "merge" | "json";
  signal?: AbortSignal;
  /** Milliseconds for the whole call, retries included. Default: 30 s. */
  timeoutMs?: number;
  /** Beyond so many bytes the answer is not read, and the call throws `AnswerTooLarge`. */
  mostBytes?: number;
  /** Told of the bytes of the answer, unless that is a refusal. */
  onSize?: (bytes: number) => void;
}

export interface KubernetesClient {
  /**
   * The answer's JSON. Throws `ApiError` for a refusal, `DependencyUnavailable` when the API server
   * gives no usable answer in time; an abort of `signal` throws its reason.
   */
  call<T>(call: ApiCall): Promise<T>;
  /** Opens a watch; the caller reads, and destroys, the body. Errors as for `call`; never retries. */
  watch(watch: {
    resource: string;
    path: string;
    query: Record<string, string | number | undefined>;
    signal: AbortSignal;
    /** The body errs after so many milliseconds without a byte. */
    inactivityMs: number;
  }): Promise<Dispatcher.ResponseData["body"]>;
  close(): Promise<void>;
}

export interface ClientDependencies {
  kubeConfig: KubeConfig;
  monotonic: Monotonic;
  timers: Timers;
  random: Random;
  metrics: Pick<Metrics, "kubernetesRequests" | "kubernetesRequestDuration">;
  userAgent: string;
  /** That calls share; watches have their own. Default 32. The elector has a client with one connection. */
  connections?: number;
  /** Milliseconds for a call that names no time of its own, retries included. Default: 30 s. */
  timeoutMs?: number;
}

const CONTENT_TYPES: Record<ApiCall["verb"], string> = {
  get: "",
  list: "",
  delete: "application/json",
  create: "application/json",
  update: "application/json",
  patch: "application/merge-patch+json",
  apply: "application/apply-patch+yaml",
};
const METHODS: Record<ApiCall["verb"], Dispatcher.HttpMethod> = {
  get: "GET",
  list: "GET",
  delete: "DELETE",
  create: "POST",
  update: "PUT",
  patch: "PATCH",
  apply: "PATCH",
};
const TIMEOUT_MS = 30_000;
/** As in client-go: a server that goes on asking for patience is down for the caller. */
const MAX_ATTEMPTS = 10;
/** A guard against a broken proxy. */
const MAX_RESPONSE_BYTES = 256 << 20;

/** What came of one try of a call. */
type Outcome =
  | { kind: "said"; said: unknown }
  | { kind: "refused"; error: ApiError }
  /** Nobody answered, or nobody who could. `again`: another try does no harm. */
  | { kind: "away"; cause: unknown; again: boolean; retryAfterSeconds?: number | undefined };

export function createKubernetesClient(dependencies: ClientDependencies): KubernetesClient {
  const { kubeConfig, monotonic, timers, random, metrics } = dependencies;
  const cluster = kubeConfig.getCurrentCluster();
  if (!cluster) throw new Error("the kubeconfig has no current cluster");
  const server = cluster.server.replace(/\/+$/, "");
  const credentials = createCredentials({
    kubeConfig,
    monotonic,
    connections: dependencies.connections ?? 32,
  });

  function url(path: string, query: ApiCall["query"] = {}): string {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) search.set(name, String(value));
    return `${server}${path}${search.size > 0 ? `?${search.toString()}` : ""}`;
  }

  /** One exchange, measured. Rejects when there is no answer. */
  async function exchange(
    verb: string,
    resource: string,
    target: string,
    options: Omit<Dispatcher.RequestOptions, "origin" | "path"> & { signal: AbortSignal },
  ): Promise<Dispatcher.ResponseData> {
    const access = await untilAborted(credentials.current(), options.signal);
    const began = monotonic();
    try {
      const answer = request(target, {
        ...options,
        dispatcher: verb === "watch" ? access.watches : access.calls,
        headers: {
          ...access.headers,
          accept: "application/json",
          "user-agent": dependencies.userAgent,
          ...(options.headers as Record<string, string>),
        },
      });
      // undici hears of an abort once a call has a connection: one that waits for it would wait on.
      const response = await untilAborted(answer, options.signal);
      metrics.kubernetesRequests.inc({ verb, resource, status: String(response.statusCode) });
      if (response.statusCode === 401) credentials.refused();
      return response;
    } catch (error) {
      metrics.kubernetesRequests.inc({ verb, resource, status: "error" });
      // A server with a new certificate: the CA file may have changed with it.
      credentials.doubted();
      throw error;
    } finally {
      metrics.kubernetesRequestDuration.observe({ verb, resource }, (monotonic() - began) / 1_000);
    }
  }

  /** One try. Throws what no other one would mend: an answer that is too large, and the caller's abort. */
  async function attempt(
    call: ApiCall,
    { signal, timeoutMs }: { signal: AbortSignal; timeoutMs: number },
  ): Promise<Outcome> {
    const reads = METHODS[call.verb] === "GET";
    const hasBody = call.body !== undefined;
    try {
      const response = await exchange(call.verb, call.resource, url(call.path, call.query), {
        method: METHODS[call.verb],
        headers: hasBody ? { "content-type": contentType(call) } : {},
        body: hasBody ? bodyText(call.body) : null,
        signal,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
      });
      const code = response.statusCode;
      const body = await readBody(response.body, call.mostBytes);
      if (code < 300) {
        const said = parseExactJson(body);
        // Whatever is named has a kind: else it is of a proxy, which says of everything that it is fine.
        if (!hasKind(said)) throw new Error("an answer that no API server gives");
        call.onSize?.(Buffer.byteLength(body));
        return { kind: "said", said };
      }
      const error = new ApiError(code, parseStatus(body), nameOf(call));
      const answered = code !== 429 && code < 500 && !isOfSomebodyElse(call, code, body);
      if (answered || isTooLarge(error)) return { kind: "refused", error };
      const retryAfterSeconds = retryAfterOf(response);
      // Refused before any work (priority and fairness, shutdown): so say 429 and 503, and any 5xx with Retry-After.
      const unread = code === 429 || code === 503 || retryAfterSeconds !== undefined;
      return { kind: "away", cause: error, again: reads || unread, retryAfterSeconds };
    } catch (cause) {
      if (cause instanceof AnswerTooLarge && call.mostBytes !== undefined) throw cause;
      call.signal?.throwIfAborted();
      // Whether a change was made is unknown: only reading again is safe without asking.
      return { kind: "away", cause, again: reads || wasNeverSent(cause) };
    }
  }

  async function call<T>(call: ApiCall): Promise<T> {
    const timeoutMs = call.timeoutMs ?? dependencies.timeoutMs ?? TIMEOUT_MS;
    const deadline = monotonic() + timeoutMs;
    return limited({ ms: timeoutMs, timers, signal: call.signal }, async (signal) => {
      let refusedOnce = false;
      for (let attempts = 1; ; attempts += 1) {
        const outcome = await attempt(call, { signal, timeoutMs });
        if (outcome.kind === "said") return outcome.said as T;
        if (outcome.kind === "refused") {
          // A rotated token: once more with what the file says now.
          if (outcome.error.code !== 401 || refusedOnce) throw outcome.error;
          refusedOnce = true;
          continue;
        }
        const { cause, again, retryAfterSeconds: asked } = outcome;
        const waitMs = asked === undefined ? backoffMs(attempts - 1, random) : asked * 1_000;
        if (!again || attempts >= MAX_ATTEMPTS || monotonic() + waitMs >= deadline)
          throw unavailable(nameOf(call), cause, asked);
        await pause(waitMs, timers, signal);
        call.signal?.throwIfAborted();
      }
    });
  }

  return {
    call,
    async watch(watch) {
      const what = `watch ${watch.path}`;
      let response: Dispatcher.ResponseData;
      try {
        // A plugin of the kubeconfig may ask a person, or hang: it is waited for no longer than the next byte.
        await limited({ ms: watch.inactivityMs, timers, signal: watch.signal }, (signal) =>
          untilAborted(credentials.current(), signal),
        );
        response = await exchange("watch", watch.resource, url(watch.path, watch.query), {
          method: "GET",
          signal: watch.signal,
          headersTimeout: watch.inactivityMs,
          bodyTimeout: watch.inactivityMs,
        });
      } catch (error) {
        watch.signal.throwIfAborted();
        throw unavailable(what, error);
      }
      if (response.statusCode === 200) return response.body;
      const body = await readBody(response.body).catch(() => "");
      const error = new ApiError(response.statusCode, parseStatus(body), what);
      const { statusCode: code } = response;
      if (code === 429 || code >= 500 || isElsewhere(code))
        throw unavailable(what, error, retryAfterOf(response));
      throw error;
    },
    close: () => credentials.close(),
  };
}

function contentType(call: ApiCall): string {
  return call.patch === "json" ? "application/json-patch+json" : CONTENT_TYPES[call.verb];
}

function nameOf({ verb, path }: ApiCall): string {
  return `${verb} ${path}`;
}

/**
 * What a proxy says while it has no API server to ask. An API server says what it does not find in a Status, but of a
 * kind that nobody serves, as ours may be; the kinds of /api/v1 all of them serve.
 */
function isOfSomebodyElse(call: ApiCall, code: number, body: string): boolean {
  if (isElsewhere(code)) return true;
  if (code !== 404 || parseStatus(body) !== undefined) return false;
  return call.path.startsWith("/api/v1/") || !body.startsWith("404 page not found");
}

/** An API server sends nobody away from what we ask for: a proxy does, to where people sign in. */
function isElsewhere(code: number): boolean {
  return code >= 300 && code < 400;
}

function hasKind(said: unknown): boolean {
  return (
    typeof said === "object" && said !== null && "kind" in said && typeof said.kind === "string"
  );
}

/** In seconds; an API server does not use the form with a date. */
function retryAfterOf(response: Dispatcher.ResponseData): number | undefined {
  const header = response.headers["retry-after"];
  const seconds = typeof header === "string" ? Number(header) : Number.NaN;
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
}

/** There was no connection, or no handshake: nothing can have been changed. */
function wasNeverSent(error: unknown): boolean {
  if (error instanceof errors.ConnectTimeoutError) return true;
  const code = (error as NodeJS.ErrnoException).code ?? "";
  if (/CERT|SIGNED|UNABLE_TO_VERIFY|^ERR_(SSL|TLS)_/.test(code)) return true;
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"].includes(code);
}

function unavailable(what: string, cause: unknown, retryAfterSeconds?: number): Error {
  return new DependencyUnavailable("kubernetes", {
    cause: cause instanceof ApiError ? cause : new Error(what, { cause }),
    retryAfterSeconds,
  });
}

async function readBody(
  body: Dispatcher.ResponseData["body"],
  most = MAX_RESPONSE_BYTES,
): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > most) throw new AnswerTooLarge(`an answer of more than ${most} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size).toString("utf8");
}

/** A resource is written back whole, and somebody's payload may be nested deeper than the stack. */
function bodyText(body: unknown): string {
  try {
    return JSON.stringify(body);
  } catch (error) {
    if (error instanceof RangeError) return canonicalJson(body);
    throw error;
  }
}
