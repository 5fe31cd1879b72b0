import { StringDecoder } from "node:string_decoder";
import { parseExactJson } from "../domain/exact-json.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import { ApiError, isExpired, type ApiStatus } from "./api-error.ts";

export type WatchEvent<T> =
  | { type: "ADDED" | "MODIFIED" | "DELETED"; object: T }
  | { type: "BOOKMARK"; object: { metadata: { resourceVersion: string } } }
  | { type: "ERROR"; object: ApiStatus };

/** A line that is not an event: nothing after it can be trusted, and an event before it may be lost. */
export class MalformedWatch extends Error {
  override name = "MalformedWatch";
}

/** An object may be 1.5 MiB in etcd and somewhat more as JSON. */
const MAX_LINE = 16 << 20;

/**
 * The events of a watch, one JSON object a line, in order; those of one chunk come together. A line cut off by the end
 * of the stream is dropped: its event comes again from the last position.
 */
export async function* watchEvents<T>(
  body: AsyncIterable<Buffer>,
): AsyncGenerator<WatchEvent<T>[]> {
  const decoder = new StringDecoder("utf8");
  /** Of a line whose end has not come. Joined then, and not before: a large object comes in a hundred chunks. */
  let pieces: string[] = [];
  let held = 0;
  for await (const chunk of body) {
    const text = decoder.write(chunk);
    const end = text.lastIndexOf("\n") + 1;
    const lines = end === 0 ? [] : (pieces.join("") + text.slice(0, end)).split("\n");
    if (end > 0) [pieces, held] = [[], 0];
    pieces.push(text.slice(end));
    held += text.length - end;
    if (held > MAX_LINE) throw new MalformedWatch("a line without end");
    const events: WatchEvent<T>[] = [];
    try {
      for (const line of lines) if (line !== "") events.push(parse<T>(line));
    } finally {
      // Also the events before a line that is not one.
      if (events.length > 0) yield events;
    }
  }
}

/** An ERROR event ends the watch: 410 when the position is too old, otherwise an outage. */
export function watchError(status: ApiStatus): Error {
  const error = new ApiError(status.code ?? 500, status, "watch");
  return isExpired(error) ? error : new DependencyUnavailable("kubernetes", { cause: error });
}

function parse<T>(line: string): WatchEvent<T> {
  let event: WatchEvent<T>;
  try {
    event = parseExactJson(line) as WatchEvent<T>;
  } catch (error) {
    throw new MalformedWatch("a line that is not JSON", { cause: error });
  }
  if (typeof event?.type !== "string" || typeof event.object !== "object")
    throw new MalformedWatch("a line that is not an event");
  return event;
}
