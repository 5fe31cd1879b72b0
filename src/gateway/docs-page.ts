import { ERROR_CODES } from "./error-codes.ts";
import type { OpenApiDocument, OpenApiOperation, OpenApiParameter } from "./openapi.ts";
import { escapeHtml as e, page, type Page } from "./page.ts";
import type { RateLimits } from "./rate-limit.ts";

interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  description?: string;
  default?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  examples?: unknown[];
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  maxItems?: number;
}

/** The API for people, at `/docs`: written from the OpenAPI document at start; works offline. */
export function docsPage(document: OpenApiDocument, { perSecond, burst }: RateLimits): Page {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      method: method.toUpperCase(),
      operation,
    })),
  );
  // The dashboard's routes change with its pages: they are in the document, but not on this page.
  const tags = document.tags.filter(({ name }) => name !== "Dashboard");
  const sections = tags.map(({ name, description }) => {
    const own = operations.filter(({ operation }) => operation.tags.includes(name));
    return {
      name,
      toc: own.map(({ method, path, operation }) => tocEntry(method, path, operation)).join(""),
      html: `<section><h2>${e(name)}</h2><p>${prose(description)}</p>${own
        .map(({ method, path, operation }) => operationHtml(document, method, path, operation))
        .join("")}</section>`,
    };
  });
  return page({
    paths: ["/docs", "/docs/"],
    title: `${document.info.title} API`,
    style: STYLE,
    body: `<header><div><h1>${e(document.info.title)} API</h1><small>version ${e(document.info.version)} · <a href="/openapi.json">openapi.json</a></small></div></header>
<div class="page"><nav aria-label="Endpoints">${sections
      .map(({ name, toc }) => `<h2>${e(name)}</h2><ul>${toc}</ul>`)
      .join("")}<h2>Reference</h2><ul><li><a href="#errors">Errors</a></li></ul></nav>
<main><p>${prose(document.info.description)}</p>
<p>Send the API key with each request:</p><pre>X-API-Key: svc_live_…</pre>
<p>For each gateway process, an API key may make ${number(perSecond)} requests a second, ${number(burst)} at once; the <code>RateLimit-*</code> headers say how many are left. Unknown fields, unknown query parameters and duplicate keys in a JSON object are refused.</p>
${sections.map(({ html }) => html).join("")}${errorsHtml()}</main></div>`,
  });
}

function number(value: number): string {
  return value.toLocaleString("en-US");
}

function tocEntry(method: string, path: string, operation: OpenApiOperation): string {
  return `<li><a href="#${e(operation.operationId)}"><b class="m ${e(method)}">${e(method)}</b><span>${e(path)}</span></a></li>`;
}

function operationHtml(
  document: OpenApiDocument,
  method: string,
  path: string,
  operation: OpenApiOperation,
): string {
  const body = operation.requestBody?.content["application/json"].schema;
  const schema = body && resolved(document, body);
  const success = Object.entries(operation.responses).find(([status]) => status.startsWith("2"));
  return `<article id="${e(operation.operationId)}"><h3><b class="m ${e(method)}">${e(method)}</b> <code>${e(path)}</code></h3>
<p><strong>${e(operation.summary)}.</strong> ${prose(operation.description ?? "")}</p>
${parametersHtml(operation.parameters)}
${schema ? `<h4>Request body</h4>${prose(schema.description ?? "")}${fieldsHtml(document, schema)}` : ""}
<h4>Example</h4><pre>${e(curl(method, path, operation, schema))}</pre>
${success ? successHtml(document, success[0], success[1].content["application/json"].schema) : ""}
<p class="statuses">Errors: ${Object.entries(operation.responses)
    .filter(([status]) => !status.startsWith("2"))
    .map(([status, response]) => {
      const codes = Object.keys(response.content["application/json"].examples ?? {});
      return `<span><b>${e(status)}</b> ${codes.map((code) => `<a href="#error-${e(code)}">${e(code)}</a>`).join(", ")}</span>`;
    })
    .join(" ")}</p></article>`;
}

function successHtml(document: OpenApiDocument, status: string, schema: Schema): string {
  const whole = resolved(document, schema);
  const example = exampleOf(document, whole);
  return `<h4>Answer ${e(status)}</h4>${
    whole.type === "array"
      ? `<p>An array. ${prose(whole.description ?? "")}</p>${fieldsHtml(document, element(document, whole))}`
      : fieldsHtml(document, whole)
  }${example === undefined ? "" : `<pre>${e(JSON.stringify(example, null, 2))}</pre>`}`;
}

/** The schema of an array's elements; of several the first, which is the common one. */
function element(document: OpenApiDocument, schema: Schema): Schema {
  const items = resolved(document, schema.items ?? {});
  return items.anyOf?.[0] ? resolved(document, items.anyOf[0]) : items;
}

function exampleOf(document: OpenApiDocument, schema: Schema): unknown {
  if (schema.examples?.[0] !== undefined) return schema.examples[0];
  const inner = schema.type === "array" ? element(document, schema).examples?.[0] : undefined;
  return inner === undefined ? undefined : [inner];
}

function parametersHtml(parameters: OpenApiParameter[]): string {
  if (parameters.length === 0) return "";
  const rows = parameters.map((parameter) =>
    row(
      parameter.name,
      `${parameter.in} · ${typeText(parameter.schema)}`,
      parameter.required,
      describe({ ...parameter.schema, description: parameter.description ?? "" }),
    ),
  );
  return `<h4>Parameters</h4>${table(rows)}`;
}

function fieldsHtml(document: OpenApiDocument, schema: Schema): string {
  const entries = Object.entries(schema.properties ?? {});
  if (entries.length === 0) return "";
  const rows = entries.flatMap(([name, property]) => {
    const whole = resolved(document, property);
    const required = schema.required?.includes(name) ?? false;
    const inner = resolved(document, whole.items ?? {});
    return [
      row(name, typeText(whole), required, describe(whole)),
      ...Object.entries(inner.properties ?? {}).map(([part, partSchema]) =>
        row(
          `${name}[].${part}`,
          typeText(partSchema),
          inner.required?.includes(part) ?? false,
          describe(partSchema),
        ),
      ),
    ];
  });
  return table(rows);
}

function table(rows: string[]): string {
  return `<div class="scroll"><table><thead><tr><th>Name</th><th>Type</th><th>Notes</th></tr></thead><tbody>${rows.join("")}</tbody></table></div>`;
}

function row(name: string, type: string, required: boolean, notes: string): string {
  return `<tr><td><code>${e(name)}</code>${required ? ' <em title="required">*</em>' : ""}</td><td>${e(type)}</td><td>${notes}</td></tr>`;
}

function typeText(schema: Schema): string {
  const types = [schema.type ?? "any"].flat().join(" or ");
  return schema.type === "array" && schema.items ? `array of ${typeText(schema.items)}` : types;
}

function describe(schema: Schema): string {
  const notes = [prose(schema.description ?? "")];
  if (schema.enum)
    notes.push(
      `One of ${schema.enum
        .filter((value) => value !== null)
        .map((value) => `<code>${e(JSON.stringify(value))}</code>`)
        .join(", ")}.`,
    );
  if (schema.minimum !== undefined && schema.maximum !== undefined)
    notes.push(`${schema.minimum} to ${schema.maximum}.`);
  const describesLimit = /at most/i.test(schema.description ?? "");
  if (schema.maxLength !== undefined && !describesLimit)
    notes.push(`At most ${schema.maxLength} characters.`);
  if (schema.maxItems !== undefined && !describesLimit) notes.push(`At most ${schema.maxItems}.`);
  if (schema.default !== undefined)
    notes.push(`Default <code>${e(JSON.stringify(schema.default))}</code>.`);
  return notes.filter((note) => note !== "").join(" ");
}

function curl(
  method: string,
  path: string,
  operation: OpenApiOperation,
  schema: Schema | undefined,
): string {
  const lines = [
    `curl ${method === "GET" ? "" : `-X ${method} `}"$CARILLON_URL${path.replace("{id}", "$JOB_ID")}"`,
  ];
  if (operation.security.length > 0) lines.push(`-H "X-API-Key: $CARILLON_API_KEY"`);
  if (schema?.examples?.[0] !== undefined) {
    lines.push(`-H "Content-Type: application/json"`);
    lines.push(`-d '${JSON.stringify(schema.examples[0]).replaceAll("'", "'\\''")}'`);
  }
  return lines.join(" \\\n  ");
}

function errorsHtml(): string {
  const rows = Object.entries(ERROR_CODES).map(
    ([code, { status, meaning }]) =>
      `<tr id="error-${e(code)}"><td><code>${e(code)}</code></td><td>${status}</td><td>${prose(meaning)}</td></tr>`,
  );
  return `<section><h2 id="errors">Errors</h2><p>${prose('Every error response is `{"error": "…", "code": "…"}`, with `details` if fields were refused.')}</p><div class="scroll"><table><thead><tr><th>Code</th><th>Status</th><th>Meaning</th></tr></thead><tbody>${rows.join("")}</tbody></table></div></section>`;
}

function resolved(document: OpenApiDocument, schema: Schema): Schema {
  const name = schema.$ref?.split("/").at(-1);
  return name === undefined ? schema : (document.components.schemas[name] ?? {});
}

/** Escaped, with `code` marked. */
function prose(text: string): string {
  return e(text).replaceAll(/`([^`]+)`/g, "<code>$1</code>");
}

const STYLE = `:root{color-scheme:light dark;--line:color-mix(in srgb,CanvasText 15%,Canvas);--soft:color-mix(in srgb,CanvasText 6%,Canvas)}
*{box-sizing:border-box}
body{margin:0;font:16px/1.55 system-ui,sans-serif;background:Canvas;color:CanvasText}
header{border-bottom:1px solid var(--line)}
header div{max-width:76rem;margin:auto;padding:1.25rem 1.5rem}
header h1{margin:0;font-size:1.4rem}
.page{display:grid;grid-template-columns:17rem minmax(0,1fr);max-width:76rem;margin:auto}
nav{position:sticky;top:0;align-self:start;max-height:100vh;overflow:auto;padding:1rem 1.5rem;font-size:.875rem}
nav h2{font-size:.8rem;text-transform:uppercase;letter-spacing:.06em;margin:1.2rem 0 .3rem}
nav ul{list-style:none;margin:0;padding:0}
nav a{display:flex;gap:.5rem;align-items:baseline;padding:.15rem 0;text-decoration:none;color:inherit}
nav a:hover span{text-decoration:underline}
nav span{overflow-wrap:anywhere}
nav .m{flex:none;width:3.6rem;text-align:center}
main{padding:1rem 1.5rem 6rem}
article{border-top:1px solid var(--line);padding:1rem 0 1.5rem;scroll-margin-top:1rem}
h3{font-size:1.15rem}
h3 code{font-size:1em;background:none;overflow-wrap:anywhere}
h4{margin:1.2rem 0 .4rem}
code,pre{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.875em}
code{background:var(--soft);border-radius:.25rem;padding:.1em .3em}
pre{background:var(--soft);border-radius:.5rem;padding:.9rem 1rem;overflow-x:auto;line-height:1.45}
pre code{background:none;padding:0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.4rem .6rem .4rem 0;border-bottom:1px solid var(--line)}
td code{overflow-wrap:anywhere}
td:first-child{width:14.5rem;min-width:8rem}td:nth-child(2){width:9rem}
td em{color:#c2410c;font-style:normal}
.m{font:600 .72rem ui-monospace,Menlo,Consolas,monospace;padding:.1rem .35rem;border-radius:.25rem;background:var(--soft)}
.m.GET{color:#1d6fb8}.m.POST{color:#15803d}.m.PATCH{color:#a16207}.m.DELETE{color:#b91c1c}
.statuses span{display:inline-block;margin-right:.8rem;font-size:.875rem}
@media (prefers-color-scheme:dark){.m.GET{color:#7cc0ff}.m.POST{color:#6ee7a0}.m.PATCH{color:#fcd34d}.m.DELETE{color:#fca5a5}td em{color:#fdba74}}
@media (max-width:48rem){.page{grid-template-columns:minmax(0,1fr)}nav{position:static;max-height:none;border-bottom:1px solid var(--line)}table{min-width:30rem}td:first-child{width:9rem}td:nth-child(2){width:6rem}}`;
