import { createClient } from "./pool.ts";

/** The data directory of the server at `url`; throws when it does not answer or refuses us. */
export async function serverDirectory(url: string): Promise<string> {
  const client = createClient({ url, applicationName: "carillon probe", connectTimeoutMs: 3_000 });
  try {
    await client.connect();
    const { rows } = await client.query<{ directory: string }>(
      "select current_setting('data_directory') as directory",
    );
    return rows[0]?.directory ?? "";
  } finally {
    await client.end().catch(() => undefined);
  }
}
