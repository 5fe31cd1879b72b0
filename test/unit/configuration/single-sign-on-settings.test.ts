import { describe, expect, test } from "vitest";
import { ConfigurationError, readConfiguration } from "../../../src/configuration/configuration.ts";
import { singleSignOnSettings } from "../../../src/configuration/single-sign-on-settings.ts";

const WHOLE = {
  CARILLON_PUBLIC_URL: "https://carillon.example.com/",
  CARILLON_OIDC_ISSUER: "https://id.example.com/realm",
  CARILLON_OIDC_CLIENT_ID: "carillon",
};
const settings = (env: Record<string, string>) =>
  singleSignOnSettings(readConfiguration("standalone", env));

describe("single sign-on", () => {
  test("is off unless it is asked for", () => {
    expect(settings({})).toBeUndefined();
    expect(settings({ CARILLON_PUBLIC_URL: WHOLE.CARILLON_PUBLIC_URL })).toBeUndefined();
  });

  test("takes issuer, client and the dashboard's own origin", () => {
    expect(settings(WHOLE)).toEqual({
      issuer: "https://id.example.com/realm",
      clientId: "carillon",
      clientSecret: undefined,
      name: "single sign-on",
      publicUrl: "https://carillon.example.com",
    });
    const more = { CARILLON_OIDC_CLIENT_SECRET: "word", CARILLON_OIDC_NAME: "Example ID" };
    expect(settings({ ...WHOLE, ...more })).toMatchObject({
      clientSecret: "word",
      name: "Example ID",
    });
  });

  test.each([
    { lacks: "CARILLON_PUBLIC_URL" },
    { lacks: "CARILLON_OIDC_ISSUER" },
    { lacks: "CARILLON_OIDC_CLIENT_ID" },
  ] as const)("does not start half configured: without $lacks", ({ lacks }) => {
    const env: Record<string, string> = { ...WHOLE, CARILLON_OIDC_CLIENT_SECRET: "word" };
    delete env[lacks];
    expect(() => settings(env)).toThrow(
      new ConfigurationError(`single sign-on is half configured: set ${lacks}`),
    );
  });

  test.each([
    { name: "https", url: "https://carillon.example.com:8443" },
    { name: "http on the machine itself", url: "http://127.0.0.1:8080" },
    { name: "http on localhost", url: "http://localhost:8080" },
    { name: "http on the IPv6 loopback", url: "http://[::1]:8080" },
  ])("people may come by $name", ({ url }) => {
    expect(settings({ ...WHOLE, CARILLON_PUBLIC_URL: url })?.publicUrl).toBe(url);
  });

  test.each([
    { name: "http elsewhere", url: "http://carillon.example.com" },
    { name: "a look-alike of localhost", url: "http://localhost.example.com" },
    { name: "a look-alike of the loopback", url: "http://127.0.0.1.example.com" },
    { name: "a path", url: "https://example.com/carillon" },
    { name: "user info", url: "https://user@example.com" },
    { name: "a query", url: "https://example.com/?a=b" },
    { name: "another scheme", url: "javascript:alert(1)" },
    { name: "no URL", url: "carillon.example.com" },
  ])("but not by $name", ({ url }) => {
    expect(() => settings({ ...WHOLE, CARILLON_PUBLIC_URL: url })).toThrow(
      /^CARILLON_PUBLIC_URL must/,
    );
  });
});
