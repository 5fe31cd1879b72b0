import { randomBytes } from "node:crypto";
import { admin } from "./admin.ts";

/** A role that gets so many connections at a time, and the database's URL for it. */
export async function createLimitedRole(
  databaseUrl: string,
  connections: number,
): Promise<{ url: string; drop(): Promise<void> }> {
  const url = new URL(databaseUrl);
  url.username = `limited_${randomBytes(4).toString("hex")}`;
  url.password = "limited";
  await admin(
    databaseUrl,
    `create role ${url.username} login password '${url.password}' connection limit ${connections}`,
  );
  return {
    url: url.href,
    drop: () => admin(databaseUrl, `drop role ${url.username}`),
  };
}
