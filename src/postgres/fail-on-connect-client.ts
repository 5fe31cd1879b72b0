import { createSecureContext } from "node:tls";
import { Client, type ClientConfig } from "pg";

/**
 * pg reads the files of `sslrootcert`, `sslcert` and `sslkey` for each client, and its constructor throws when it
 * cannot, for instance while a file is replaced. Here `connect` fails instead: the pool makes clients also when
 * somebody gives one back, and would throw there.
 *
 * And where pg gives up connecting, as without a password that the server asks for, it keeps the connection, on which
 * the server waits for a minute, as does the end of our process. Here it is closed.
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
  override connect(callback: (error: Error | null) => void): void;
  override connect(callback?: (error: Error | null) => void): Promise<Client> | void {
    if (callback === undefined)
      return new Promise((resolve, reject) => {
        this.connect((error) => {
          if (error) reject(error);
          else resolve(this);
        });
      });
    const failure = failures.get(this);
    if (failure !== undefined) return process.nextTick(callback, failure);
    super.connect((error: Error | null) => {
      if (error) this.connection.stream.destroy();
      callback(error);
    });
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
