// A page that needs a recording or a release, and has none yet.
import { html } from "./html.js";
import { link } from "./router.js";
import { Empty, State } from "./ui.js";

export function Chooser({ title, icon, page, recordings, words, release }) {
  const rows = release
    ? recordings.flatMap((each) => each.releases.map((one) => ({ id: one.id, name: each.name, more: `${one.name} · ${one.method}`, state: one.reviewed ? "reviewed" : "released" })))
    : recordings.map((each) => ({ id: each.id, name: each.name, state: each.state }));
  if (rows.length === 0)
    return html`<${Empty} icon=${icon} title=${`${title}: nothing to choose yet`}>
      <p>${release ? "Nothing has been released. Protect a recording first." : "There is no recording in this folder."}</p>
      <a class="button primary" href=${link(release && recordings.length ? "protect" : "library", release && recordings[0]?.id)}>${release && recordings.length ? "Protect" : "To the library"}</a><//>`;
  return html`<header class="head"><div><h1>${title}</h1><p class="muted">${words}</p></div></header>
    <ul class="choices">${rows.map((row) => html`<li key=${row.id}><a class="row" href=${link(page, row.id)}>
      <span class="grow name">${row.name}${row.more && html` <small class="muted">${row.more}</small>`}</span><${State} state=${row.state} /></a></li>`)}</ul>`;
}
