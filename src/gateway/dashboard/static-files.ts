import { randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import type Koa from "koa";

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
  ".png": "image/png",
  ".webmanifest": "application/manifest+json",
};
const COMPRESSED = new Set([".html", ".js", ".css", ".svg", ".webmanifest"]);
/** Stands in index.html where the answer's own nonce goes. */
const NONCE_MARK = "__CSP_NONCE__";

const zip = { br: promisify(brotliCompress), gzip: promisify(gzip) };

interface StaticFile {
  type: string;
  content: Buffer;
  /** Compressed on first demand; the built files never change while the process lives. */
  compressed: Map<"br" | "gzip", Promise<Buffer>>;
}

export interface StaticFiles {
  /** Answers GET `/dashboard/*`: a built file, or for every address of the app its page. */
  serve(ctx: Koa.Context, path: string): Promise<void>;
}

/** The built dashboard, read into memory once. Undefined when it has not been built. */
export async function readStaticFiles(directory: string): Promise<StaticFiles | undefined> {
  const files = new Map<string, StaticFile>();
  const names = await readdir(directory, { recursive: true }).catch(() => []);
  for (const name of names) {
    const type = TYPES[extname(name)];
    if (type === undefined) continue;
    const content = await readFile(join(directory, name));
    files.set(name.replaceAll("\\", "/"), { type, content, compressed: new Map() });
  }
  const index = files.get("index.html");
  if (!index) return undefined;
  const page = index.content.toString("utf8");

  return {
    async serve(ctx, path) {
      const file = path === "index.html" ? undefined : files.get(path);
      if (file) {
        ctx.set(
          "Cache-Control",
          path.startsWith("assets/") ? "public, max-age=31536000, immutable" : "no-cache",
        );
        await send(ctx, file, extname(path));
        return;
      }
      // Not an address of the app: an old asset must be 404, not the page.
      if (path.startsWith("assets/")) return;
      const nonce = randomBytes(16).toString("base64");
      ctx.set("Content-Security-Policy", contentSecurityPolicy(nonce));
      ctx.set("Cache-Control", "no-store");
      ctx.type = "text/html; charset=utf-8";
      ctx.body = page.replaceAll(NONCE_MARK, nonce);
    },
  };
}

async function send(ctx: Koa.Context, file: StaticFile, extension: string): Promise<void> {
  ctx.type = file.type;
  ctx.vary("Accept-Encoding");
  const encoding = COMPRESSED.has(extension) ? ctx.acceptsEncodings("br", "gzip", "identity") : "";
  if (encoding !== "br" && encoding !== "gzip") {
    ctx.body = file.content;
    return;
  }
  let body = file.compressed.get(encoding);
  if (!body) {
    body =
      encoding === "br"
        ? zip.br(file.content, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } })
        : zip.gzip(file.content, { level: 9 });
    file.compressed.set(encoding, body);
  }
  ctx.set("Content-Encoding", encoding);
  ctx.body = await body;
}

/**
 * Scripts and styles only from our own files. The component library writes its theme's variables into a
 * style element, which the nonce allows. No HTML text of ours has a style attribute.
 */
function contentSecurityPolicy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join("; ");
}
