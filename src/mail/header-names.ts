import MimeNode from "nodemailer/lib/mime-node";

/** nodemailer's method that spells the name of a header. */
const WRITE = "_normalizeHeaderKey";
type Write = (this: unknown, name: string) => string;

/** The names that nodemailer looks up for a mail without headers of its own, in the spelling in which it asks. */
const USUAL = [
  "from to cc reply-to subject message-id From To Cc Reply-To Subject Message-ID",
  "Date MIME-Version Content-Type Content-Transfer-Encoding",
].flatMap((names) => names.split(" "));

/**
 * For each mail nodemailer works out the spelling of the same names some twenty times, which is a twentieth of the
 * mail's processor time. This remembers them.
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
