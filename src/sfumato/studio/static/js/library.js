// What lies under the root folder, how far it has come, and what is left of the budgets.
import { useResource } from "./api.js";
import { bytes, count, length, percent, plural } from "./format.js";
import { html, useMemo, useState } from "./html.js";
import { begin, useJobs, ended } from "./jobs.js";
import { useKeys } from "./keys.js";
import { go, link } from "./router.js";
import { Empty, Icon, Meter, Problem, progressWords, State, Tool } from "./ui.js";

function nextStep(recording) {
  const release = recording.releases.at(-1);
  if (recording.problem) return null;
  if (recording.kind === "sound" && recording.state === "new") return { words: "Protect", to: link("protect", recording.id) };
  if (recording.state === "new") return { words: "Find people", find: true };
  if (recording.state === "found")
    return { words: recording.doubts ? `Review ${plural(recording.doubts, "doubt")}` : "Review", to: link("review", recording.id) };
  if (recording.state === "released" && !release.reviewed && recording.kind !== "sound") return { words: "Sign off", to: link("signoff", release.id) };
  if (recording.state === "released") return { words: "Understand", to: link("understand", release.id) };
  return { words: "Protect", to: link("protect", recording.id) };
}

function place(recording) {
  if (recording.releasedOnly) return link("understand", recording.releases[0]?.id);
  return link(recording.kind === "sound" ? "protect" : "review", recording.id);
}

function facts(recording) {
  const size = recording.width ? `${recording.width} × ${recording.height}` : null;
  const long = recording.kind === "picture" ? null : recording.seconds != null && length(recording.seconds);
  return [recording.folder, long, size, bytes(recording.bytes)].filter(Boolean).join(" · ");
}

function Next({ recording, job, find, readOnly }) {
  const step = nextStep(recording);
  if (!step) return null;
  if (job) return html`<span class="next muted number">${progressWords(job)}</span>`;
  if (step.find)
    return html`<button type="button" class="next" disabled=${readOnly} onClick=${() => find(recording)}>${step.words}</button>`;
  return html`<a class="button next" href=${step.to}>${step.words}</a>`;
}

function Thumbnail({ recording }) {
  if (recording.thumbnail) return html`<img loading="lazy" src=${recording.thumbnail} alt="" />`;
  return html`<span class="veil"><${Icon} name=${recording.kind} /><small>${recording.kind === "sound" ? "sound" : "shown once it is protected"}</small></span>`;
}

function Card({ recording, chosen, choose, ...rest }) {
  const release = recording.releases.at(-1);
  return html`<li class="card" data-id=${recording.id}>
    <a class="thumb" data-card href=${place(recording)} aria-label=${`Open ${recording.name}`}><${Thumbnail} recording=${recording} /></a>
    <div class="about"><label class="row"><input type="checkbox" checked=${chosen} onChange=${choose} aria-label=${`Choose ${recording.name}`} />
      <b class="name grow" title=${recording.name}>${recording.name}</b></label>
    <p class="muted number">${facts(recording)}</p>
    ${recording.problem && html`<p class="bad">${recording.problem}</p>`}
    ${release && html`<p class=${release.terms ? "promise good" : "promise muted"} title=${release.terms || release.guarantee}>
      ${release.terms && html`<${Icon} name="protect" />`}<span class="clip">${release.method}: ${release.terms || "no guarantee"}</span></p>
      ${release.reviewed && html`<p class="muted clip" title=${release.reviewed.words}>somebody left on ${count(release.reviewed.misses)} of ${count(release.reviewed.looked)} frames (${release.reviewed.who})</p>`}`}
    <div class="row spread"><${State} state=${recording.state} /><${Next} recording=${recording} ...${rest} /></div></div></li>`;
}

function Rows({ shown, chosen, choose, working, find, readOnly }) {
  return html`<table class="rows"><thead><tr><th></th><th>Recording</th><th>State</th><th class="num">Length</th>
    <th class="num">Size</th><th class="num">Doubts</th><th>Newest release</th><th></th></tr></thead><tbody>
    ${shown.map((each) => html`<tr key=${each.id}><td><input type="checkbox" checked=${chosen.has(each.id)}
        onChange=${() => choose(each.id)} aria-label=${`Choose ${each.name}`} /></td>
      <th scope="row"><a data-card href=${place(each)} class="name">${each.name}</a></th><td><${State} state=${each.state} /></td>
      <td class="num">${each.seconds != null ? length(each.seconds) : "–"}</td><td class="num">${bytes(each.bytes)}</td>
      <td class="num">${each.state === "new" ? "–" : count(each.doubts || 0)}</td>
      <td class="clip">${each.releases.at(-1)?.method || "–"}</td>
      <td class="num"><${Next} recording=${each} job=${working(each)} find=${find} readOnly=${readOnly} /></td></tr>`)}
  </tbody></table>`;
}

export function Budgets({ ledger }) {
  return html`${ledger.map((each) => html`<section class="budget" key=${`${each.id} ${each.dataset}`}>
    <div class="row"><b class="grow name">${each.dataset}</b><span class="number">${percent(1 - each.share)} left</span></div>
    <${Meter} share=${1 - each.share} label=${`${each.dataset}: ${percent(1 - each.share)} of the budget is left`}
      tone=${each.share > 0.9 ? "bad" : each.share > 0.7 ? "warn" : ""} />
    <p class="muted">${each.terms}</p></section>`)}`;
}

const moveFocus = (step) => () => {
  const cards = [...document.querySelectorAll("[data-card]")];
  const at = cards.indexOf(document.activeElement?.closest("[data-id]")?.querySelector("[data-card]") || document.activeElement);
  const top = cards[0]?.getBoundingClientRect().top;
  const columns = cards.filter((card) => card.getBoundingClientRect().top === top).length || 1;
  cards[Math.min(cards.length - 1, Math.max(0, at < 0 ? 0 : at + (step.rows ? step.rows * columns : step)))]?.focus();
};

export function Library({ session, recordings, folders: every }) {
  const folders = every.filter((each) => each.recordings.length > 0);
  const [wanted, setWanted] = useState("");
  const [state, setState] = useState("");
  const [view, setView] = useState(localStorage.getItem("view") || "grid");
  const [chosen, setChosen] = useState(new Set());
  const [error, setError] = useState(null);
  const ledger = useResource("api/ledger");
  const jobs = useJobs();
  const shown = useMemo(() => {
    const words = wanted.toLowerCase();
    return recordings.filter((each) => (!state || each.state === state) && each.name.toLowerCase().includes(words));
  }, [recordings, wanted, state]);
  const choose = (id) => setChosen((old) => { const next = new Set(old); next.delete(id) || next.add(id); return next; });
  const look = (name) => { setView(name); localStorage.setItem("view", name); };
  const find = (recording) => begin(`api/recordings/${recording.id}/find`, { settings: {} }).then(() => setError(null), setError);
  const working = (recording) => jobs.find((job) => !ended(job) && job.recordings.includes(recording.id));
  useKeys([
    { keys: ["/"], label: "Search", run: () => document.getElementById("search")?.focus() },
    { keys: ["g"], label: "Grid or list", run: () => look(view === "grid" ? "list" : "grid") },
    { keys: ["ArrowRight"], label: "Next recording", run: moveFocus(1) },
    { keys: ["ArrowLeft"], label: "Previous recording", run: moveFocus(-1) },
    { keys: ["ArrowDown"], run: moveFocus({ rows: 1 }) },
    { keys: ["ArrowUp"], run: moveFocus({ rows: -1 }) },
  ]);
  if (recordings.length === 0)
    return html`<${Empty} icon="folder" title="No recordings here yet">
      <p>Put videos or pictures into the folder <b>${session.root}</b>, then reload this page.
      Nothing leaves this computer.</p><button type="button" onClick=${() => location.reload()}>Reload</button><//>`;
  const fresh = recordings.filter((one) => chosen.has(one.id) && one.state === "new" && one.kind !== "sound" && !one.problem && !working(one));
  const each = { find, readOnly: session.readOnly };
  return html`<header class="head"><div class="grow"><h1>${session.root}</h1>
      <p class="muted">${plural(recordings.length, "recording")}, ${count(recordings.filter((one) => one.state === "released").length)} released</p></div>
      <input id="search" type="search" placeholder="Search" aria-label="Search recordings" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
      <select aria-label="State" value=${state} onChange=${(event) => setState(event.target.value)}>
        <option value="">every state</option>${["new", "found", "reviewed", "released"].map((name) => html`<option>${name}</option>`)}</select>
      <div class="group"><${Tool} icon="library" label="Grid" keys="G" aria-pressed=${view === "grid"} onClick=${() => look("grid")} />
        <${Tool} icon="list" label="List" keys="G" aria-pressed=${view === "list"} onClick=${() => look("list")} /></div></header>
    <${Problem} error=${error} />
    ${chosen.size > 0 && html`<div class="bar row" role="status"><span class="grow">${plural(chosen.size, "recording")} chosen</span>
      <button type="button" onClick=${() => setChosen(new Set())}>Choose none</button>
      ${fresh.length > 0 && html`<button type="button" disabled=${session.readOnly} onClick=${() => fresh.forEach(find)}>Find people in ${fresh.length === 1 ? "it" : count(fresh.length)}</button>`}
      <button type="button" class="primary" onClick=${() => go("protect", [...chosen].join(","))}>Protect them</button></div>`}
    <div class="sides"><div>
      ${shown.length === 0 && html`<p class="muted">Nothing matches. <button type="button" class="small" onClick=${() => { setWanted(""); setState(""); }}>Show all</button></p>`}
      ${view === "grid"
        ? html`<ul class="cards">${shown.map((one) => html`<${Card} key=${one.id} recording=${one} chosen=${chosen.has(one.id)}
            choose=${() => choose(one.id)} job=${working(one)} ...${each} />`)}</ul>`
        : shown.length > 0 && html`<${Rows} shown=${shown} chosen=${chosen} choose=${choose} working=${working} ...${each} />`}</div>
    ${(ledger.data?.length > 0 || folders.length > 1) && html`<aside>
      ${ledger.data?.length > 0 && html`<h2>Budgets</h2><${Budgets} ledger=${ledger.data} />`}
      ${folders.length > 1 && html`<h2>Folders</h2><ul class="plain">${folders.map((folder) => html`<li class="row" key=${folder.id}>
        <${Icon} name="folder" /><span class="grow name">${folder.name}</span>
        <a class="button small" href=${link("protect", "folder", folder.id)}>Protect</a></li>`)}</ul>`}</aside>`}</div>`;
}
