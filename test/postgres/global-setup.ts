import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";
import { migrate } from "../../src/postgres/migrate.ts";
import { startEmbeddedPostgres } from "../../src/standalone/embedded-postgres.ts";
import { admin } from "./admin.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** A superuser's URL of the server on which test databases are created. */
    postgresAdminUrl: string;
    /** The migrated database of which each test database is a clone. */
    postgresTemplate: string;
  }
}

/** One PostgreSQL for the whole run, one migrated template in it; each test file clones the template. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await resolveServer();
  const template = `carillon_template_${process.pid}_${Date.now().toString(36)}`;
  await admin(server.url, `create database ${template}`);
  const url = new URL(server.url);
  url.pathname = `/${template}`;
  await migrate({ url: url.href, appVersion: "999.0.0" });
  project.provide("postgresAdminUrl", server.url);
  project.provide("postgresTemplate", template);
  return async () => {
    await admin(server.url, `drop database if exists ${template} with (force)`).catch(
      () => undefined,
    );
    await server.stop();
  };
}

interface Server {
  url: string;
  stop(): Promise<void>;
}

/** The server of DATABASE_URL, or else the bundled PostgreSQL without syncing, or else one in Docker. */
async function resolveServer(): Promise<Server> {
  const given = process.env["DATABASE_URL"];
  if (given !== undefined && given !== "") return { url: given, stop: async () => undefined };
  let embeddedFailure: unknown;
  const dataDir = await mkdtemp(join(tmpdir(), "carillon-test-postgres-"));
  const remove = () => rm(dataDir, { recursive: true, force: true });
  try {
    const server = await startEmbeddedPostgres({
      dataDir,
      settings: {
        fsync: "off",
        synchronous_commit: "off",
        full_page_writes: "off",
        max_connections: "200",
      },
    });
    // Tests add queries of their own.
    const url = new URL(server.url);
    url.search = "";
    return {
      url: url.href,
      stop: async () => {
        await server.stop();
        await remove();
      },
    };
  } catch (error) {
    embeddedFailure = error;
    await remove();
  }
  if (await dockerAnswers()) {
    const { PostgreSqlContainer } = await import("@testcontainers/postgresql");
    const container = await new PostgreSqlContainer("postgres:18").start();
    return {
      url: container.getConnectionUri(),
      stop: async () => {
        await container.stop();
      },
    };
  }
  throw new Error("tests need PostgreSQL: DATABASE_URL, the bundled one, or Docker", {
    cause: embeddedFailure,
  });
}

async function dockerAnswers(): Promise<boolean> {
  return promisify(execFile)("docker", ["info"], { timeout: 5_000 }).then(
    () => true,
    () => false,
  );
}
