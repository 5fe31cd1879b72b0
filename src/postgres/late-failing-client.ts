import { createSecureContext } from "node:tls";
import { Client, type ClientConfig } from "pg";

/**
 * pg reads the files of `sslrootcert`, `sslcert` and `sslkey` for each client that it makes, and throws when it cannot,
 * as while one is replaced. Here that is a connection that fails: the pool makes clients wherever somebody gives one
 * back, and would throw it there.
 */
export class LateFailingClient extends Client {
  constructor(config?: ClientConfig) {
    try {
      super(config);
    } catch (error) {
      super();
      failures.set(this, error as Error);
      return;
    }
    try {
      tryFiles(this.ssl);
    } catch (error) {
      failures.set(this, error as Error);
    }
  }

  override connect(): Promise<Client>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<Client> | void {
    const failure = failures.get(this);
    if (failure === undefined) return callback ? super.connect(callback) : super.connect();
    if (callback === undefined) return Promise.reject(failure);
    process.nextTick(callback, failure);
  }
}

/** Why those that may not connect cannot. */
const failures = new WeakMap<Client, Error>();

/**
 * Throws for a key of another certificate: pg would find that when the server has answered, and leave it waiting on an
 * open connection.
 */
function tryFiles(ssl: ClientConfig["ssl"]): void {
  if (typeof ssl === "object") createSecureContext(ssl);
}
