import { describe, expect, test } from "vitest";
import { isLoopbackHost } from "../../../../src/domain/loopback-host.ts";
import { ApiError } from "../../../../src/gateway/errors.ts";
import { refuseCrossOrigin } from "../../../../src/gateway/dashboard/same-origin.ts";
import {
  readSessionCookie,
  sessionCookie,
} from "../../../../src/gateway/dashboard/session-cookie.ts";

const requests = [
  { host: "localhost:8080", origin: "http://localhost:8080", secFetchSite: "", ok: true },
  {
    host: "127.0.0.1:8080",
    origin: "http://127.0.0.1:8080",
    secFetchSite: "same-origin",
    ok: true,
  },
  { host: "[::1]:8080", origin: "http://[::1]:8080", secFetchSite: "", ok: true },
  { host: "mail.example.com", origin: "https://mail.example.com", secFetchSite: "", ok: true },
  { host: "mail.example.com:443", origin: "https://mail.example.com", secFetchSite: "", ok: true },
  { host: "Mail.Example.com", origin: "https://mail.example.com", secFetchSite: "", ok: true },
  { host: "mail.example.com", origin: "", secFetchSite: "same-origin", ok: true },
  { host: "mail.example.com", origin: "http://mail.example.com", secFetchSite: "", ok: false },
  { host: "mail.example.com", origin: "https://evil.example", secFetchSite: "", ok: false },
  {
    host: "mail.example.com",
    origin: "https://mail.example.com.evil.example",
    secFetchSite: "",
    ok: false,
  },
  { host: "mail.example.com", origin: "null", secFetchSite: "", ok: false },
  { host: "mail.example.com", origin: "", secFetchSite: "", ok: false },
  {
    host: "mail.example.com",
    origin: "https://mail.example.com",
    secFetchSite: "cross-site",
    ok: false,
  },
  { host: "localhost:8080", origin: "http://localhost:3000", secFetchSite: "same-site", ok: false },
  // Browsers that send no Sec-Fetch-Site.
  { host: "localhost:8080", origin: "http://localhost:3000", secFetchSite: "", ok: false },
  {
    host: "mail.example.com",
    origin: "https://mail.example.com:8443",
    secFetchSite: "",
    ok: false,
  },
];
test.each(requests)("$host from '$origin' $secFetchSite: $ok", ({ ok, ...headers }) => {
  expect(passes(headers)).toBe(ok);
});

function passes(headers: Parameters<typeof refuseCrossOrigin>[0]): boolean {
  try {
    refuseCrossOrigin(headers);
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.code === "cross_origin") return false;
    throw error;
  }
}

test.each([
  { host: "localhost", loopback: true },
  { host: "app.localhost:8080", loopback: true },
  { host: "127.8.8.8:1", loopback: true },
  { host: "[::1]:80", loopback: true },
  { host: "localhost.evil.example", loopback: false },
  { host: "127.0.0.1.evil.example", loopback: false },
  { host: "10.0.0.1", loopback: false },
  { host: "", loopback: false },
])("$host is the loopback: $loopback", ({ host, loopback }) => {
  expect(isLoopbackHost(host)).toBe(loopback);
});

describe("the cookie", () => {
  test("has the prefix, and with it Secure, everywhere but on the loopback", () => {
    expect(sessionCookie("t", "mail.example.com")).toMatch(
      /^__Host-carillon_session=t; Path=\/;.*; Secure$/,
    );
    expect(sessionCookie("t", "localhost:8080")).toMatch(/^carillon_session=t; Path=\/;/);
  });
  test("is read under the name that belongs to the host", () => {
    const header = "a=b; carillon_session=weak; __Host-carillon_session=strong";
    expect(readSessionCookie(header, "mail.example.com")).toBe("strong");
    expect(readSessionCookie("carillon_session=weak", "mail.example.com")).toBeUndefined();
    expect(readSessionCookie("carillon_session=weak", "localhost")).toBe("weak");
    expect(readSessionCookie("", "localhost")).toBeUndefined();
  });
  test("is not one with a no-break space in its name, which a sibling domain may set", () => {
    for (const name of ["\u00a0__Host-carillon_session", "__Host-carillon_session\u00a0"]) {
      const header = `a=b; ${name}=planted`;
      expect(readSessionCookie(header, "mail.example.com")).toBeUndefined();
      const both = `${header};\t__Host-carillon_session = own `;
      expect(readSessionCookie(both, "mail.example.com")).toBe("own");
    }
  });
});
