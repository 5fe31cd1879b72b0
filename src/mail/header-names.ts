import MimeNode from "nodemailer/lib/mime-node";

/** nodemailer's name for how it writes the name of a header. */
const WRITE = "_normalizeHeaderKey";
type Write = (this: unknown, name: string) => string;

/** All that a mail without headers of its own is asked for, as nodemailer asks for them. */
const USUAL = [
  "from to cc reply-to subject message-id From To Cc Reply-To Subject Message-ID",
  "Date MIME-Version Content-Type Content-Transfer-Encoding",
].flatMap((names) => names.split(" "));

/**
 * nodemailer works out some twenty times for each mail how the same names are written, which is a twentieth of what the
 * mail takes of the processor. Now it knows those.
 */
export function rememberHeaderNames(): void {
  const node = MimeNode.prototype as unknown as { [WRITE]: Write };
  const write: Write | undefined = node[WRITE];
  if (write === undefined)
    throw new Error("nodemailer writes names of headers in another way: they are not remembered");
  const known = new Map(USUAL.map((name) => [name, write.call(undefined, name)]));
  node[WRITE] = function (name) {
    return known.get(name) ?? write.call(this, name);
  };
}
