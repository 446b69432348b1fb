// Understand: what is promised to whom, what attacks got, what is left of the budget.
import { useResource } from "./api.js";
import { day } from "./format.js";
import { html, useState } from "./html.js";
import { begin, useJob } from "./jobs.js";
import { link } from "./router.js";
import { Budgets } from "./library.js";
import { Chooser } from "./chooser.js";
import { Empty, Icon, Loading, Problem, Progress } from "./ui.js";

const TABS = [["card", "Card"], ["attacks", "Attacks"], ["report", "Report"], ["budget", "Budget"], ["impact", "Impact"]];

export function Understand({ route, recordings, session }) {
  const id = route.rest[0];
  const recording = recordings.find((each) => each.releases.some((one) => one.id === id));
  const [tab, setTab] = useState("card");
  if (!recording)
    return html`<${Chooser} title="Understand" icon="understand" page="understand" release recordings=${recordings}
      words="What a release promises, to whom, and what attacks got. Choose a release." />`;
  const release = recording.releases.find((one) => one.id === id);
  const pages = { report: `api/releases/${id}/report`, impact: `api/releases/${id}/impact?format=html` };
  return html`<header class="head"><div class="grow"><p class="over-title muted">Understand</p><h1 class="name">${recording.name}</h1>
      <p class="muted">${release.name} · ${release.method}</p></div>
      ${recording.releases.length > 1 && html`<label class="row muted">Release<select value=${id} onChange=${(event) => { location.hash = link("understand", event.target.value); }}>
        ${recording.releases.map((one) => html`<option value=${one.id}>${one.name}</option>`)}</select></label>`}
      ${pages[tab] ? html`<a class="button" href=${pages[tab]} target="_blank" rel="noopener">Open, to print as PDF</a>` : html`<button type="button" onClick=${() => print()}>Print</button>`}</header>
    <div class="tabs" role="tablist" aria-label="About this release">${TABS.map(([name, title]) => html`<button type="button" role="tab"
      aria-selected=${tab === name} aria-controls="panel" tabindex=${tab === name ? 0 : -1} onClick=${() => setTab(name)} onKeyDown=${(event) => turn(event, setTab, tab)}>${title}</button>`)}</div>
    <div id="panel" role="tabpanel" aria-label=${TABS.find(([name]) => name === tab)[1]} class="panel">
      ${tab === "card" && html`<${Card} release=${release} sound=${recording.kind === "sound"} />`}
      ${tab === "attacks" && html`<${Attacks} release=${release} session=${session} />`}
      ${tab === "report" && html`<${Framed} title="The report" src=${pages.report} />`}
      ${tab === "budget" && html`<${Ledger} />`}
      ${tab === "impact" && html`<${Impact} release=${release} page=${pages.impact} />`}</div>`;
}

function turn(event, setTab, tab) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const at = (TABS.findIndex(([name]) => name === tab) + by + TABS.length) % TABS.length;
  setTab(TABS[at][0]);
  event.target.parentElement.children[at].focus();
}

/** A card's words: headings and paragraphs of Markdown, as text. */
function Prose({ words }) {
  const blocks = String(words || "").split(/\n{2,}/).map((each) => each.trim()).filter(Boolean);
  return html`<div class="prose">${blocks.map(block)}</div>`;
}

function block(text) {
  const heading = /^(#{1,4})\s+(.*)$/s.exec(text);
  if (heading) return heading[1].length === 1 ? html`<h2>${inline(heading[2])}</h2>` : html`<h3>${inline(heading[2])}</h3>`;
  const lines = text.split("\n");
  if (lines.every((line) => /^\s*([-*]|\d+\.)\s/.test(line) || /^\s{2,}/.test(line))) {
    const items = text.split(/\n(?=\s*(?:[-*]|\d+\.)\s)/).map((item) => item.replace(/^\s*([-*]|\d+\.)\s+/, ""));
    return html`<ul>${items.map((item) => html`<li>${inline(item)}</li>`)}</ul>`;
  }
  if (lines.length > 1 && lines.every((line) => line.startsWith("|"))) {
    const cells = (line) => line.slice(1, -1).split(/(?<!\\)\|/).map((cell) => inline(cell.trim().replaceAll("\\|", "|")));
    return html`<table><thead><tr>${cells(lines[0]).map((cell) => html`<th>${cell}</th>`)}</tr></thead>
      <tbody>${lines.slice(2).map((line) => html`<tr>${cells(line).map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table>`;
  }
  return html`<p>${inline(text)}</p>`;
}

function inline(text) {
  return text.split(/(\*\*[^*]+\*\*|`[^`]+`)/).map((part) =>
    part.startsWith("**") ? html`<b>${part.slice(2, -2)}</b>` : part.startsWith("`") && part.length > 2 ? html`<code>${part.slice(1, -1)}</code>` : part);
}

function Verdict({ verdict }) {
  if (!verdict) return null;
  const good = verdict.agree;
  return html`<div class=${`notice ${good ? "good" : "bad"}`} role="status"><p><b>${good ? "File and card agree." : "File and card do not agree."}</b> ${good ? "" : verdict.words}${verdict.signedBy ? ` Signed by ${verdict.signedBy}.` : ""}</p>
    ${verdict.remarks?.map((each) => html`<p>${each}</p>`)}</div>`;
}

function Card({ release, sound }) {
  const card = useResource(`api/releases/${release.id}/card`);
  if (!card.data) return card.error ? html`<${Problem} error=${card.error} retry=${card.reload} />` : html`<${Loading} what="Reading the card …" />`;
  return html`<div class="checked"><${Verdict} verdict=${card.data.verdict} /><button type="button" onClick=${card.reload}>Verify again</button>
      ${!release.reviewed && !sound && html`<a class="button primary" href=${link("signoff", release.id)}>Sign off</a>`}</div>
    ${sound && html`<figure class="listen"><figcaption>The protected sound</figcaption><audio controls preload="none" src=${`api/releases/${release.id}/sound`}></audio></figure>`}
    <${Problem} error=${card.error} /><${Prose} words=${card.data.words} />
    <details><summary>The card as JSON</summary><pre>${JSON.stringify(card.data.json, null, 2)}</pre></details>`;
}

const ATTACKS = [
  ["leaks", "Who is still found?", "Detectors look for people on the protected frames, beside the original."],
  ["guarantee", "Does the promise hold?", "Tries to falsify the guarantee; only for methods that have one."],
];

function Attacks({ release, session }) {
  return html`<div class="tiles">${ATTACKS.map(([kind, title, words]) => html`<${Attack} key=${kind} kind=${kind} title=${title} words=${words} release=${release} session=${session} />`)}</div>`;
}

function Attack({ kind, title, words, release, session }) {
  const [id, setId] = useState(null);
  const [error, setError] = useState(null);
  const job = useJob(id);
  const start = () => begin(`api/releases/${release.id}/audit`, { kind }).then((begun) => { setId(begun); setError(null); }, setError);
  return html`<section class="tile"><h2>${title}</h2><p class="muted">${words}</p>
    <button type="button" disabled=${session.readOnly || (job && job.state === "running")} onClick=${start}>Attack</button>
    <${Problem} error=${error} />${job && html`<${Progress} job=${job} />`}
    ${job?.state === "done" && html`<${Outcome} result=${job.result} />`}</section>`;
}

function Outcome({ result }) {
  if (!result) return null;
  return html`<div class=${`notice ${result.passed ? "good" : "bad"}`} role="status">${result.words.map((each) => html`<p>${each}</p>`)}</div>`;
}

const COLUMNS = ["date", "method", "epsilon alone", "total after", "epsilons are for", "operator", "purpose", "state"];

function Ledger() {
  const ledger = useResource("api/ledger");
  if (!ledger.data) return ledger.error ? html`<${Problem} error=${ledger.error} retry=${ledger.reload} />` : html`<${Loading} what="Reading the ledger …" />`;
  if (!ledger.data.length)
    return html`<${Empty} icon="understand" title="No budget is kept here"><p>A budget adds up what all releases of the same people reveal together.
      <code>sfumato ledger create films --owner lab --epsilon 8 --delta 1e-5 --unit record --relation replace --ledger book.db</code> begins one in this folder.</p><//>`;
  return html`${ledger.data.map((each) => html`<section key=${each.dataset}><${Budgets} ledger=${[each]} />
    ${each.sentences.map((one) => html`<p>${one}</p>`)}
    ${each.history.length > 0 && html`<table class="rows"><thead><tr>${COLUMNS.map((name) => html`<th>${name}</th>`)}</tr></thead><tbody>
      ${each.history.map((one) => html`<tr>${COLUMNS.map((name) => html`<td class="number">${name === "date" ? day(one[name]) : one[name]}</td>`)}</tr>`)}</tbody></table>`}</section>`)}`;
}

function Impact({ release, page }) {
  return html`<p>The part of a data-protection impact assessment that this release can answer by itself: what was done, what is promised, what was
    measured, what is left open for you.</p>
    <div class="actions"><a class="button primary" href=${`api/releases/${release.id}/impact?format=md`} download="impact.md"><${Icon} name="download" />Markdown</a></div>
    <${Framed} title="The export for an impact assessment" src=${page} />`;
}

/** A page of the server's without scripts; it takes seconds to be made. */
function Framed({ src, title }) {
  const [there, setThere] = useState(false);
  return html`${!there && html`<${Loading} what=${`${title} is being made …`} />`}
    <iframe class="report" sandbox="" title=${title} src=${src} onLoad=${() => setThere(true)}></iframe>`;
}
