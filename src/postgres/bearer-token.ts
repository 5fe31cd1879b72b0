import { hash, randomBytes } from "node:crypto";

const FORM = /^[A-Za-z0-9_-]{43}$/;

/** 256 random bits. The holder needs to prove nothing else, and the hash needs no salt. */
export function newToken(): string {
  return randomBytes(32).toString("base64url");
}

/** Whether the text has the form of a token: anything else needs no look-up. */
export function isToken(text: string): boolean {
  return FORM.test(text);
}

/** The form in which a token is stored: a reader of the database cannot use it. */
export function hashOf(token: string): Buffer {
  return hash("sha256", token, "buffer");
}
