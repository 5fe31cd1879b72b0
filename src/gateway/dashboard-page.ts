import { page, type Page } from "./page.ts";

/** What `/dashboard/` shows where the dashboard's files have not been built: how to go on without it. */
export function dashboardPage(): Page {
  return page({
    paths: ["/dashboard", "/dashboard/"],
    title: "Carillon dashboard",
    style: `body{font:16px/1.6 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}
pre{background:color-mix(in srgb,currentColor 8%,transparent);padding:1rem;border-radius:.5rem;overflow-x:auto}
a{color:LinkText}`,
    body: `<main><h1>Carillon</h1>
<p>The dashboard's files are not built here: <code>npm run build:dashboard</code> builds them, and
<code>npm start</code> does so by itself. Without the dashboard, use the command line in the
directory from which Carillon runs:</p>
<pre>npm run -s carillon -- admin key create --account NAME
npm run -s carillon -- admin key list --account NAME
npm run -s carillon -- admin smtp set --account NAME \\
  --host smtp.example.com --port 587 --from noreply@example.com \\
  --username USER --password-stdin
npm run -s carillon -- admin --help</pre>
<p>In a container the same program is <code>carillon</code>.</p>
<p>The <a href="/docs">API documentation</a> describes the REST API.</p></main>`,
  });
}
