import { describe, expect, onTestFinished, test, vi } from "vitest";
import { problemOf, reportFailure } from "../../../cmd/problem.ts";
import { StartProblem } from "../../../src/configuration/start-problem.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";

const DATABASE = "postgres://carillon:secret@db.example:5432/carillon";
const failure = (fields: object, message = "it failed") =>
  Object.assign(new Error(message), fields);

describe("one line for what a person can do something about", () => {
  test.each<{ title: string; error: unknown; url?: string; line: string }>([
    { title: "our own words", error: new StartProblem("set PORT"), line: "set PORT" },
    {
      title: "our own words about a URL, without its password",
      error: new StartProblem('it is "https://ada:secret@id.example/"'),
      line: 'it is "https://ada:[redacted]@id.example/"',
    },
    {
      title: "an API server that does not answer",
      error: new DependencyUnavailable("kubernetes", {
        cause: new Error("get /x", { cause: new Error("connect ECONNREFUSED") }),
      }),
      line: "the Kubernetes API does not answer: connect ECONNREFUSED",
    },
    {
      title: "one behind a proxy, without its password, and the first of its addresses",
      error: new DependencyUnavailable("kubernetes", {
        cause: new AggregateError([new Error("http://ada:secret@proxy is away"), new Error("b")]),
      }),
      line: "the Kubernetes API does not answer: http://ada:[redacted]@proxy is away",
    },
    {
      title: "a database that is away, without its password",
      error: new DependencyUnavailable("postgres", { cause: new Error("connection\nrefused") }),
      url: DATABASE,
      line: "PostgreSQL at db.example:5432 cannot be used: connection refused (DATABASE_URL)",
    },
    {
      title: "a database behind a socket",
      error: new DependencyUnavailable("postgres", { cause: new Error("gone") }),
      url: "postgres:///carillon?host=%2Frun%2Fpostgresql",
      line: "PostgreSQL at /run/postgresql cannot be used: gone (DATABASE_URL)",
    },
    {
      title: "a password that is wrong",
      error: failure({ code: "28P01" }, "password authentication failed"),
      url: DATABASE,
      line: "PostgreSQL at db.example:5432 cannot be used: password authentication failed (DATABASE_URL)",
    },
    {
      title: "a database that is not there",
      error: failure({ code: "3D000" }, 'database "carillon" does not exist'),
      url: DATABASE,
      line: 'PostgreSQL at db.example:5432 cannot be used: database "carillon" does not exist (DATABASE_URL)',
    },
    {
      title: "a role that may not do it",
      error: failure({ code: "42501" }, "permission denied for schema public"),
      url: DATABASE,
      line: "PostgreSQL at db.example:5432 cannot be used: permission denied for schema public (DATABASE_URL)",
    },
    {
      title: "a server without TLS",
      error: failure({}, "The server does not support SSL connections"),
      url: DATABASE,
      line: "PostgreSQL at db.example:5432 cannot be used: The server does not support SSL connections (DATABASE_URL)",
    },
    {
      title: "something else in its place",
      error: failure({}, "There was an error establishing an SSL connection"),
      url: DATABASE,
      line: "PostgreSQL at db.example:5432 cannot be used: There was an error establishing an SSL connection (DATABASE_URL)",
    },
    {
      title: "a server that asks for a password when there is none",
      error: failure({}, "SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string"),
      url: "postgres://carillon@db.example:5432/carillon",
      line: "PostgreSQL at db.example:5432 cannot be used: SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string (DATABASE_URL)",
    },
    {
      title: "a certificate of an unknown authority",
      error: failure({ code: "SELF_SIGNED_CERT_IN_CHAIN" }, "self-signed certificate"),
      url: DATABASE,
      line: "PostgreSQL at db.example:5432 cannot be used: its certificate is of an authority that is not known here (SELF_SIGNED_CERT_IN_CHAIN): in the URL, sslrootcert=FILE names a file with the authority's certificate (DATABASE_URL)",
    },
    {
      title: "a certificate that has expired",
      error: failure({ code: "CERT_HAS_EXPIRED" }, "certificate has expired"),
      url: DATABASE,
      line: "PostgreSQL at db.example:5432 cannot be used: certificate has expired (DATABASE_URL)",
    },
    {
      title: "a certificate with a weak key",
      error: failure({ code: "UNSPECIFIED" }, "EE certificate key too weak"),
      url: DATABASE,
      line: "PostgreSQL at db.example:5432 cannot be used: EE certificate key too weak (DATABASE_URL)",
    },
    {
      title: "a server with an old version of TLS alone",
      error: failure({ code: "EPROTO", syscall: "write" }, "write EPROTO: alert protocol version"),
      url: DATABASE,
      line: "PostgreSQL at db.example:5432 cannot be used: write EPROTO: alert protocol version (DATABASE_URL)",
    },
    {
      title: "a key of another certificate",
      error: failure({ code: "ERR_OSSL_X509_KEY_VALUES_MISMATCH" }, "key values mismatch"),
      url: DATABASE,
      line: "PostgreSQL at db.example:5432 cannot be used: key values mismatch (DATABASE_URL)",
    },
    {
      title: "a certificate that is for something else",
      error: failure({ code: "INVALID_PURPOSE" }, "unsuitable certificate purpose"),
      url: DATABASE,
      line: "PostgreSQL at db.example:5432 cannot be used: unsuitable certificate purpose (DATABASE_URL)",
    },
    {
      title: "a disk that is full",
      error: failure({ syscall: "write", code: "ENOSPC" }, "ENOSPC: no space left on device"),
      line: "ENOSPC: no space left on device",
    },
    {
      title: "a quota that is used up",
      error: failure({ syscall: "write", code: "EDQUOT" }, "EDQUOT: disk quota exceeded"),
      line: "EDQUOT: disk quota exceeded",
    },
    {
      title: "a file that may not be read",
      error: failure({ syscall: "open", code: "EACCES", path: "/x" }, "EACCES: /x"),
      line: "EACCES: /x",
    },
  ])("$title", ({ error, url, line }) => {
    expect(problemOf(error, url)).toBe(line);
  });

  test.each([
    { title: "a fault of ours", error: new TypeError("x is not a function") },
    {
      title: "a syscall that nobody can do anything about",
      error: failure({ syscall: "read", code: "EIO" }),
    },
    { title: "a statement that PostgreSQL does not take", error: failure({ code: "42601" }) },
    { title: "what is no error", error: "no" },
  ])("none for $title", ({ error }) => {
    expect(problemOf(error, DATABASE)).toBeUndefined();
  });
});

test.each([
  {
    title: "a problem",
    error: new StartProblem("first\nsecond"),
    says: /^carillon: first\ncarillon: second\n$/,
  },
  {
    title: "a fault of ours, with its stack and without a password in it",
    error: new TypeError("postgres://u:secret@h is null"),
    says: /^TypeError: postgres:\/\/u:\[redacted\]@h is null\n +at /,
  },
  { title: "what is no error", error: "no", says: /^no\n$/ },
])("$title ends the program with 1", ({ error, says }) => {
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const { exitCode } = process;
  onTestFinished(() => {
    vi.restoreAllMocks();
    process.exitCode = exitCode;
  });
  reportFailure(error);
  expect(write.mock.calls.flat().join("")).toMatch(says);
  expect(process.exitCode).toBe(1);
});
