import { describe, expect, test } from "vitest";
import { normaliseAddress, parseAddress } from "../../../src/domain/address.ts";

const local64 = "a".repeat(64);
const label63 = "b".repeat(63);

const accepted = [
  { text: "user@example.com", address: "user@example.com", bound: "user@example.com" },
  {
    text: "First.Last@Example.COM",
    address: "First.Last@example.com",
    bound: "first.last@example.com",
  },
  { text: "a+tag@x.io", address: "a+tag@x.io", bound: "a+tag@x.io" },
  {
    text: "!#$%&'*+/=?^_`{|}~-@x.io",
    address: "!#$%&'*+/=?^_`{|}~-@x.io",
    bound: "!#$%&'*+/=?^_`{|}~-@x.io",
  },
  { text: "root@localhost", address: "root@localhost", bound: "root@localhost" },
  {
    text: "u@bücher.example",
    address: "u@xn--bcher-kva.example",
    bound: "u@xn--bcher-kva.example",
  },
  {
    text: "u@BÜCHER.example",
    address: "u@xn--bcher-kva.example",
    bound: "u@xn--bcher-kva.example",
  },
  {
    text: "u@例え。テスト",
    address: "u@xn--r8jz45g.xn--zckzah",
    bound: "u@xn--r8jz45g.xn--zckzah",
  },
  {
    text: "u@xn--bcher-kva.example",
    address: "u@xn--bcher-kva.example",
    bound: "u@xn--bcher-kva.example",
  },
  { text: `${local64}@x.io`, address: `${local64}@x.io`, bound: `${local64}@x.io` },
  { text: `u@${label63}.io`, address: `u@${label63}.io`, bound: `u@${label63}.io` },
];

const refused = [
  { why: "empty", text: "" },
  { why: "no at", text: "user" },
  { why: "two ats", text: "a@b@c.io" },
  { why: "no local part", text: "@x.io" },
  { why: "no domain", text: "a@" },
  { why: "display name", text: "Ann <ann@x.io>" },
  { why: "angle brackets", text: "<ann@x.io>" },
  { why: "quoted local part", text: '"a b"@x.io' },
  { why: "quoted comma", text: '"a,b@y.io"@x.io' },
  { why: "comment", text: "a(comment)@x.io" },
  { why: "group", text: "team:a@x.io;" },
  { why: "list", text: "a@x.io,b@x.io" },
  { why: "list by semicolon", text: "a@x.io;b@x.io" },
  { why: "list by space", text: "a@x.io b@x.io" },
  { why: "route", text: "@y.io:a@x.io" },
  { why: "address literal", text: "a@[127.0.0.1]" },
  { why: "IPv4 domain", text: "a@127.0.0.1" },
  { why: "IPv4 as one number", text: "a@2130706433" },
  { why: "IPv4 in hex", text: "a@0x7f.1" },
  { why: "IPv4 in full-width digits", text: "a@１２７.0.0.1" },
  { why: "CR LF", text: "a@x.io\r\nRCPT TO:<b@y.io>" },
  { why: "LF in the local part", text: "a\nb@x.io" },
  { why: "trailing LF", text: "a@x.io\n" },
  { why: "NUL", text: "a\0@x.io" },
  { why: "DEL", text: "a\x7f@x.io" },
  { why: "tab", text: "a\t@x.io" },
  { why: "leading space", text: " a@x.io" },
  { why: "no-break space", text: "a\u00a0@x.io" },
  { why: "line separator", text: "a\u2028@x.io" },
  { why: "zero-width joiner", text: "a@x\u200dy.io" },
  { why: "soft hyphen", text: "a@x\u00ady.io" },
  { why: "right-to-left override", text: "a\u202e@x.io" },
  { why: "dot at the start", text: ".a@x.io" },
  { why: "dot at the end", text: "a.@x.io" },
  { why: "two dots", text: "a..b@x.io" },
  { why: "dots in the domain", text: "a@x..io" },
  { why: "dot before the domain", text: "a@.x.io" },
  { why: "root dot", text: "a@x.io." },
  { why: "hyphen before a label", text: "a@-x.io" },
  { why: "hyphen after a label", text: "a@x-.io" },
  { why: "underscore in the domain", text: "a@x_y.io" },
  { why: "percent escape in the domain", text: "a@x%2eio" },
  { why: "slash in the domain", text: "a@x.io/y" },
  { why: "full-width at sign in the domain", text: "a@x＠y.io" },
  { why: "non-ASCII local part", text: "é@x.io" },
  { why: "lone surrogate", text: "a@\ud800.io" },
  { why: "local part over 64", text: `${local64}a@x.io` },
  { why: "label over 63", text: `a@${label63}b.io` },
  { why: "over 254", text: `${local64}@${`${label63}.`.repeat(3)}io` },
  { why: "over 254 as A-labels", text: `${"a".repeat(60)}@${"ü.".repeat(60)}io` },
  {
    why: "over 254 as A-labels, of a domain that is not",
    text: `${"a".repeat(60)}@${"ü.".repeat(24)}io`,
  },
  { why: "a megabyte", text: `${"a.".repeat(500_000)}@x.io` },
];

describe("parseAddress", () => {
  test.each(accepted)("accepts $text", ({ text, address, bound }) => {
    expect(parseAddress(text)).toEqual({ kind: "valid", address });
    expect(normaliseAddress(text)).toBe(bound);
    // A normalised address stays the same.
    expect(normaliseAddress(bound)).toBe(bound);
  });

  test.each(refused)("refuses $why", ({ text }) => {
    expect(parseAddress(text).kind).toBe("invalid");
  });
});
