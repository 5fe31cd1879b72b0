import { createHash } from "node:crypto";

/** An HTML page made at start, without scripts. The policy allows its one inline style sheet by the hash. */
export interface Page {
  paths: string[];
  html: string;
  contentSecurityPolicy: string;
}

export function page(options: {
  paths: string[];
  title: string;
  style: string;
  body: string;
}): Page {
  const hash = createHash("sha256").update(options.style).digest("base64");
  return {
    paths: options.paths,
    html: [
      "<!doctype html>",
      '<html lang="en">',
      '<head><meta charset="utf-8">',
      '<meta name="viewport" content="width=device-width, initial-scale=1">',
      '<meta name="color-scheme" content="light dark">',
      `<title>${escapeHtml(options.title)}</title>`,
      `<style>${options.style}</style></head>`,
      `<body>${options.body}</body></html>`,
    ].join("\n"),
    contentSecurityPolicy: `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  };
}

export function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
