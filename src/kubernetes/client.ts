import type { KubeConfig } from "@kubernetes/client-node";
import { errors, request, type Dispatcher } from "undici";
import type { Monotonic, Random, Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { AnswerTooLarge, ApiError, isTooLarge, parseStatus } from "./api-error.ts";
import { createCredentials } from "./credentials.ts";
import { canonicalJson, parseExactJson } from "../domain/exact-json.ts";
import { backoffMs } from "../waiting/backoff.ts";
import { pause } from "../waiting/pause.ts";
import { untilAborted } from "../waiting/until-aborted.ts";
import { withTimeout } from "../waiting/within.ts";

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
  /** Called before each try: what it throws ends the call, before anything of the try is sent. */
  beforeTry?: () => void;
  /** Milliseconds for the whole call, retries included. Default: 30 s. */
  timeoutMs?: number;
  /** Of a longer answer, in bytes, the rest is not read, and the call throws `AnswerTooLarge`. */
  mostBytes?: number;
  /** Called with the size of the answer, unless that is a refusal. */
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
    /** The body fails after so many milliseconds without a byte. */
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
  /** Connections that calls share; each watch has its own. Default 32. The elector has a client with one. */
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
/** As in client-go: for the caller, a server that keeps asking for another try is down. */
const MAX_ATTEMPTS = 10;
/** A guard against a broken proxy. */
const MAX_RESPONSE_BYTES = 256 << 20;

/** The result of one try of a call. */
type Outcome =
  | { kind: "answered"; answer: unknown }
  | { kind: "refused"; error: ApiError }
  /** No answer, or none of a working API server. `again`: another try does no harm. */
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
      // undici heeds an abort only once a call has a connection: one that waits for a connection would go on waiting.
      const response = await untilAborted(answer, options.signal);
      metrics.kubernetesRequests.inc({ verb, resource, status: String(response.statusCode) });
      if (response.statusCode === 401) credentials.invalidateAll();
      return response;
    } catch (error) {
      metrics.kubernetesRequests.inc({ verb, resource, status: "error" });
      // The server may have a new certificate, and the CA file may have changed with it.
      credentials.invalidate();
      throw error;
    } finally {
      metrics.kubernetesRequestDuration.observe({ verb, resource }, (monotonic() - began) / 1_000);
    }
  }

  /** One try. Throws only what another try cannot mend: an answer that is too large, or the caller's abort. */
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
        const answer = parseExactJson(body);
        // Every API object has a kind. Without one this is a proxy that answers 200 to everything.
        if (!hasKind(answer)) throw new Error("an answer that no API server gives");
        call.onSize?.(Buffer.byteLength(body));
        return { kind: "answered", answer };
      }
      const error = new ApiError(code, parseStatus(body), nameOf(call));
      const refused = code !== 429 && code < 500 && !isProxysAnswer(call, code, body);
      if (refused || isTooLarge(error)) return { kind: "refused", error };
      const retryAfterSeconds = retryAfterOf(response);
      // Turned away before any work (priority and fairness, shutdown): 429, 503, and any 5xx with Retry-After.
      const notBegun = code === 429 || code === 503 || retryAfterSeconds !== undefined;
      return { kind: "away", cause: error, again: reads || notBegun, retryAfterSeconds };
    } catch (cause) {
      if (cause instanceof AnswerTooLarge && call.mostBytes !== undefined) throw cause;
      call.signal?.throwIfAborted();
      // Whether a change was made is unknown: only a read can simply be repeated.
      return { kind: "away", cause, again: reads || wasNeverSent(cause) };
    }
  }

  async function call<T>(call: ApiCall): Promise<T> {
    const timeoutMs = call.timeoutMs ?? dependencies.timeoutMs ?? TIMEOUT_MS;
    const deadline = monotonic() + timeoutMs;
    return withTimeout({ ms: timeoutMs, timers, signal: call.signal }, async (signal) => {
      let refusedOnce = false;
      for (let attempts = 1; ; attempts += 1) {
        call.beforeTry?.();
        const outcome = await attempt(call, { signal, timeoutMs });
        if (outcome.kind === "answered") return outcome.answer as T;
        if (outcome.kind === "refused") {
          // The token may have been rotated: once more, with the one that the file has now.
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
        // A plugin of the kubeconfig may ask a person, or hang: the wait for it is bounded like that for a byte.
        await withTimeout({ ms: watch.inactivityMs, timers, signal: watch.signal }, (signal) =>
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
      if (code === 429 || code >= 500 || isRedirect(code))
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
 * Whether this is the answer of a proxy that has no API server behind it. An API server's 404 is a Status, except for a
 * kind that it does not serve: ours may be one, those of /api/v1 never are.
 */
function isProxysAnswer(call: ApiCall, code: number, body: string): boolean {
  if (isRedirect(code)) return true;
  if (code !== 404 || parseStatus(body) !== undefined) return false;
  return call.path.startsWith("/api/v1/") || !body.startsWith("404 page not found");
}

/** An API server never redirects our requests. A proxy does, to a page where people sign in. */
function isRedirect(code: number): boolean {
  return code >= 300 && code < 400;
}

function hasKind(answer: unknown): boolean {
  return (
    typeof answer === "object" &&
    answer !== null &&
    "kind" in answer &&
    typeof answer.kind === "string"
  );
}

/** Seconds. An API server does not use the form with a date. */
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

/** A resource is written back whole, and its payload may be nested deeper than the stack of JSON.stringify. */
function bodyText(body: unknown): string {
  try {
    return JSON.stringify(body);
  } catch (error) {
    if (error instanceof RangeError) return canonicalJson(body);
    throw error;
  }
}
