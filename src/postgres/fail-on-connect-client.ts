import { createSecureContext } from "node:tls";
import { Client, type ClientConfig } from "pg";

/**
 * pg reads the files of `sslrootcert`, `sslcert` and `sslkey` for each client, and its constructor throws when it
 * cannot, for instance while a file is replaced. Here `connect` fails instead: the pool makes clients also when
 * somebody gives one back, and would throw there.
 */
export class FailOnConnectClient extends Client {
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

/** Errors of the clients that could not be made, for `connect`. */
const failures = new WeakMap<Client, Error>();

/**
 * Throws when key and certificate do not fit: pg would find that only after the server has answered, and leave the
 * server waiting on an open connection.
 */
function tryFiles(ssl: ClientConfig["ssl"]): void {
  if (typeof ssl === "object") createSecureContext(ssl);
}
