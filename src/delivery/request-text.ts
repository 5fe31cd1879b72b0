import { isToken, isValue } from "./field-syntax.ts";
import type { ReceiverUrl } from "./receiver-url.ts";

/**
 * A header that cannot be sent; nobody has been called. The message does not repeat the value, which may be a
 * secret.
 */
export class BadHeader extends Error {
  override name = "BadHeader";
  readonly code = "BAD_HEADER";
}

/**
 * A header line for `requestText`. Throws `BadHeader` for a line break, another control character, or beyond
 * latin1.
 */
export function headerLine(name: string, value: string): string {
  if (!isToken(name)) throw new BadHeader("a header's name is not a token");
  if (!isValue(value)) throw new BadHeader(`the value of ${name} cannot be sent`);
  return `${name}: ${value}\r\n`;
}

/**
 * A POST's bytes: latin1 text when the body is ASCII, which is the cheapest to write, else a buffer. `headers` are
 * whole lines, sent as given, without those that frame the request, which are added here.
 */
export function requestText(request: {
  url: ReceiverUrl;
  headers: string;
  body: string;
}): string | Buffer {
  const { url, headers, body } = request;
  const length = Buffer.byteLength(body);
  const head = `POST ${url.path} HTTP/1.1\r\nhost: ${url.host}\r\nconnection: keep-alive\r\n${headers}content-length: ${length}\r\n\r\n`;
  if (length === body.length) return head + body;
  const bytes = Buffer.allocUnsafe(head.length + length);
  bytes.write(head, 0, "latin1");
  bytes.write(body, head.length, "utf8");
  return bytes;
}
