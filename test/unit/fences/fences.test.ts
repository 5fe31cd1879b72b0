import { describe, expect, test } from "vitest";
import { violations } from "../../../scripts/fences.ts";

describe("fences", () => {
  test.each([
    {
      name: "the domain knows no adapter",
      file: "src/domain/decide.ts",
      source: 'import { createPool } from "../postgres/pool.ts";',
      says: "src/domain must not import src/postgres",
    },
    {
      name: "adapters do not know each other",
      file: "src/gateway/gateway.ts",
      source: 'import type { Pool } from "../postgres/pool.ts";',
      says: "src/gateway must not import src/postgres",
    },
    {
      name: "a package has one home",
      file: "src/gateway/gateway.ts",
      source: 'import pg from "pg";',
      says: "pg belongs in src/postgres/",
    },
    {
      name: "a scoped package too",
      file: "src/controller/controller.ts",
      source: 'import { KubeConfig } from "@kubernetes/client-node";',
      says: "@kubernetes/client-node belongs in src/kubernetes/",
    },
    {
      name: "a dynamic import counts",
      file: "src/gateway/gateway.ts",
      source: 'const pg = await import("pg");',
      says: "pg belongs in",
    },
    {
      name: "the domain does no I/O",
      file: "src/domain/job.ts",
      source: 'import { readFile } from "node:fs/promises";',
      says: "node:fs/promises is not for it",
    },
    {
      name: "composition roots wire, and use no fenced package",
      file: "cmd/gateway.ts",
      source: 'import Koa from "koa";',
      says: "cmd/ wires parts",
    },
    {
      name: "src does not reach out",
      file: "src/domain/job.ts",
      source: 'import { run } from "../../cmd/run.ts";',
      says: "src/ must not import cmd/run.ts",
    },
    {
      name: "a new folder needs an entry",
      file: "src/novelty/thing.ts",
      source: "",
      says: "has no entry in scripts/fences.ts",
    },
  ])("$name", ({ file, source, says }) => {
    expect(violations(file, source)).toEqual([expect.stringContaining(says) as unknown]);
  });

  test.each([
    { file: "src/postgres/pool.ts", source: 'import pg from "pg";' },
    { file: "src/gateway/gateway.ts", source: 'import type { Job } from "../domain/job.ts";' },
    { file: "cmd/gateway.ts", source: 'import { createPool } from "../src/postgres/pool.ts";' },
    { file: "src/domain/job.ts", source: 'import { createHash } from "node:crypto";' },
  ])("lets through: $source in $file", ({ file, source }) => {
    expect(violations(file, source)).toEqual([]);
  });
});
