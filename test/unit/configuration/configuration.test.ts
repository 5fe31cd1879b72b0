import { describe, expect, test } from "vitest";
import {
  ConfigurationError,
  readConfiguration,
  unknownVariables,
} from "../../../src/configuration/configuration.ts";
import { SNIPPETS } from "../../../src/dashboard/src/pages/verification-snippets.ts";
import { docsPage } from "../../../src/gateway/docs-page.ts";
import { openApiDocument } from "../../../src/gateway/openapi.ts";
import { createClient } from "../../../src/postgres/pool.ts";
import { redactText } from "../../../src/telemetry/redact.ts";

const GATEWAY = {
  DATABASE_URL: "postgres://u:secret-word@db/carillon",
  CARILLON_ENCRYPTION_KEYS: "a:AAAA",
};

describe("readConfiguration", () => {
  test("standalone needs nothing", () => {
    expect(readConfiguration("standalone", {})).toMatchObject({
      port: 8080,
      host: "127.0.0.1",
      metricsPort: 9090,
      dataDir: ".carillon",
      allowDestinations: ["127.0.0.0/8", "::1/128"],
      jobStore: "postgres",
    });
  });

  test("a gateway listens everywhere and may call nothing private", () => {
    const configuration = readConfiguration("gateway", GATEWAY);
    expect(configuration.host).toBeUndefined();
    expect(configuration).toMatchObject({
      allowDestinations: [],
      jobStore: "kubernetes",
    });
  });

  test("names that Kubernetes can have", () => {
    const env = {
      POD_NAMESPACE: "7-teams",
      CARILLON_LEASE_NAME: "carillon.team-a.controller",
      CARILLON_WATCH_NAMESPACES: `team-a, ${"x".repeat(63)},`,
    };
    expect(readConfiguration("standalone", env)).toMatchObject({
      podNamespace: "7-teams",
      leaseName: "carillon.team-a.controller",
      watchNamespaces: ["team-a", "x".repeat(63)],
    });
  });

  test("an empty variable counts as unset", () => {
    expect(readConfiguration("standalone", { PORT: "" }).port).toBe(8080);
    expect(readConfiguration("standalone", { PORT: " \t" }).port).toBe(8080);
  });

  test("spaces around a value do not count, as from a file of variables", () => {
    expect(readConfiguration("standalone", { PORT: " 8081\r" }).port).toBe(8081);
  });

  test.each(["standalone", "gateway"] as const)("%s: both ports are free, or two", (program) => {
    const on = (port: string) =>
      readConfiguration(program, { ...GATEWAY, PORT: port, CARILLON_METRICS_PORT: port });
    expect(on("0")).toMatchObject({ port: 0, metricsPort: 0 });
    expect(failure(() => on("8081")).message).toBe(
      "CARILLON_METRICS_PORT must be another port than PORT (both are 8081)",
    );
  });

  test.each([
    {
      name: "not a number",
      env: { PORT: "http" },
      says: 'PORT must be a whole number from 0 to 65535 (it is "http")',
    },
    { name: "too big", env: { PORT: "65536" }, says: "PORT must be" },
    {
      name: "service link",
      env: { CARILLON_METRICS_PORT: "tcp://10.0.0.1:9090" },
      says: "CARILLON_METRICS_PORT must be",
    },
    {
      name: "one port for two",
      env: { PORT: "8080", CARILLON_METRICS_PORT: "8080" },
      says: "CARILLON_METRICS_PORT must be another port than PORT (both are 8080)",
    },
    {
      name: "unknown store",
      env: { CARILLON_JOB_STORE: "etcd" },
      says: "must be one of kubernetes, postgres",
    },
    {
      name: "a namespace that cannot be",
      env: { POD_NAMESPACE: "Team_A" },
      says: "POD_NAMESPACE must be a namespace's name",
    },
    {
      name: "a namespace with a dot",
      env: { POD_NAMESPACE: "team.a" },
      says: "POD_NAMESPACE must be a namespace's name",
    },
    {
      name: "a Lease that cannot be",
      env: { CARILLON_LEASE_NAME: "team/lease" },
      says: "CARILLON_LEASE_NAME must be a name that a Kubernetes object can have",
    },
    {
      name: "one of several namespaces that cannot be",
      env: { CARILLON_WATCH_NAMESPACES: "team-a, team b" },
      says: 'CARILLON_WATCH_NAMESPACES must be namespaces\' names with commas in between, which "team b" is not',
    },
    {
      name: "a namespace of Secrets that cannot be",
      env: { CARILLON_HEADER_SECRET_NAMESPACES: `team-a,${"x".repeat(64)}` },
      says: "CARILLON_HEADER_SECRET_NAMESPACES must be namespaces' names",
    },
    {
      name: "a domain that ends with a dot",
      env: { CARILLON_CLUSTER_DOMAIN: "cluster.local." },
      says: "CARILLON_CLUSTER_DOMAIN must be a domain such as cluster.local",
    },
    {
      name: "other database",
      env: { DATABASE_URL: "mysql://u:secret-word@h" },
      says: "DATABASE_URL must look like postgres://",
    },
    ...["/", "?", "#"].map((letter) => ({
      name: `a password with @ and ${letter} as they are`,
      env: { DATABASE_URL: `postgres://u:p@secret-word${letter}x@h:5432/db?sslmode=verify-full` },
      says: "DATABASE_URL has an @ behind its host: a password is percent-encoded",
    })),
    ...["u:%ffsecret-word@h/db", "u:secret-word@h/%c3x", "u:secret-word@h/db%"].map((rest) => ({
      name: `a % that nothing can decode: ${rest}`,
      env: { DATABASE_URL: `postgres://${rest}` },
      says: "DATABASE_URL has a % that begins no character: a password is percent-encoded",
    })),
    {
      name: "an authority that is not there",
      env: { DATABASE_URL: "postgres://u:secret-word@h/db?sslrootcert=/nowhere/ca.crt" },
      says: "DATABASE_URL has an sslrootcert that cannot be read: ENOENT",
    },
    {
      name: "a key that is a directory",
      env: { DATABASE_URL: "postgres://u:secret-word@h/db?sslkey=/" },
      says: "DATABASE_URL has an sslkey that cannot be read: EISDIR",
    },
    {
      name: "an authority in another form",
      env: { DATABASE_URL: `postgres://u:secret-word@h/db?sslrootcert=${import.meta.filename}` },
      says: "DATABASE_URL has an sslrootcert that is not in PEM",
    },
  ])("refuses in one line: $name", ({ env, says }) => {
    const error = failure(() => readConfiguration("standalone", env));
    expect(error).toBeInstanceOf(ConfigurationError);
    expect(error.message).toContain(says);
    expect(error.message).not.toContain("\n");
    expect(error.message).not.toContain("secret-word");
    expect(redactText(error.message)).toBe(error.message);
  });

  test.each([
    { password: "50%off", decoded: "50%off" },
    { password: "50%25ff", decoded: "50%ff" },
    { password: "%C3%A9", decoded: "é" },
  ])("takes a password with % as pg does: $password", ({ password, decoded }) => {
    const url = `postgres://u:${password}@h/db`;
    const { databaseUrl } = readConfiguration("standalone", { DATABASE_URL: url });
    expect(databaseUrl).toBe(url);
    expect(createClient({ url, applicationName: "test" }).password).toBe(decoded);
  });

  test("names everything that is wrong at once", () => {
    const lines = failure(() => readConfiguration("gateway", { PORT: "x" })).message.split("\n");
    expect(lines.map((line) => line.split(" ")[0])).toEqual([
      "PORT",
      "DATABASE_URL",
      "CARILLON_ENCRYPTION_KEYS",
    ]);
  });
});

test("names that look like ours and are none are found, what others set is not", () => {
  const env = {
    CARILLON_RETENTON_DAYS: "7",
    CARILLON_METRIC_PORT: "9090",
    CARILLON_RETENTION_DAYS: "7",
    PORT: "80",
    // As set in a pod with service links, for a Service named carillon-gateway.
    CARILLON_GATEWAY_SERVICE_HOST: "10.0.0.1",
    CARILLON_GATEWAY_SERVICE_PORT_HTTP: "80",
    CARILLON_GATEWAY_PORT: "tcp://10.0.0.1:80",
    CARILLON_GATEWAY_PORT_80_TCP_ADDR: "10.0.0.1",
    CARILLON_API_KEY: "svc_live_x",
    CARILLON_TEST_KUBECONFIG: "x",
    // An empty variable counts as unset.
    CARILLON_METRICS: "",
  };
  expect(unknownVariables(env)).toEqual(["CARILLON_RETENTON_DAYS", "CARILLON_METRIC_PORT"]);
});

test("the names that our pages give to callers and receivers are not pointed out", () => {
  const shown = [
    docsPage(openApiDocument({ version: "1.0.0" }), { perSecond: 1, burst: 1 }).html,
    ...SNIPPETS.map(({ code }) => code),
  ].join("\n");
  const names = new Set(shown.match(/CARILLON_\w+/g));

  expect(names).toContain("CARILLON_API_KEY");
  expect(unknownVariables(Object.fromEntries(Array.from(names, (name) => [name, "x"])))).toEqual(
    [],
  );
});

function failure(action: () => unknown): Error {
  try {
    action();
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error("it did not fail");
}
