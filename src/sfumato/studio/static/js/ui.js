// The few parts that every page is made of.
import { html, useEffect, useRef, useState } from "./html.js";
import { cancel, ended, resume } from "./jobs.js";
import { lasting, percent } from "./format.js";

const PATHS = {
  library: "M4 5h7v6H4zM13 5h7v6h-7zM4 13h7v6H4zM13 13h7v6h-7z",
  review: "M2.500 12S6 5.500 12 5.500 21.500 12 21.500 12 18 18.500 12 18.500 2.500 12 2.500 12zM12 9.200a2.800 2.800 0 1 0 0 5.600 2.800 2.800 0 0 0 0-5.600z",
  protect: "M12 3l7.500 3v5.500c0 4.600-3.100 8-7.500 9.500-4.400-1.500-7.500-4.900-7.500-9.500V6z",
  signoff: "M4 19.500h16M5.500 15.500l9.700-9.700 3 3-9.700 9.700H5.500z",
  understand: "M6 3.500h8.500L19 8v12.500H6zM14 3.500V8.500h5M9 12.500h7M9 16h7",
  train: "M4 4v16h16M7.500 15.500l3.500-5 3 2.500 4.500-7",
  play: "M7.500 5v14l11-7z",
  pause: "M8 5.500v13M16 5.500v13",
  previous: "M15 5.500L8.500 12l6.500 6.500",
  next: "M9 5.500l6.500 6.500L9 18.500",
  doubt: "M12 4l9 16H3zM12 10v4.500M12 17.100v.4",
  undo: "M8.500 5L4.500 9l4 4M5 9h9a5 5 0 0 1 0 10h-3",
  redo: "M15.500 5l4 4-4 4M19 9h-9a5 5 0 0 0 0 10h3",
  delete: "M5 7h14M9.500 7V4.500h5V7M7 7l1 13h8l1-13",
  open: "M7.500 11V8a4.500 4.500 0 0 1 8.700-1.600M5.500 11h13v9h-13z",
  closed: "M7.500 11V8a4.500 4.500 0 0 1 9 0v3M5.500 11h13v9h-13z",
  confirm: "M4.500 12.500l5 5 10-11",
  light: "M12 7.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 0 0 0-9zM12 2.500v2M12 19.500v2M2.500 12h2M19.500 12h2M5.300 5.300l1.400 1.400M17.300 17.300l1.400 1.400M5.300 18.700l1.400-1.400M17.300 6.700l1.400-1.400",
  dark: "M19.500 14.500A8 8 0 0 1 9.500 4.500a8 8 0 1 0 10 10z",
  auto: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  keys: "M3.500 7h17v10.500h-17zM7 10.500h.01M10.300 10.500h.01M13.700 10.500h.01M17 10.500h.01M8 14h8",
  jobs: "M4 7h16M4 12h10M4 17h6",
  list: "M4 6.500h16M4 12h16M4 17.500h16",
  folder: "M3.500 6h6l2 2.500h9v10.500h-17z",
  video: "M3.500 6.500h12v11h-12zM15.500 10.500l5-3v9l-5-3z",
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4",
  sound: "M5 10v4M9 7v10M13 4.500v15M17 8v8M21 11v2",
  download: "M12 4v11M7.500 11l4.500 4.500 4.500-4.500M4.500 20h15",
  upload: "M12 16V5M7.500 9L12 4.500 16.500 9M4.500 20h15",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}

/** A button of the tool bar: pressing it by mouse leaves the keyboard where it was. */
export function Tool({ icon, label, keys, children, ...rest }) {
  const title = keys ? `${label} (${keys})` : label;
  return html`<button type="button" class="tool" title=${title} aria-label=${label}
    onMouseDown=${(event) => event.preventDefault()} ...${rest}><${Icon} name=${icon} />${children}</button>`;
}

export function Problem({ error, retry, children }) {
  if (!error) return null;
  return html`<div class="notice bad" role="alert"><p>${error.message || String(error)}</p>${children}
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}</div>`;
}

export function Empty({ icon, title, children }) {
  return html`<div class="empty"><${Icon} name=${icon} /><h2>${title}</h2>${children}</div>`;
}

export function Loading({ what }) {
  return html`<p class="loading" role="status">${what}</p>`;
}

export function Meter({ share, label, tone = "" }) {
  const value = Math.max(0, Math.min(1, share || 0));
  return html`<div class=${`meter ${tone}`} role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax="1"
    aria-valuenow=${value}><span style=${{ width: `${value * 100}%` }}></span></div>`;
}

const STATE_WORDS = { waiting: "waiting", running: "running", done: "done", failed: "failed", cancelled: "stopped" };

export function progressWords(job) {
  if (job.state !== "running") return STATE_WORDS[job.state];
  if (!job.done) return "starting …";
  const share = job.total ? percent(job.done / job.total) : "running";
  return job.secondsLeft == null ? share : `${share}, ${lasting(job.secondsLeft)} left`;
}

/** A job with its bar, and what one may do about it. Changes are spoken at most every few seconds. */
export function Progress({ job, quiet }) {
  const [spoken, setSpoken] = useState("");
  const last = useRef(0);
  const [error, setError] = useState(null);
  useEffect(() => {
    if (ended(job) || Date.now() - last.current > 5000) {
      last.current = Date.now();
      setSpoken(`${job.title}: ${progressWords(job)}`);
    }
  }, [job.state, job.done]);
  const act = (what) => () => what(job.id).then(() => setError(null), setError);
  return html`<div class="progress" data-state=${job.state}>
    <div class="row"><span class="grow name">${job.title}</span><span class="number">${progressWords(job)}</span>
      ${!ended(job) && html`<button type="button" class="small" onClick=${act(cancel)}>Cancel</button>`}
      ${(job.state === "cancelled" || job.state === "failed") &&
      html`<button type="button" class="small" onClick=${act(resume)}>Resume</button>`}</div>
    ${job.state !== "done" && html`<progress max=${job.total || 1} value=${job.done || 0} aria-label=${job.title}></progress>`}
    ${job.error && html`<p class="bad">${job.error}</p>`}
    <${Problem} error=${error} />
    ${!quiet && html`<span class="unseen" aria-live="polite">${spoken}</span>`}</div>`;
}

export function Dialog({ title, onClose, children }) {
  const box = useRef();
  useEffect(() => box.current.showModal(), []);
  return html`<dialog ref=${box} onClose=${onClose} aria-label=${title}
    onClick=${(event) => event.target === box.current && box.current.close()}>
    <form method="dialog" class="row"><h2 class="grow">${title}</h2>
      <button class="tool" aria-label="Close"><${Icon} name="close" /></button></form>${children}</dialog>`;
}

const STEPS = ["new", "found", "reviewed", "released"];

export function State({ state }) {
  const at = STEPS.indexOf(state);
  return html`<span class="state" data-state=${state}><span class="steps" aria-hidden="true">
    ${STEPS.map((each, i) => html`<i class=${i <= at ? "on" : ""}></i>`)}</span>${state}</span>`;
}
