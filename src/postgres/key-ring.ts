import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { InvalidInput } from "../domain/findings.ts";

/** Secrets at rest: AES-256-GCM. The first key encrypts, every key decrypts. */
export interface KeyRing {
  /** In the order given; the first encrypts. */
  readonly keyIds: readonly string[];
  /** `keyId:base64(nonce ‖ ciphertext ‖ tag)`. `aad` binds the text to its row: see `sealContext`. */
  encrypt(plaintext: string, aad: string): string;
  /** Throws `UnknownKeyId`, or `WrongKey` when the key, the row or the text is not the one it was sealed with. */
  decrypt(sealed: string, aad: string): string;
  /** 32-byte keys for another purpose, one for each ring key, the current one first. */
  derive(purpose: string): readonly Buffer[];
}

/** Data that none of the ring's keys can open. */
export class UnknownKeyId extends Error {
  override name = "UnknownKeyId";
  constructor(keyId: string) {
    super(
      `there is data under the encryption key id "${keyId}", which CARILLON_ENCRYPTION_KEYS does not have: add that key to it again (where it is lost, docs/operations.md says how to go on)`,
    );
  }
}

/** A key of the right id that does not open what is sealed under it. */
export class WrongKey extends Error {
  override name = "WrongKey";
}

/** The additional data that binds a sealed value to its place: copied to another row, it does not open. */
export function sealContext(place: {
  table: string;
  column: string;
  account: string;
  row: string;
}): string {
  return `${place.table}.${place.column}:${place.account}:${place.row}`;
}

/** The key id of a sealed text, without opening it. */
export function sealedKeyId(sealed: string): string {
  return sealed.slice(0, Math.max(0, sealed.indexOf(":")));
}

const KEY_ID = /^[A-Za-z0-9_.-]{1,32}$/;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * `id:base64,id2:base64`: 32 bytes each. Throws InvalidInput, whose messages never carry key material.
 */
export function parseKeyRing(text: string): KeyRing {
  const field = "CARILLON_ENCRYPTION_KEYS";
  const refuse = (message: string): never => {
    throw new InvalidInput([{ field, message }]);
  };
  const keys = new Map<string, Buffer>();
  for (const [index, part] of text.split(",").entries()) {
    const [id = "", encoded = "", ...rest] = part.trim().split(":");
    // Named by its place, because a key may stand where the id belongs.
    const entry = `entry ${index + 1}`;
    if (!KEY_ID.test(id) || rest.length > 0)
      refuse(`${entry} must be id:base64, the id of up to 32 letters, digits, "_", "." or "-"`);
    if (keys.has(id)) refuse(`${entry}: its id is there twice`);
    // Buffer skips what is not base64, so the length alone would accept a mistyped key.
    if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(encoded)) refuse(`${entry}: the key is not base64`);
    const key = Buffer.from(encoded, "base64");
    if (key.length !== 32)
      refuse(`${entry}: the key must be 32 bytes in base64 (openssl rand -base64 32)`);
    keys.set(id, key);
  }
  return createKeyRing(keys);
}

function createKeyRing(keys: ReadonlyMap<string, Buffer>): KeyRing {
  const [current] = keys;
  if (current === undefined) throw new Error("a key ring has at least one key");
  const [currentId, currentKey] = current;
  return {
    keyIds: [...keys.keys()],
    encrypt(plaintext, aad) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", currentKey, nonce, {
        authTagLength: TAG_BYTES,
      });
      cipher.setAAD(Buffer.from(aad, "utf8"));
      const body = Buffer.concat([cipher.update(plaintext, "utf8"), cipher.final()]);
      return `${currentId}:${Buffer.concat([nonce, body, cipher.getAuthTag()]).toString("base64")}`;
    },
    decrypt(sealed, aad) {
      const id = sealedKeyId(sealed);
      const key = keys.get(id);
      if (key === undefined) throw new UnknownKeyId(id);
      const bytes = Buffer.from(sealed.slice(id.length + 1), "base64");
      if (bytes.length < NONCE_BYTES + TAG_BYTES) throw new Error("a sealed value is too short");
      const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(Buffer.from(aad, "utf8"));
      decipher.setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
      try {
        return (
          decipher.update(
            bytes.subarray(NONCE_BYTES, bytes.length - TAG_BYTES),
            undefined,
            "utf8",
          ) + decipher.final("utf8")
        );
      } catch (cause) {
        throw new WrongKey(
          `a secret does not open with the encryption key "${id}" of CARILLON_ENCRYPTION_KEYS: the key is another one, or the data was altered`,
          { cause },
        );
      }
    },
    derive(purpose) {
      return [...keys.values()].map((key) =>
        Buffer.from(hkdfSync("sha256", key, "", `carillon ${purpose}`, 32)),
      );
    },
  };
}
