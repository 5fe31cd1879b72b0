import SMTPConnection from "nodemailer/lib/smtp-connection";

/** nodemailer's name for the end of a connection by an error. */
export const END = "_onError";

export interface Endable {
  [END]: (error: Error, code: string, data: false, command: string) => void;
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
