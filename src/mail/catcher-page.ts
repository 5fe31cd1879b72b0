/**
 * The catcher's one page. No framework, no external resource: it must open instantly and work offline.
 * Everything that came by mail reaches the document as text (`textContent`); HTML bodies are shown in
 * a sandboxed frame whose answer carries a policy of its own.
 */
export function catcherPage(nonce: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mail catcher · Carillon</title>
<link rel="icon" href="${ICON}">
<style nonce="${nonce}">${STYLE}</style>
<header>
  <h1>Mail catcher</h1>
  <p id="count" role="status">Loading…</p>
  <button id="clear" type="button">Delete all</button>
</header>
<p id="problem" role="alert" hidden></p>
<main>
  <nav aria-label="Messages"><ul id="list"></ul><p id="empty" hidden>No mail yet. Whatever Carillon sends arrives here and goes no further.</p></nav>
  <article id="mail" hidden>
    <h2 id="subject"></h2>
    <dl id="fields"></dl>
    <div id="views">
      <div role="tablist" aria-label="View">
        <button role="tab" type="button" data-view="html">HTML</button>
        <button role="tab" type="button" data-view="text">Text</button>
        <button role="tab" type="button" data-view="headers">Headers</button>
      </div>
      <a id="raw" target="_blank" rel="noopener">Source</a>
    </div>
    <iframe id="html" title="HTML body" sandbox="" referrerpolicy="no-referrer"></iframe>
    <pre id="text"></pre>
    <pre id="headers"></pre>
    <section id="attachments" hidden><h3>Attachments</h3><ul></ul></section>
  </article>
</main>
<script nonce="${nonce}">${SCRIPT}</script>
</html>
`;
}

const ICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#0b7285"/>' +
    '<path fill="none" stroke="#fff" stroke-width="2.5" stroke-linejoin="round" d="M25 10H7v13h18zl-9 7-9-7"/></svg>',
)}`;

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --accent: #3a5bd9; font: 15px/1.45 system-ui, sans-serif }
* { box-sizing: border-box }
body { margin: 0; display: flex; flex-direction: column; height: 100vh }
header { display: flex; gap: 1rem; align-items: baseline; padding: .6rem 1rem; border-bottom: 1px solid var(--line) }
h1 { font-size: 1.1rem; margin: 0 }
header p { flex: 1; margin: 0; opacity: .7 }
#problem { margin: 0; padding: .6rem 1rem; border-bottom: 1px solid var(--line); border-left: 4px solid #d33 }
main { flex: 1; display: flex; min-height: 0 }
nav { width: 24rem; max-width: 45vw; overflow-y: auto; border-right: 1px solid var(--line) }
nav ul { list-style: none; margin: 0; padding: 0 }
nav button { display: block; width: 100%; text-align: left; border: 0; border-bottom: 1px solid var(--line); background: none; padding: .6rem 1rem; font: inherit; color: inherit; cursor: pointer }
nav button:hover, nav button:focus-visible { background: #8882 }
nav button[aria-current=true] { background: color-mix(in srgb, var(--accent) 18%, transparent) }
nav b, nav span { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
nav b { text-align: left }
nav span { opacity: .7; font-size: .87rem }
#empty { padding: 1rem; opacity: .7 }
article { flex: 1; display: flex; flex-direction: column; min-width: 0; padding: 1rem; gap: .6rem; overflow-y: auto }
h2 { margin: 0; overflow-wrap: anywhere; font-size: 1.2rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: 0 }
dt { opacity: .65 } dd { margin: 0; overflow-wrap: anywhere }
#views { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center }
[role=tab] { min-height: 24px }
[role=tab][aria-selected=true] { font-weight: 600; text-decoration: underline }
iframe { flex: 1; min-height: 20rem; border: 1px solid var(--line); background: #fff; color-scheme: light }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.5 ui-monospace, monospace }
[hidden] { display: none !important }
@media (max-width: 40rem) {
  main { flex-direction: column }
  nav { width: auto; max-width: none; max-height: 35vh; border-right: 0; border-bottom: 1px solid var(--line) }
}
@media (forced-colors: active) { nav button[aria-current=true] { background: Highlight; color: HighlightText; forced-color-adjust: none } }
`;

const SCRIPT = `
const $ = (id) => document.getElementById(id);
const views = ["html", "text", "headers"];
let current = null, etag = null, asked = 0, shownLast = 0;
function element(name, text) { const e = document.createElement(name); if (text !== undefined) e.textContent = text; return e; }
function tell(problem) { $("problem").textContent = problem; $("problem").hidden = problem === ""; }
function view(name) {
  for (const v of views) $(v).hidden = v !== name;
  for (const tab of document.querySelectorAll("[role=tab]")) tab.setAttribute("aria-selected", String(tab.dataset.view === name));
}
function mark(id) {
  current = id;
  for (const button of document.querySelectorAll("nav button")) button.setAttribute("aria-current", String(button.parentElement.dataset.id === current));
}
async function refresh() {
  const turn = asked += 1;
  try {
    const answer = await fetch("api/messages", etag === null ? {} : { headers: { "If-None-Match": etag } });
    if (answer.status === 304) return;
    const { messages, total } = await answer.json();
    // Late: what was asked for behind it is shown by now.
    if (turn < shownLast) return;
    shownLast = turn;
    etag = answer.headers.get("ETag");
    $("count").textContent = total + (total === 1 ? " message" : " messages");
    $("empty").hidden = messages.length > 0;
    // What stays is not touched: it may have the focus, or be under a finger.
    const kept = new Set(messages.map((m) => m.id)), shown = new Set();
    for (const item of [...$("list").children])
      if (kept.has(item.dataset.id)) shown.add(item.dataset.id);
      else item.remove();
    $("list").prepend(...messages.filter((m) => !shown.has(m.id)).map((m) => {
      const item = element("li"), button = element("button");
      item.dataset.id = m.id;
      button.type = "button";
      button.setAttribute("aria-current", String(m.id === current));
      const subject = element("b", m.subject || "(no subject)");
      subject.dir = "auto";
      button.append(subject, element("span", "to " + m.to), element("span", new Date(m.received_at).toLocaleString()));
      button.addEventListener("click", () => { location.hash = m.id; });
      item.append(button);
      return item;
    }));
  } catch { $("count").textContent = "Not reachable; trying again"; etag = null; }
}
async function show() {
  const id = location.hash.slice(1);
  if (id === "") { $("mail").hidden = true; mark(null); return; }
  let m = null, problem = "";
  try {
    const answer = await fetch("api/messages/" + encodeURIComponent(id));
    if (answer.ok) m = await answer.json();
    else problem = "The mail is not here any more.";
  } catch { problem = "The mail cannot be shown: Carillon cannot be reached. Is it running?"; }
  // Late: another one was chosen meanwhile.
  if (location.hash.slice(1) !== id) return;
  tell(problem);
  // So that choosing it again asks again.
  if (m === null) { $("mail").hidden = true; history.replaceState(null, "", "#"); mark(null); return; }
  mark(m.id);
  $("subject").textContent = m.subject || "(no subject)";
  const fields = [["From", m.from], ["To", m.to], ["Cc", m.cc], ["Reply-To", m.reply_to], ["Envelope to", m.envelope_to.join(", ")], ["Received", new Date(m.received_at).toLocaleString()]];
  $("fields").replaceChildren(...fields.filter(([, v]) => v !== "").flatMap(([n, v]) => [element("dt", n), element("dd", v)]));
  $("text").textContent = m.text ?? "";
  $("headers").textContent = m.headers.map((h) => h.name + ": " + h.value).join("\\n");
  $("raw").href = "api/messages/" + m.id + "/raw";
  document.querySelector("[data-view=html]").hidden = m.html === null;
  document.querySelector("[data-view=text]").hidden = m.text === null;
  $("html").src = m.html === null ? "about:blank" : "api/messages/" + m.id + "/html";
  $("attachments").hidden = m.attachments.length === 0;
  $("attachments").querySelector("ul").replaceChildren(...m.attachments.map((a) => element("li", a.filename + " (" + a.content_type + ", " + a.bytes + " bytes)")));
  view(m.html === null ? "text" : "html");
  $("mail").hidden = false;
}
for (const tab of document.querySelectorAll("[role=tab]")) tab.addEventListener("click", () => view(tab.dataset.view));
async function clear() {
  tell("");
  const deleted = await fetch("api/messages", { method: "DELETE" }).then((answer) => answer.ok, () => false);
  if (!deleted) { tell("Nothing was deleted: Carillon cannot be reached. Is it running?"); return; }
  location.hash = "";
  etag = null;
  await refresh();
}
$("clear").addEventListener("click", clear);
addEventListener("hashchange", show);
setInterval(refresh, 2000);
refresh(); show();
`;
