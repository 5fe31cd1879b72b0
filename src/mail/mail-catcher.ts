import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, BlockList, isIP } from "node:net";
import { callbackify } from "node:util";
import { SMTPServer, type SMTPServerDataStream, type SMTPServerSession } from "smtp-server";
import { type CaughtMail, parseCaughtMail } from "./caught-mail.ts";
import { catcherPage } from "./catcher-page.ts";

export interface MailCatcher {
  smtpPort: number;
  httpPort: number;
  url: string;
  /** Newest first. */
  messages(): readonly CaughtMail[];
  close(): Promise<void>;
}

const MAX_MESSAGES = 500;
const MAX_BYTES = 64 * 1024 * 1024;
/**
 * More than the largest mail that the API accepts: 5 MiB of body, which quoted-printable makes three times as long,
 * with line ends on top, and 10 MiB of attachments in base64.
 */
const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;

/**
 * A mail server for development: accepts everything, delivers nothing, shows what came. Keeps the last
 * 500 mails and 64 MiB in memory. Accepts any user name and password, so that settings with credentials
 * can be tried. Not for production: it is only started by the standalone program.
 */
export async function startMailCatcher(options: {
  smtpPort: number;
  httpPort: number;
  host: string;
}): Promise<MailCatcher> {
  const { host } = options;
  let kept: CaughtMail[] = [];
  let bytes = 0;
  let version = 0;
  // Part of the ETag: a page may stay open over a restart, after which the versions begin again.
  const started = randomUUID();

  function keep(mail: CaughtMail): void {
    kept.push(mail);
    bytes += mail.size;
    while (kept.length > MAX_MESSAGES || (bytes > MAX_BYTES && kept.length > 1))
      bytes -= kept.shift()?.size ?? 0;
    version += 1;
  }

  const receive = callbackify(
    async (stream: SMTPServerDataStream, session: SMTPServerSession): Promise<void> => {
      const chunks: Buffer[] = [];
      for await (const chunk of stream) if (!stream.sizeExceeded) chunks.push(chunk as Buffer);
      if (stream.sizeExceeded)
        throw Object.assign(new Error("message too large"), { responseCode: 552 });
      const { mailFrom, rcptTo } = session.envelope;
      keep(
        await parseCaughtMail({
          id: randomUUID(),
          at: new Date(),
          from: mailFrom === false ? "" : mailFrom.address,
          to: rcptTo.map((recipient) => recipient.address),
          raw: Buffer.concat(chunks),
        }),
      );
    },
  );

  const smtp = new SMTPServer({
    banner: "Carillon mail catcher",
    authOptional: true,
    // Without STARTTLS: a self-signed certificate would be refused, and this is the loopback.
    disabledCommands: ["STARTTLS"],
    size: MAX_MESSAGE_BYTES,
    // Strict parsing accepts 253 characters, real servers 254 (RFC 5321, 4.5.3.1.3: 256 with the brackets).
    lenientAddressParsing: true,
    socketTimeout: 60_000,
    closeTimeout: 1_000,
    disableReverseLookup: true,
    onAuth: (auth, _session, callback) => {
      callback(null, { user: auth.username ?? "anonymous" });
    },
    onData: (stream, session, callback) => {
      receive(stream, session, callback);
    },
  });
  // A client that resets its connection is no problem.
  smtp.on("error", () => undefined);
  const smtpServer = smtp.listen(options.smtpPort, host);
  await once(smtpServer, "listening");

  const http = createServer((request, response) => {
    if (!hostAllowed(request, host)) return send(response, 421, "text/plain", "unknown host\n");
    const path = (request.url ?? "/").split("?", 1)[0] ?? "/";
    const [, api, collection, id, part] = path.split("/");
    if (path === "/" && request.method === "GET") return page(response);
    if (api !== "api" || collection !== "messages") return notFound(response);
    if (id === undefined && request.method === "DELETE") {
      // Another site can send a DELETE only after a preflight, which is never granted here.
      kept = [];
      bytes = 0;
      version += 1;
      response.writeHead(204).end();
      return;
    }
    if (request.method !== "GET") return notFound(response);
    if (id === undefined) return list(request, response);
    const mail = kept.find((candidate) => candidate.id === id);
    if (mail === undefined) return notFound(response);
    if (part === undefined) return json(response, 200, publicMail(mail));
    if (part === "raw") return send(response, 200, "text/plain; charset=utf-8", mail.raw);
    if (part === "html" && mail.html !== null)
      return send(response, 200, "text/html; charset=utf-8", mail.html, MAIL_POLICY);
    return notFound(response);
  });
  http.listen(options.httpPort, host);
  try {
    await once(http, "listening");
  } catch (error) {
    // The caller tries other ports: the first one must not stay taken.
    smtpServer.close();
    throw error;
  }

  function list(request: IncomingMessage, response: ServerResponse): void {
    const etag = `"${started}.${version}"`;
    if (request.headers["if-none-match"] === etag) {
      response.writeHead(304, { ETag: etag }).end();
      return;
    }
    response.setHeader("ETag", etag);
    json(response, 200, {
      messages: kept.toReversed().map((mail) => ({
        id: mail.id,
        received_at: mail.receivedAt,
        from: mail.from,
        to: mail.to,
        subject: mail.subject,
        attachments: mail.attachments.length,
        size: mail.size,
      })),
      total: kept.length,
    });
  }

  const smtpPort = (smtpServer.address() as AddressInfo).port;
  const httpPort = (http.address() as AddressInfo).port;
  return {
    smtpPort,
    httpPort,
    url: `http://${isIP(host) === 6 ? `[${host}]` : host}:${httpPort}/`,
    messages: () => kept.toReversed(),
    close: async () => {
      const closed = Promise.all([
        new Promise<void>((resolve) => {
          smtp.close(() => {
            resolve();
          });
        }),
        new Promise<void>((resolve) => {
          http.close(() => {
            resolve();
          });
        }),
      ]);
      http.closeAllConnections();
      await closed;
    },
  };
}

/** Nothing of a mail may run or phone home; `sandbox` holds also when it is opened in a tab. */
const MAIL_POLICY =
  "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'self'";

function page(response: ServerResponse): void {
  const nonce = randomBytes(16).toString("base64");
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; img-src data:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
  send(response, 200, "text/html; charset=utf-8", catcherPage(nonce), policy);
}

function publicMail(mail: CaughtMail): object {
  return {
    id: mail.id,
    received_at: mail.receivedAt,
    envelope_from: mail.envelopeFrom,
    envelope_to: mail.envelopeTo,
    from: mail.from,
    to: mail.to,
    cc: mail.cc,
    reply_to: mail.replyTo,
    subject: mail.subject,
    message_id: mail.messageId,
    headers: mail.headers,
    text: mail.text,
    html: mail.html,
    attachments: mail.attachments.map(({ filename, contentType, bytes }) => ({
      filename,
      content_type: contentType,
      bytes,
    })),
    size: mail.size,
  };
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/**
 * On the loopback a page of any website could reach us under a name of its own that resolves to
 * 127.0.0.1 (DNS rebinding) and read the mails: only addresses and `localhost` are answered there.
 */
function hostAllowed(request: IncomingMessage, boundTo: string): boolean {
  const family = isIP(boundTo);
  if (family !== 0 && !LOOPBACK.check(boundTo, family === 6 ? "ipv6" : "ipv4")) return true;
  const name = URL.parse(`http://${request.headers.host ?? ""}`)?.hostname ?? "";
  return name === "localhost" || isIP(name.replace(/^\[|\]$/g, "")) !== 0;
}

function notFound(response: ServerResponse): void {
  json(response, 404, { error: "not found", code: "not_found" });
}

function json(response: ServerResponse, status: number, body: object): void {
  send(response, status, "application/json; charset=utf-8", JSON.stringify(body));
}

function send(
  response: ServerResponse,
  status: number,
  type: string,
  body: string | Buffer,
  policy = "default-src 'none'; frame-ancestors 'none'",
): void {
  response
    .writeHead(status, {
      "Content-Type": type,
      "Content-Security-Policy": policy,
      "Cache-Control": "no-store",
      "X-Content-Type-Options": "nosniff",
      "Referrer-Policy": "no-referrer",
      "Cross-Origin-Resource-Policy": "same-origin",
    })
    .end(body);
}
