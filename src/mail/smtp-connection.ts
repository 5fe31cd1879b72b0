import SMTPConnection from "nodemailer/lib/smtp-connection";

/** nodemailer's names for the end of a connection by an error, and for what a connection is about. */
export const END = "_onError";
export const SOCKET = "_socket";
export const WAITING = "_responseQueue";
export const ASKED = "_responseActions";
export const UNDER_WAY = "_currentDataStream";

export interface Endable {
  [END]: (error: Error, code: string, data: false, command: string) => void;
}

export interface Asking {
  /** What is done with each answer that has not come yet. */
  readonly [ASKED]: readonly unknown[];
  /** While not all of a message has been handed to the socket. */
  readonly [UNDER_WAY]: unknown;
}

/**
 * What all of nodemailer's connections do, to be done in another way: the pool makes them itself. Throws, with what is to be
 * done anew, where a release of nodemailer has one of `names` no more.
 */
export function allConnections<T extends object>(
  names: readonly (keyof T)[],
  otherwise: string,
): T {
  const connection = SMTPConnection.prototype as unknown as Partial<T>;
  if (names.some((name) => connection[name] === undefined)) throw new Error(otherwise);
  return connection as T;
}

/** Closes it: a mail that has begun fails with the error, marked with nodemailer's `code`. */
export function hangUp(on: Endable, error: Error, code: "ECONNECTION" | "EPROTOCOL"): void {
  on[END](error, code, false, "CONN");
}
