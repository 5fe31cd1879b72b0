import type { JsonBody } from "./request-body.ts";

/** A request that passed authentication and validation, free of HTTP machinery. */
export interface ApiRequest<Body = unknown, Query = unknown> {
  /** Empty for endpoints without authentication. */
  account: string;
  /** See `Caller`, when the request was authenticated. Undefined also for requests without an API key. */
  smtpRevision?: string | undefined;
  requestId: string;
  /** Path parameters. */
  params: Readonly<Record<string, string>>;
  query: Query;
  body: Body;
  /** The body's text and where its members stand; undefined for endpoints without one. */
  json: JsonBody | undefined;
  /** Undefined also for endpoints that do not look at it. */
  idempotencyKey: string | undefined;
  /** Whether the client has gone away, so that nobody will read the answer. */
  gone: () => boolean;
}

export interface ApiAnswer {
  status: number;
  /** A value for JSON.stringify, or JSON text that is written as it is. */
  body: object | JsonText | Buffer;
  /** Many answers have these very bytes, so that none of them takes memory of its own. */
  shared?: true;
  /** An array: the header is sent once for each member. */
  headers?: Readonly<Record<string, string | string[]>>;
}

/** JSON that is already text. */
export class JsonText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type Handler<Body = never, Query = never> = (
  request: ApiRequest<Body, Query>,
) => Promise<ApiAnswer>;

export function answerText({ body }: ApiAnswer): string {
  if (Buffer.isBuffer(body)) return body.toString();
  return body instanceof JsonText ? body.text : JSON.stringify(body);
}

/** Elements of a JSON array, for `jsonArray`; undefined if there are none. */
export function jsonElements(values: readonly object[]): Buffer | undefined {
  return values.length > 0 ? Buffer.from(JSON.stringify(values).slice(1, -1)) : undefined;
}

/** The JSON array of all these elements. */
export function jsonArray(parts: readonly Buffer[]): Buffer {
  const comma = Buffer.from(",");
  const separated = parts.flatMap((part, index) => (index === 0 ? [part] : [comma, part]));
  return Buffer.concat([Buffer.from("["), ...separated, Buffer.from("]")]);
}

/** JSON.stringify of an object in which some members are already JSON text. */
export function jsonObject(members: Readonly<Record<string, unknown>>): JsonText {
  const parts = Object.entries(members).map(
    ([name, value]) =>
      `${JSON.stringify(name)}:${value instanceof JsonText ? value.text : JSON.stringify(value)}`,
  );
  return new JsonText(`{${parts.join(",")}}`);
}
