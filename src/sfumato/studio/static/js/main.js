// The frame around the pages: rail, jobs, theme, keys.
import { openSession, useResource } from "./api.js";
import { html, render, useCallback, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { ended, listen, useJobEnds, useJobs } from "./jobs.js";
import { Keys, listed, useKeys } from "./keys.js";
import { go, link, useRoute } from "./router.js";
import { Dialog, Icon, Loading, Problem, Progress } from "./ui.js";
import { percent } from "./format.js";
import { Library } from "./library.js";
import { Review } from "./review/page.js";
import { Protect } from "./protect/page.js";
import { SignOff } from "./signoff.js";
import { Understand } from "./understand.js";
import { Train } from "./train.js";

const PAGES = [
  { name: "library", title: "Library", Page: Library },
  { name: "review", title: "Review", Page: Review, of: "recording" },
  { name: "protect", title: "Protect", Page: Protect, of: "recording" },
  { name: "signoff", title: "Sign off", Page: SignOff, of: "release" },
  { name: "understand", title: "Understand", Page: Understand, of: "release" },
  { name: "train", title: "Train", Page: Train },
];

function useTheme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
    dispatchEvent(new Event("themechange"));
  }, [theme]);
  useEffect(() => {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
  }, []);
  return [theme, () => setTheme({ auto: "light", light: "dark", dark: "auto" }[theme])];
}

/** The recording, and the newest of its releases, that the rail's links lead to. */
function inHand(route, recordings, last) {
  const [id] = route.rest;
  const of = PAGES.find((page) => page.name === route.page)?.of;
  const recording =
    of === "release"
      ? recordings.find((each) => each.releases.some((release) => release.id === id))
      : of === "recording" && recordings.find((each) => each.id === id);
  return recording || recordings.find((each) => each.id === last.id) || null;
}

const last = { id: null };

function Rail({ route, recording, tools }) {
  const release = recording?.releases.at(-1);
  const place = { recording: recording?.id, release: release?.id };
  return html`<nav class="rail" aria-label="Pages">
    <a class="brand" href=${link("library")} title="sfumato studio"><img src="static/icon.svg" alt="sfumato studio" /></a>
    ${PAGES.map(
      ({ name, title, of }) => html`<a class="place" href=${link(name, place[of])}
        aria-current=${route.page === name ? "page" : undefined}><${Icon} name=${name} /><span>${title}</span></a>`,
    )}
    <span class="grow"></span>${tools}</nav>`;
}

function Shell({ session }) {
  const route = useRoute();
  const [theme, nextTheme] = useTheme();
  const [shown, setShown] = useState(null);
  const recordings = useResource("api/recordings");
  const jobs = useJobs();
  const running = jobs.filter((job) => !ended(job));
  useJobEnds(useCallback(() => recordings.reload(), []));
  const first = useRef(true);
  useLayoutEffect(() => {  // with the page itself: a Tab pressed at once starts from it
    setShown(null);
    if (!first.current) document.getElementById("main").focus({ preventScroll: true });
    first.current = false;
  }, [route.page]);
  useKeys([
    { keys: ["?"], label: "Show the keys", run: () => setShown("keys") },
    { keys: ["j"], label: "Show what is running", run: () => setShown("jobs") },
    ...PAGES.map((page, i) => ({ keys: [String(i + 1)], label: `Go to ${page.title}`, run: () => goTo(page) })),
  ]);
  const all = recordings.data?.recordings || [];
  const recording = inHand(route, all, last);
  if (recording) last.id = recording.id;
  const goTo = ({ name, of }) => go(name, { recording: recording?.id, release: recording?.releases.at(-1)?.id }[of]);
  const { Page, title } = PAGES.find((page) => page.name === route.page) || PAGES[0];
  useEffect(() => {
    document.title = `${title} · ${recording && Page !== Library ? recording.name : session.root} · sfumato studio`;
  }, [title, recording?.name]);
  const share = running.length && running.reduce((sum, job) => sum + (job.done || 0) / (job.total || 1), 0) / running.length;
  const tools = html`<button type="button" class="place" onClick=${() => setShown("jobs")} aria-label=${`Jobs, ${running.length} running`}>
      <${Icon} name="jobs" /><span>${running.length ? percent(share) : "Jobs"}</span></button>
    <button type="button" class="place" onClick=${() => setShown("keys")} aria-label="Keys"><${Icon} name="keys" /><span>Keys</span></button>
    <button type="button" class="place" onClick=${nextTheme} aria-label=${`Theme: ${theme}. Change it`}>
      <${Icon} name=${theme} /><span>${theme}</span></button>`;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the page</a>
    <${Rail} route=${route} recording=${recording} tools=${tools} />
    <main id="main" tabindex="-1" class=${`page ${route.page}`}>
      ${session.readOnly && html`<p class="band" role="note">Read only: you can look at everything and change nothing.</p>`}
      <${Problem} error=${recordings.error} retry=${recordings.reload} />
      ${recordings.data
        ? html`<${Page} key=${`${route.page}/${route.rest.join("/")}`} session=${session} route=${route} recordings=${all}
            folders=${recordings.data.folders || []} reload=${recordings.reload} />`
        : !recordings.error && html`<${Loading} what="Reading the folder …" />`}
    </main>
    ${shown === "keys" && html`<${KeyList} onClose=${() => setShown(null)} />`}
    ${shown === "jobs" && html`<${Dialog} title="Jobs" onClose=${() => setShown(null)}>
      ${jobs.length === 0 && html`<p>Nothing has run yet. Work that you begin goes on when this window is closed.</p>`}
      ${jobs.map((job) => html`<${Progress} key=${job.id} job=${job} />`)}<//>`}`;
}

function KeyList({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}><dl class="keys">${listed().map(
    (each) => html`<div><dt>${each.keys.slice(0, 2).map((name, i) => html`${i > 0 && " or "}<${Keys} name=${name} />`)}</dt><dd>${each.label}</dd></div>`,
  )}</dl><//>`;
}

function App() {
  const [session, setSession] = useState(null);
  const [error, setError] = useState(null);
  const open = () => openSession().then(setSession, setError);
  useEffect(() => {
    open();
  }, []);
  useEffect(() => (session ? listen() : undefined), [session]);
  if (session) return html`<${Shell} session=${session} />`;
  return html`<main class="page alone"><h1>sfumato studio</h1>
    ${error ? html`<${Problem} error=${error} retry=${open} />` : html`<${Loading} what="Opening …" />`}</main>`;
}

render(html`<${App} />`, document.getElementById("app"));
