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
  /** What will be read of the request's body at most. Of one that is chunked and small, once it is there. */
  mostBytes(ctx: Koa.Context): Promise<number>;
}

/**
 * koa-body reads the stream under a limit; nothing else of it is trusted: it takes invalid UTF-8, arrays
 * and compressed bodies. It is told that JSON is text in `binary`, which keeps every byte.
 */
export function createBodyReader({ limitBytes }: { limitBytes: number }): BodyReader {
  const readText = koaBody({
    json: false,
    urlencoded: false,
    multipart: false,
    text: true,
    textTypes: ["application/json"],
    textLimit: limitBytes,
    encoding: "binary",
    patchNode: false,
    parsedMethods: [HttpMethodEnum.POST, HttpMethodEnum.PATCH],
    onError: (error) => {
      throw bodyError(error, limitBytes);
    },
  });
  return {
    async read(ctx) {
      refuseOtherMedia(ctx);
      // Identity by now; what reads the stream knows that in lower case only.
      delete ctx.req.headers["content-encoding"];
      await readText(ctx, async () => {});
      const binary: unknown = ctx.request.body;
      // Megabytes that nobody reads again, while the mail waits for its server.
      delete ctx.request.body;
      return parseJsonBody(Buffer.from(typeof binary === "string" ? binary : "", "latin1"));
    },
    async mostBytes(ctx) {
      return Math.min(ctx.request.length ?? (await shownSize(ctx.req)) ?? limitBytes, limitBytes);
    },
  };
}

/**
 * A chunked body does not say how long it is. This waits until all of it is there, or as much as Node takes in unread
 * (64 KiB); then it is undefined. Nothing is read, and whoever is cut off meanwhile finds that out by reading.
 */
async function shownSize(req: IncomingMessage): Promise<number | undefined> {
  const shown = Promise.withResolvers<void>();
  const look = () => {
    if (req.complete || req.destroyed || req.readableLength >= req.readableHighWaterMark)
      shown.resolve();
  };
  req.on("readable", look).on("close", look);
  look();
  await shown.promise;
  req.off("readable", look).off("close", look);
  return req.complete ? req.readableLength : undefined;
}

/** What koa-body says of a request has a status. Anything else, as that no file can be opened, is not the client's doing. */
function bodyError(error: Error, limitBytes: number): Error {
  const { status } = error as { status?: unknown };
  if (status === 413)
    return new ApiError("payload_too_large", `the body must be at most ${limitBytes} bytes`);
  if (status === undefined) return error;
  return new ApiError("malformed_request", "the body could not be read", { cause: error });
}

/** 415 before a byte of the body is read. */
function refuseOtherMedia(ctx: Koa.Context): void {
  // RFC 9112, 6.1: `gzip, chunked` is a body that was compressed, too. Node undoes the chunks alone.
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
  // Without a body there is nothing of another type: it is missing, and with it the required fields.
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
    // Most bodies are ASCII, attachments make it megabytes: half the memory, a third of the time.
    text = isAscii(bytes) ? bytes.toString("latin1") : utf8.decode(bytes);
  } catch (cause) {
    throw new ApiError("invalid_json", "the body is not valid UTF-8", { cause });
  }
  const scan = scanJsonObject(text, {
    depth: LIMITS.nesting,
    values: {
      member: "webhook_payload",
      // A value takes two bytes at least.
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
    // Decoded without a loss, the text gives the bytes again: they need not be kept.
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
