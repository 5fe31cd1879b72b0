import { argon2, randomBytes, timingSafeEqual } from "node:crypto";
import { passwordWork } from "./password-work.ts";

/** OWASP's first choice for argon2id (2024): 19 MiB, two passes, one lane. About 50 ms here. */
const COST = { memory: 19_456, passes: 2, parallelism: 1 } as const;
const SALT_BYTES = 16;
const TAG_BYTES = 32;

const PHC =
  /^\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,3})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;

/** A PHC string: the cost is stored with each hash, so that it can be raised later. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const tag = await derive(password, { ...COST, salt, tagLength: TAG_BYTES });
  const { memory, passes, parallelism } = COST;
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${unpadded(salt)}$${unpadded(tag)}`;
}

/** A hash that no password has (its tag is all zeros), with today's cost: for users who do not exist. */
export const UNKNOWN_USER_HASH = `$argon2id$v=19$m=${COST.memory},t=${COST.passes},p=${COST.parallelism}$${unpadded(Buffer.alloc(SALT_BYTES))}$${unpadded(Buffer.alloc(TAG_BYTES))}`;

export async function passwordMatches(password: string, stored: string): Promise<boolean> {
  const [, memory, passes, parallelism, salt, tag] = PHC.exec(stored) ?? [];
  if (salt === undefined || tag === undefined)
    throw new Error("a stored password hash is not an argon2id PHC string");
  const expected = Buffer.from(tag, "base64");
  const actual = await derive(password, {
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    salt: Buffer.from(salt, "base64"),
    tagLength: expected.length,
  });
  return timingSafeEqual(actual, expected);
}

function derive(
  password: string,
  options: {
    memory: number;
    passes: number;
    parallelism: number;
    salt: Buffer;
    tagLength: number;
  },
): Promise<Buffer> {
  const { salt, ...cost } = options;
  // NFKC, as NIST SP 800-63B asks: keyboards write the same character in different ways.
  const message = password.normalize("NFKC");
  const derived = () =>
    new Promise<Buffer>((resolve, reject) => {
      argon2("argon2id", { ...cost, message, nonce: salt }, (error, tag) => {
        if (error) reject(new Error("argon2id failed", { cause: error }));
        else resolve(tag);
      });
    });
  return passwordWork.hash(derived);
}

function unpadded(bytes: Buffer): string {
  return bytes.toString("base64").replaceAll("=", "");
}
