import SMTPConnection from "nodemailer/lib/smtp-connection";

/** nodemailer's names: the method that ends a connection with an error, and fields of a connection. */
export const END = "_onError";
export const SOCKET = "_socket";
export const WAITING = "_responseQueue";
export const ASKED = "_responseActions";
export const UNDER_WAY = "_currentDataStream";

export interface Endable {
  [END]: (error: Error, code: string, data: false, command: string) => void;
}

export interface Asking {
  /** A handler for each reply that has not come yet. */
  readonly [ASKED]: readonly unknown[];
  /** Set until the whole message has been handed to the socket. */
  readonly [UNDER_WAY]: unknown;
}

/**
 * The prototype of nodemailer's connections, in order to patch all of them: the pool makes them itself. Throws an error
 * with the text `otherwise` when a release of nodemailer no longer has one of `names`.
 */
export function connectionPrototype<T extends object>(
  names: readonly (keyof T)[],
  otherwise: string,
): T {
  const connection = SMTPConnection.prototype as unknown as Partial<T>;
  if (names.some((name) => connection[name] === undefined)) throw new Error(otherwise);
  return connection as T;
}

/** Closes the connection: a mail that has begun fails with the error, which gets nodemailer's `code`. */
export function hangUp(on: Endable, error: Error, code: "ECONNECTION" | "EPROTOCOL"): void {
  on[END](error, code, false, "CONN");
}
