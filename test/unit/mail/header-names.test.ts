import MailComposer from "nodemailer/lib/mail-composer";
import MimeNode from "nodemailer/lib/mime-node";
import { afterEach, beforeEach, expect, test } from "vitest";
import { rememberHeaderNames } from "../../../src/mail/header-names.ts";

const WRITE = "_normalizeHeaderKey";
type Write = (this: unknown, name: string) => string;
const node = MimeNode.prototype as unknown as { [WRITE]: Write };
const theirs = node[WRITE];

/** The names that nodemailer has computed itself. */
let workedOut: string[];

beforeEach(() => {
  node[WRITE] = function (name) {
    workedOut.push(name);
    return theirs.call(this, name);
  };
  workedOut = [];
  rememberHeaderNames();
  workedOut = [];
});

afterEach(() => {
  node[WRITE] = theirs;
});

/** The head of a text, as `smtp-options.ts` composes it. */
function head(headers: Record<string, string>, date?: Date): string {
  const address = { name: "", address: "a@example.com" };
  return new MailComposer({
    from: address,
    to: [address],
    cc: [address],
    replyTo: address,
    envelope: { from: address, to: [address] },
    subject: "s",
    text: "t",
    messageId: "<1@example.com>",
    ...(date && { date }),
    headers: Object.entries(headers).map(([key, value]) => ({ key, value })),
  })
    .compile()
    .buildHeaders();
}

test.each<Record<string, string>>([{}, { "x-of-their-own": "1" }])(
  "with %j the head is nodemailer's",
  (headers) => {
    const ours = head(headers, new Date(0));
    node[WRITE] = theirs;
    expect(ours).toBe(head(headers, new Date(0)));
  },
);

test("of a mail without headers of its own no name is worked out, of others only those", () => {
  head({});
  expect(workedOut).toEqual([]);
  head({ "x-of-their-own": "1" });
  expect(new Set(workedOut)).toEqual(new Set(["x-of-their-own", "X-Of-Their-Own"]));
});
