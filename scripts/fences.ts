/**
 * Folder and package fences: knowledge points inward, and each fenced package has one home.
 * Prints every violation and exits 1 when there is one.
 */
import { glob, readFile } from "node:fs/promises";
import { posix } from "node:path";

/** What each folder of src/ may import besides itself. cmd/ may import everything. */
const FOLDERS: Record<string, readonly string[]> = {
  domain: [],
  waiting: ["domain"],
  telemetry: ["domain"],
  configuration: ["domain"],
  admin: ["domain"],
  postgres: ["domain", "waiting"],
  mail: ["domain", "waiting", "telemetry", "network"],
  network: ["domain", "waiting"],
  delivery: ["domain", "waiting", "telemetry", "network"],
  kubernetes: ["domain", "waiting", "telemetry"],
  controller: ["domain", "waiting", "telemetry"],
  gateway: ["domain", "waiting", "telemetry"],
  oidc: ["domain"],
  standalone: ["domain", "configuration", "postgres"],
  dashboard: [],
};

/** Where a package may be imported; any other place is a violation. Unlisted packages are free in src/. */
const PACKAGES: Record<string, readonly string[]> = {
  pg: ["src/postgres/"],
  "node-pg-migrate": ["src/postgres/"],
  "@kubernetes/client-node": ["src/kubernetes/"],
  koa: ["src/gateway/"],
  "@koa/router": ["src/gateway/"],
  "koa-body": ["src/gateway/"],
  ajv: ["src/gateway/"],
  opossum: ["src/delivery/breaker.ts"],
  "cron-parser": ["src/domain/cron/fields.ts"],
  "prom-client": ["src/telemetry/metrics.ts"],
  nodemailer: ["src/mail/"],
  "smtp-server": ["src/mail/"],
  "postal-mime": ["src/mail/"],
  undici: ["src/kubernetes/"],
  pino: ["src/telemetry/"],
  "openid-client": ["src/oidc/openid-provider.ts"],
};

/** Built-in modules that the domain may use: pure computation only. */
const DOMAIN_BUILTINS = new Set(["node:crypto", "node:url"]);

const IMPORT =
  /(?:^|[;\s])(?:import|export)\s(?:[^'"();]*?\sfrom\s*)?["']([^"']+)["']|import\s*\(\s*["']([^"']+)["']\s*\)/g;

export function violations(file: string, source: string): string[] {
  const found: string[] = [];
  const folder = /^src\/([^/]+)\//.exec(file)?.[1];
  for (const match of source.matchAll(IMPORT)) {
    const target = match[1] ?? match[2] ?? "";
    if (target.startsWith(".")) {
      const path = posix.normalize(posix.join(posix.dirname(file), target));
      const other = /^src\/([^/]+)\//.exec(path)?.[1];
      if (folder === undefined) continue;
      if (other === undefined) {
        if (!path.startsWith("src/") && !path.endsWith("package.json"))
          found.push(`${file}: src/ must not import ${path}`);
      } else if (other !== folder && !FOLDERS[folder]?.includes(other)) {
        found.push(`${file}: src/${folder} must not import src/${other}`);
      }
      continue;
    }
    if (target.startsWith("node:")) {
      if (folder === "domain" && !DOMAIN_BUILTINS.has(target))
        found.push(`${file}: the domain is pure; ${target} is not for it`);
      continue;
    }
    const name = target.split("/", target.startsWith("@") ? 2 : 1).join("/");
    const homes = PACKAGES[name];
    if (homes && file.startsWith("src/") && !homes.some((home) => file.startsWith(home)))
      found.push(`${file}: ${name} belongs in ${homes.join(" or ")}`);
    if (homes && file.startsWith("cmd/"))
      found.push(`${file}: cmd/ wires parts; ${name} belongs in ${homes.join(" or ")}`);
  }
  if (folder !== undefined && !(folder in FOLDERS))
    found.push(`${file}: src/${folder} has no entry in scripts/fences.ts`);
  return found;
}

async function main(): Promise<void> {
  const found: string[] = [];
  let files = 0;
  for await (const file of glob(["src/**/*.ts", "src/**/*.tsx", "cmd/**/*.ts"])) {
    files += 1;
    found.push(...violations(file.replaceAll("\\", "/"), await readFile(file, "utf8")));
  }
  for (const line of found) console.error(line);
  if (files === 0 || found.length > 0) process.exitCode = 1;
  else console.log(`fences: ${files} files, no violation`);
}

if (import.meta.main) await main();
