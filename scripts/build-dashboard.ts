/**
 * Builds the dashboard into src/dashboard/dist when its sources changed since the last time; otherwise it
 * only compares a hash, in milliseconds. Safe to run twice at once: the finished directory is swapped in.
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, glob, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const DASHBOARD = join(ROOT, "src/dashboard");
const DIST = join(DASHBOARD, "dist");
/** Inside the built directory: the hash of what it was built from. */
const STAMP = "sources.sha256";

const sources = await hashSources();
const built = await readFile(join(DIST, STAMP), "utf8").catch(() => "");
if (built !== sources) await build();

async function build(): Promise<void> {
  process.stderr.write("Building the dashboard (only when its sources changed) ...\n");
  const out = await mkdtemp(join(DASHBOARD, ".dist-"));
  try {
    const code = await run("vite", ["build", DASHBOARD, "--outDir", out, "--logLevel", "warn"]);
    if (code !== 0) {
      process.stderr.write("carillon: the dashboard could not be built: the lines above say why\n");
      process.exitCode = 1;
      return;
    }
    await writeFile(join(out, STAMP), sources);
    // mkdtemp's directory is private; an image does not run as the user who built it.
    await chmod(out, 0o755);
    await rm(DIST, { recursive: true, force: true });
    await rename(out, DIST).catch(async (error: NodeJS.ErrnoException) => {
      // Another build was a moment faster; its result is as good.
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(out, { recursive: true, force: true });
  }
}

async function hashSources(): Promise<string> {
  const hash = createHash("sha256");
  const files = ["package-lock.json"];
  const patterns = ["src/**", "public/**", "index.html", "vite.config.ts", "tsconfig.json"];
  for await (const entry of glob(patterns, { cwd: DASHBOARD, withFileTypes: true }))
    if (entry.isFile())
      files.push(join(entry.parentPath, entry.name).slice(ROOT.length).replaceAll("\\", "/"));
  for (const file of files.sort()) {
    const content = await readFile(join(ROOT, file)).catch(() => "");
    hash.update(`${file}\n`).update(createHash("sha256").update(content).digest());
  }
  return hash.digest("hex");
}

async function run(program: string, args: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, [binary(program), ...args], {
    cwd: ROOT,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, NODE_ENV: "production" },
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      resolve(code ?? 1);
    });
  });
}

function binary(name: string): string {
  return join(ROOT, `node_modules/${name}/bin/${name}.js`);
}
