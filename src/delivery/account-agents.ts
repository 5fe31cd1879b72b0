import { callbackify } from "node:util";
import { LRUCache } from "lru-cache";
import { Agent, buildConnector } from "undici";
import type { Dial } from "../network/guarded-dial.ts";
import { trustBesides } from "../network/trust.ts";

/** Accounts whose connections are kept open at a time. */
const MAX_AGENTS = 1_000;
/** Milliseconds. Idle connections of an account that sends nothing are long closed by then. */
const AGENT_IDLE = 5 * 60_000;
/** A changed rule or name counts within this time for connections that are kept busy. */
const CONNECTION_TTL = 60_000;

export interface AccountAgents {
  of(account: string): Agent;
  close(): Promise<void>;
}

/**
 * Connection pools, one set per account: what one account may reach another may not, so an open
 * connection must never be used by an account for which it was not dialled.
 */
export function createAccountAgents(options: {
  dial: Dial;
  /** PEM certificates to trust besides the system's. */
  ca?: string;
}): AccountAgents {
  const { dial, ca } = options;
  const connect = callbackify(dial);
  const secureContext = trustBesides(ca);
  const upgrade = buildConnector({
    allowH2: false,
    timeout: 10_000,
    ...(secureContext ? { secureContext } : {}),
  });
  const agents = new LRUCache<string, Agent>({
    max: MAX_AGENTS,
    ttl: AGENT_IDLE,
    updateAgeOnGet: true,
    ttlAutopurge: true,
    // Calls in flight finish; `close` takes no new ones.
    dispose: (agent) => {
      agent.close().catch(() => undefined);
    },
  });

  function create(account: string): Agent {
    return new Agent({
      allowH2: false,
      pipelining: 1,
      maxHeaderSize: 16 * 1024,
      // Below the 5 s after which a Node server closes: a POST into a closing connection is lost.
      keepAliveTimeout: 4_000,
      keepAliveMaxTimeout: 30_000,
      clientTtl: CONNECTION_TTL,
      connect: (target, callback) => {
        const secure = target.protocol === "https:";
        const port = Number(target.port) || (secure ? 443 : 80);
        connect({ account, protocol: "webhook", host: target.hostname, port }, (error, socket) => {
          if (error) callback(error, null);
          // TLS on the checked connection, with the original name for SNI and the certificate.
          else if (secure) upgrade({ ...target, httpSocket: socket }, callback);
          else callback(null, socket);
        });
      },
    });
  }

  return {
    of: (account) => {
      let agent = agents.get(account);
      if (agent === undefined) {
        agent = create(account);
        agents.set(account, agent);
      }
      return agent;
    },
    close: async () => {
      const open = Array.from(agents.values());
      agents.clear();
      await Promise.allSettled(open.map((agent) => agent.destroy()));
    },
  };
}
