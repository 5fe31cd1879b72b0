import { readFile } from "node:fs/promises";
import type { AgentOptions, RequestOptions } from "node:https";
import { KubeConfig } from "@kubernetes/client-node";
import { Agent, ProxyAgent, type Dispatcher } from "undici";
import type { Monotonic } from "../domain/ports/clock.ts";

/** What authenticates one request, and the pools of connections that may carry it. */
export interface Access {
  headers: Record<string, string>;
  /** For calls, which share a bounded number of connections. */
  calls: Dispatcher;
  /** For watches. Each of them holds a connection for minutes: calls would wait too long behind them. */
  watches: Dispatcher;
}

export interface Credentials {
  current(): Promise<Access>;
  /** Makes the next request read the files again, however fresh they are. */
  invalidate(): void;
  /** After a 401: as `invalidate`, and plugins are asked again as well. */
  invalidateAll(): void;
  close(): Promise<void>;
}

/** How long credentials read from files or plugins are used before they are looked at again. */
const FRESH_MS = 10_000;
/** client-go's value; shorter than the idle time-outs of common load balancers. */
const KEEP_ALIVE_DELAY_MS = 30_000;
/** Below the API server's 90 s, so that our side closes idle connections. */
const IDLE_MS = 60_000;

/**
 * One pool for all calls, one for all watches. client-node makes an Agent for each request (a TLS handshake
 * per call, 32 to 105 requests/s). Here an Agent lives until the CA or the client certificate changes, as when
 * a cluster rotates them; requests under way finish on the old one.
 */
export function createCredentials(input: {
  kubeConfig: KubeConfig;
  monotonic: Monotonic;
  /** Upper bound of connections that calls share. */
  connections: number;
}): Credentials {
  let { kubeConfig } = input;
  let access: Access | undefined;
  let material = "";
  let readAt = -Infinity;
  let reading: Promise<Access> | undefined;

  async function read(): Promise<Access> {
    // Reads files and runs auth plugins by client-node's rules, which are kubectl's.
    const options: RequestOptions = {};
    await kubeConfig.applyToHTTPSOptions(options);
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(options.headers ?? {}))
      headers[name.toLowerCase()] = String(value);
    if (options.auth) headers.authorization = `Basic ${btoa(options.auth)}`;
    const tokenFile = tokenFileOf(kubeConfig);
    if (tokenFile !== undefined)
      headers.authorization = `Bearer ${(await readFile(tokenFile, "utf8")).trim()}`;
    const tls = kubeConfig.createDispatcherOptions(
      kubeConfig.getCurrentCluster(),
      tlsOptions(options),
    );
    const fingerprint = JSON.stringify(tls, (_, value: unknown) =>
      Buffer.isBuffer(value) ? value.toString("base64") : value,
    );
    const previous = access;
    if (fingerprint === material && previous !== undefined) access = { ...previous, headers };
    else {
      material = fingerprint;
      access = {
        headers,
        calls: createDispatcher(tls, input.connections),
        watches: createDispatcher(tls, null),
      };
      // They close when their last request has ended: a watch may run for minutes yet.
      void previous?.calls.close();
      void previous?.watches.close();
    }
    readAt = input.monotonic();
    return access;
  }

  return {
    async current() {
      if (access && input.monotonic() - readAt < FRESH_MS) return access;
      reading ??= read().finally(() => {
        reading = undefined;
      });
      return reading;
    },
    invalidate() {
      readAt = -Infinity;
    },
    invalidateAll() {
      readAt = -Infinity;
      kubeConfig = withoutPluginAnswers(kubeConfig);
    },
    async close() {
      await Promise.all([access?.calls.destroy(), access?.watches.destroy()]);
      access = undefined;
      readAt = -Infinity;
    },
  };
}

/** A copy. client-node keeps a plugin's answer until that expires, which it may never do; a copy has none yet. */
function withoutPluginAnswers(kubeConfig: KubeConfig): KubeConfig {
  const { clusters, users, contexts, currentContext } = kubeConfig;
  const copy = new KubeConfig();
  copy.loadFromOptions({ clusters, users, contexts, currentContext });
  return copy;
}

/**
 * A pod's token is read here: client-node uses a token that it has read for a minute of the wall clock, which may
 * be set back, and even after it was refused.
 */
function tokenFileOf(kubeConfig: KubeConfig): string | undefined {
  const user = kubeConfig.getCurrentUser();
  const provider = user?.authProvider as { config?: { tokenFile?: string } } | undefined;
  return provider?.config?.tokenFile;
}

/** The options about TLS; the others are about one request. */
function tlsOptions(options: RequestOptions): AgentOptions {
  const { ca, cert, key, passphrase, pfx, rejectUnauthorized, servername } = options;
  return { ca, cert, key, passphrase, pfx, rejectUnauthorized, servername };
}

function createDispatcher(
  tls: ReturnType<KubeConfig["createDispatcherOptions"]>,
  connections: number | null,
): Dispatcher {
  const shared = {
    connections,
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: IDLE_MS,
    // With HTTP/2 one stream that hangs could hold up the others of its connection.
    allowH2: false,
  };
  const keepAlive = { keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_DELAY_MS };
  if (tls.type === "socks")
    throw new Error(`kubeconfig: a SOCKS proxy (${tls.uri}) is not supported; use an HTTP proxy`);
  if (tls.type === "proxy")
    return new ProxyAgent({ ...shared, uri: tls.uri, requestTls: tls.requestTls });
  const connect = tls.type === "agent" ? tls.connect : {};
  return new Agent({ ...shared, connect: { ...connect, ...keepAlive } });
}
