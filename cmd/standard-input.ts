import type { Readable } from "node:stream";
import { UsageError } from "../src/admin/command.ts";

/** Bytes; longer than any password that is accepted. */
const LONGEST = 4_096;

/** The text that is piped in. Throws UsageError if it is not UTF-8: decoded anyway, it would be another password. */
export async function readText(input: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of input as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > LONGEST)
      throw new UsageError(`standard input held more than a password: over ${LONGEST} bytes`);
    chunks.push(chunk);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (cause) {
    throw new UsageError("standard input is not UTF-8: save the password as that", { cause });
  }
}
