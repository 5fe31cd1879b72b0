import { isToken, isValue } from "./field-syntax.ts";

/** A header that has no place in a request; nobody has been called. Its text does not repeat the value. */
export class BadHeader extends Error {
  override name = "BadHeader";
  readonly code = "BAD_HEADER";
}

/**
 * A POST's bytes: latin1 text where the body is ASCII, which is the cheapest to write, else a buffer. The headers are
 * sent as they are given, and must not be those that frame the request, which are written here. Throws `BadHeader` on
 * one that would end its line, or is no latin1.
 */
export function requestText(request: {
  url: URL;
  headers: Readonly<Record<string, string>>;
  body: string;
}): string | Buffer {
  const { url, headers, body } = request;
  let head = `POST ${url.pathname}${url.search} HTTP/1.1\r\nhost: ${url.host}\r\nconnection: keep-alive\r\n`;
  for (const name in headers) {
    const value = headers[name] ?? "";
    if (!isToken(name)) throw new BadHeader("a header's name is not a token");
    if (!isValue(value)) throw new BadHeader(`the value of ${name} cannot be sent`);
    head += `${name}: ${value}\r\n`;
  }
  const length = Buffer.byteLength(body);
  head += `content-length: ${length}\r\n\r\n`;
  if (length === body.length) return head + body;
  const bytes = Buffer.allocUnsafe(head.length + length);
  bytes.write(head, 0, "latin1");
  bytes.write(body, head.length, "utf8");
  return bytes;
}
