import { randomBytes } from "node:crypto";
import { admin } from "./admin.ts";
import { urlAs } from "./database.ts";

/** Creates a role that may have only so many connections at a time. `url` is the database's URL for it. */
export async function createLimitedRole(
  databaseUrl: string,
  connections: number,
): Promise<{ url: string; drop(): Promise<void> }> {
  const role = `limited_${randomBytes(4).toString("hex")}`;
  await admin(
    databaseUrl,
    `create role ${role} login password 'limited' connection limit ${connections}`,
  );
  return {
    url: urlAs(databaseUrl, role, "limited"),
    drop: async () => {
      await admin(databaseUrl, `drop role ${role}`);
    },
  };
}
