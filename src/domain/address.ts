import { domainToASCII } from "node:url";

/** `address` is the addr-spec as it is put on the wire: the local part as given, the domain in A-labels. */
export type ParsedAddress =
  { kind: "valid"; address: string } | { kind: "invalid"; reason: string };

/** Octets: RFC 5321 4.5.3.1 with the path's brackets taken off (erratum 1690). */
export const MAX_ADDRESS_OCTETS = 254;
const MAX_LOCAL_OCTETS = 64;
const MAX_DOMAIN_OCTETS = 253;

/** RFC 5322 dot-atom: no quoted local part, no dot at an end or doubled. ASCII: SMTPUTF8 is not assumed. */
const DOT_ATOM = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/;
/** RFC 1123 host name label. */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** What may stand in a U-label before conversion: letters, marks, digits, hyphens and the dot. */
const DOMAIN_TEXT = /^[\p{L}\p{M}\p{N}.\u3002\uff0e\uff61\u00b7\u30fb-]+$/u;

/**
 * One plain addr-spec (RFC 5321 mailbox) and nothing else: no display name, angle brackets, quoted local
 * part, comment, group, list, address literal or control character. What passes can be put into an SMTP
 * envelope or a header without reaching anybody else.
 */
export function parseAddress(text: string): ParsedAddress {
  if (text === "") return invalid("must not be empty");
  // Before its parts are looked at: hostile input must not run regular expressions over megabytes.
  if (text.length > MAX_ADDRESS_OCTETS)
    return invalid(`must be at most ${MAX_ADDRESS_OCTETS} octets`);
  const at = text.indexOf("@");
  if (at === -1) return invalid('must be an address like user@example.com: there is no "@"');
  if (/[<>"(),:;[\]\\]/.test(text) || text.indexOf("@", at + 1) !== -1)
    return invalid(
      "must be one plain address like user@example.com, without name, quotes, comment or list",
    );
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}]/u.test(text))
    return invalid("must not contain spaces or control characters");
  const local = text.slice(0, at);
  const domain = text.slice(at + 1);
  if (local.length > MAX_LOCAL_OCTETS)
    return invalid(`the part before "@" must be at most ${MAX_LOCAL_OCTETS} octets`);
  if (!DOT_ATOM.test(local))
    return invalid(
      `the part before "@" must be of ASCII letters, digits and !#$%&'*+-/=?^_\`{|}~, with single dots between them`,
    );
  const ascii = asciiDomain(domain);
  if (ascii === undefined) return invalid('the part after "@" is not a valid domain');
  const address = `${local}@${ascii}`;
  if (address.length > MAX_ADDRESS_OCTETS)
    return invalid(`must be at most ${MAX_ADDRESS_OCTETS} octets`);
  return { kind: "valid", address };
}

/**
 * The form under which passcodes and users are bound to an address: lower case, A-label domain. A text that is no
 * address comes back in lower case; nothing is bound to it.
 */
export function normaliseAddress(text: string): string {
  const parsed = parseAddress(text);
  return (parsed.kind === "valid" ? parsed.address : text).toLowerCase();
}

/**
 * As it goes to the mail server: the domain in A-labels, because a mail library's own conversion could give another
 * domain. A text that is no address stays as it is: a later check refuses it.
 */
export function wireAddress(text: string): string {
  const parsed = parseAddress(text);
  return parsed.kind === "valid" ? parsed.address : text;
}

function invalid(reason: string): ParsedAddress {
  return { kind: "invalid", reason };
}

function asciiDomain(domain: string): string | undefined {
  // domainToASCII is a URL host parser: it takes percent escapes, IPv4 in all spellings and more.
  // Only what looks like labels gets there, and only what comes out as labels is taken.
  if (!DOMAIN_TEXT.test(domain)) return undefined;
  const ascii = domainToASCII(domain);
  if (ascii === "" || ascii.length > MAX_DOMAIN_OCTETS) return undefined;
  const labels = ascii.split(".");
  if (!labels.every((label) => LABEL.test(label))) return undefined;
  // 127.1 and 2130706433 come out as dotted IPv4; no top-level domain is numeric (RFC 3696 2).
  if (/^\d+$/.test(labels.at(-1) ?? "")) return undefined;
  return ascii;
}
