import { isAscii } from "node:buffer";
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type Koa from "koa";
import { HttpMethodEnum, koaBody } from "koa-body";
import { LIMITS } from "../domain/schema/fields.ts";
import { ApiError, invalid } from "./errors.ts";
import { scanJsonObject, type JsonMember } from "./json-text.ts";

const MIB = 1_048_576;

/**
 * Largest bodies, in bytes. /send: attachments and body, with room for JSON escapes. `open`: what anybody may
 * send without a key or session.
 */
export const BODY_LIMITS = { open: 16 * 1_024, normal: MIB, send: 24 * MIB } as const;

/**
 * Values outside `webhook_payload` that a body may hold. Far above what any schema accepts; it bounds
 * what is scanned, and what the validators look at when they collect all errors.
 */
const MOST_VALUES = 2_000;

/** A JSON object as it came: its text, where its members stand, and its value. */
export interface JsonBody {
  text: string;
  /** As they were received. */
  bytes: number;
  members: ReadonlyMap<string, JsonMember>;
  value: Record<string, unknown>;
  /** SHA-256 of the bytes received, hex. Computed when asked for: most requests are not idempotent. */
  fingerprint(): string;
}

export interface BodyReader {
  read(ctx: Koa.Context): Promise<JsonBody>;
  /** The most bytes that `read` will read. For a small chunked body this is its size, once it has arrived. */
  mostBytes(ctx: Koa.Context): Promise<number>;
}

/**
 * koa-body only reads the stream under a limit, since it would accept invalid UTF-8, arrays and compressed
 * bodies. It is told that JSON is text without an encoding, which it leaves as bytes.
 */
export function createBodyReader({ limitBytes }: { limitBytes: number }): BodyReader {
  const readText = koaBody({
    json: false,
    urlencoded: false,
    multipart: false,
    text: true,
    textTypes: ["application/json"],
    textLimit: limitBytes,
    encoding: "",
    patchNode: false,
    parsedMethods: [HttpMethodEnum.POST, HttpMethodEnum.PATCH],
    onError: (error) => {
      throw bodyError(error, limitBytes);
    },
  });
  return {
    async read(ctx) {
      refuseOtherMedia(ctx);
      // It is `identity` by now, which the library that reads the stream knows in lower case only.
      delete ctx.req.headers["content-encoding"];
      await readText(ctx, async () => {});
      const bytes: unknown = ctx.request.body;
      // Nobody reads it again, and it would keep megabytes in memory while the mail waits for its server.
      delete ctx.request.body;
      return parseJsonBody(Buffer.isBuffer(bytes) ? bytes : Buffer.alloc(0));
    },
    async mostBytes(ctx) {
      return Math.min(
        ctx.request.length ?? (await bufferedSize(ctx.req)) ?? limitBytes,
        limitBytes,
      );
    },
  };
}

/**
 * The size of a chunked body, which does not say how long it is: waits until all of it has arrived. Undefined: it is
 * larger than what Node buffers unread (64 KiB). Consumes nothing. A connection that breaks meanwhile ends the wait;
 * the error comes when the body is read.
 */
async function bufferedSize(req: IncomingMessage): Promise<number | undefined> {
  const arrived = Promise.withResolvers<void>();
  const look = () => {
    if (req.complete || req.destroyed || req.readableLength >= req.readableHighWaterMark)
      arrived.resolve();
  };
  req.on("readable", look).on("close", look);
  look();
  await arrived.promise;
  req.off("readable", look).off("close", look);
  return req.complete ? req.readableLength : undefined;
}

/** koa-body's errors about a request have a status. Others are our own fault. */
function bodyError(error: Error, limitBytes: number): Error {
  const { status } = error as { status?: unknown };
  if (status === 413)
    return new ApiError("payload_too_large", `the body must be at most ${limitBytes} bytes`);
  if (status === undefined) return error;
  return new ApiError("malformed_request", "the body could not be read", { cause: error });
}

/** 415 before a byte of the body is read. */
function refuseOtherMedia(ctx: Koa.Context): void {
  // RFC 9112, 6.1: `gzip, chunked` is a compressed body, too. Node undoes only the chunks.
  const transfer = ctx.get("transfer-encoding").trim().toLowerCase();
  if (transfer !== "" && transfer !== "chunked")
    throw new ApiError(
      "unsupported_media_type",
      "the body must not be compressed: send it without Transfer-Encoding, or as chunked alone",
    );
  const encoding = ctx.get("content-encoding").trim().toLowerCase();
  if (encoding !== "" && encoding !== "identity")
    throw new ApiError(
      "unsupported_media_type",
      "the body must not be compressed: send it without Content-Encoding",
    );
  // Without a body the type does not matter: the answer is that its required fields are missing.
  const sent = transfer !== "" || (ctx.request.length ?? 0) > 0;
  if (!sent && ctx.get("content-type") === "") return;
  const [type = "", ...parameters] = ctx.get("content-type").toLowerCase().split(";");
  const charset = parameters
    .map((parameter) => parameter.trim())
    .find((parameter) => parameter.startsWith("charset="))
    ?.slice("charset=".length)
    .replaceAll('"', "");
  if (type.trim() !== "application/json")
    throw new ApiError(
      "unsupported_media_type",
      `send JSON with the header Content-Type: application/json${type.trim() === "" ? "" : ` (not ${type.trim().slice(0, 100)})`}`,
    );
  if (charset !== undefined && charset !== "utf-8" && charset !== "utf8")
    throw new ApiError("unsupported_media_type", "the body must be in UTF-8");
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Throws ApiError `invalid_json` for anything but one JSON object in UTF-8 that can be stored as it is. */
export function parseJsonBody(bytes: Buffer): JsonBody {
  let text: string;
  try {
    // Most bodies are ASCII, and megabytes with attachments: as Latin-1 in half the memory and a third of the time.
    text = isAscii(bytes) ? bytes.toString("latin1") : utf8.decode(bytes);
  } catch (cause) {
    throw new ApiError("invalid_json", "the body is not valid UTF-8", { cause });
  }
  const scan = scanJsonObject(text, {
    depth: LIMITS.nesting,
    values: {
      member: "webhook_payload",
      // A value takes at least two bytes.
      inMember: LIMITS.payloadBytes / 2,
      inOthers: MOST_VALUES,
    },
  });
  if (!scan.ok)
    throw scan.tooMany
      ? invalid([{ field: "", message: scan.problem }])
      : new ApiError("invalid_json", `invalid JSON: ${scan.problem}`);
  return {
    text,
    bytes: bytes.length,
    members: scan.members,
    value: scan.value,
    // The text was decoded without loss and gives the same bytes again: they need not be kept.
    fingerprint: () => createHash("sha256").update(text).digest("hex"),
  };
}

/** A member's value as it stood in the text; undefined when absent or null. */
export function memberText(body: JsonBody, name: string): string | undefined {
  const member = body.members.get(name);
  if (!member) return undefined;
  const text = body.text.slice(member.start, member.end);
  return text === "null" ? undefined : text;
}
