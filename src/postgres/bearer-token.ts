import { hash, randomBytes } from "node:crypto";

const FORM = /^[A-Za-z0-9_-]{43}$/;

/** 256 random bits: whoever holds it needs to prove nothing else, and its hash needs no salt. */
export function newToken(): string {
  return randomBytes(32).toString("base64url");
}

/** What is not one cannot be known, and costs no look-up. */
export function isToken(text: string): boolean {
  return FORM.test(text);
}

/** What is stored of a token: who reads the database cannot use it. */
export function hashOf(token: string): Buffer {
  return hash("sha256", token, "buffer");
}
