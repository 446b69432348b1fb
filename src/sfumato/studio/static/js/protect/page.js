// Protect: choose a method, read its promise while typing, look at a preview, run it.
import { get, post, useResource } from "../api.js";
import { clock, lasting, megabytes, percent, plural } from "../format.js";
import { html, useEffect, useMemo, useState } from "../html.js";
import { begin, ended, useJob, useJobs } from "../jobs.js";
import { useKeys } from "../keys.js";
import { link } from "../router.js";
import { Chooser } from "../chooser.js";
import { Icon, Loading, Problem, Progress, State } from "../ui.js";
import { Compare } from "./compare.js";
import { Form } from "./form.js";
import { fields, settings } from "./schema.js";

const PAUSE = 350;
const LONGER_PAUSE = 900;

function targetOf(route, recordings, folders) {
  const [first, second] = route.rest;
  if (first === "folder") {
    const folder = folders.find((each) => each.id === second);
    return folder && { name: folder.name, ask: { folder: folder.id }, recordings: recordings.filter((each) => folder.recordings.includes(each.id)) };
  }
  const chosen = (first || "").split(",").map((id) => recordings.find((each) => each.id === id)).filter(Boolean);
  if (!chosen.length) return null;
  return { name: chosen.length === 1 ? chosen[0].name : plural(chosen.length, "recording"), ask: { recordings: chosen.map((each) => each.id) }, recordings: chosen };
}

/** The dry run, asked again a moment after the last key; time and memory are measured once typing has ended. */
function usePromise(ask) {
  const [state, setState] = useState({ promise: null, error: null });
  const key = JSON.stringify(ask);
  useEffect(() => {
    if (!ask.method) return undefined;
    let current = true;
    setState((old) => ({ ...old, stale: true }));
    const failed = (error) => current && setState({ promise: null, error });
    const measured = () => post("api/promise", { ...ask, measure: true }).then((promise) => current && setState({ promise, error: null }), failed);
    let later = null;
    const timer = setTimeout(() => {
      post("api/promise", ask).then((promise) => {
        if (!current) return;
        setState({ promise: { ...promise, measuring: !promise.refused }, error: null });
        if (!promise.refused) later = setTimeout(measured, LONGER_PAUSE);
      }, failed);
    }, PAUSE);
    return () => {
      current = false;
      clearTimeout(timer);
      clearTimeout(later);
    };
  }, [key]);
  return state;
}

const KEEPS = [
  ["keepNames", "Keep file names", "else random ones; which was which stays with you"],
];
const SOUND = [
  ["drop", "left out", "no voice is heard"],
  ["anonymize", "other voices", "every voice becomes another one; what is said stays, and nothing is proven"],
  ["keep", "as it is", "voices stay recognisable"],
];
const known = (promise, value, words) => (value != null ? words(value) : promise.measuring ? "measuring …" : "not known");

/** A promise in words: its first sentence large, what it does not cover as a list; nothing is left out. */
function Promised({ words }) {
  const [first, ...rest] = words.split(/(?<=[.])\s+(?=[A-Z])/);
  return html`<p class="lead">${first}</p>${rest.map((sentence) => {
    const listed = /^([^;:]+): (.+;.+)\.$/s.exec(sentence);
    return listed
      ? html`<h3>${listed[1]}</h3><ul class="not-covered">${listed[2].split(/;\s+/).map((each) => html`<li>${each}</li>`)}</ul>`
      : html`<p>${sentence}</p>`;
  })}`;
}

export function Protect(props) {
  const methods = useResource("api/methods");
  const target = targetOf(props.route, props.recordings, props.folders);
  if (!target)
    return html`<${Chooser} title="Protect" icon="protect" page="protect" recordings=${props.recordings} words="Choose what is to be protected; several at once from the library." />`;
  if (!methods.data) return methods.error ? html`<${Problem} error=${methods.error} retry=${methods.reload} />` : html`<${Loading} what="Asking for the methods …" />`;
  return html`<${Bench} ...${props} target=${target} methods=${methods.data} />`;
}

function Bench({ session, target, methods }) {
  const sounds = target.recordings.filter((each) => each.kind === "sound").length;
  const fits = { picture: sounds < target.recordings.length, sound: sounds > 0 };
  const offered = methods.filter((each) => fits[each.medium]);
  const proven = (each) => !each.guarantee.startsWith("no guarantee");
  const usual = (each) => -["blur", "avatar", "skeleton", "silhouette", "dprp"].indexOf(each.name);
  const groups = [["Covers or redraws, without a proof", (each) => !proven(each)], ["Noise, with a proof", proven]];
  const [name, setName] = useState(offered.find((each) => each.default)?.name || offered[0]?.name);
  const [typed, setTyped] = useState({});
  const [book, setBook] = useState("");
  const [unproven, setUnproven] = useState(false);
  const [keeps, setKeeps] = useState({ keepNames: false });
  const [audio, setAudio] = useState("drop");
  const [error, setError] = useState(null);
  const [run, setRun] = useState(null);
  const method = offered.find((each) => each.name === name);
  const heard = method.medium === "picture" && target.recordings.some((each) => each.kind === "video");
  const meant = target.recordings.filter((each) => (each.kind === "sound") === (method.medium === "sound"));
  const list = useMemo(() => fields(method.settings || {}), [method]);
  const said = settings(list, typed);
  const missing = list.filter((each) => each.required && said[each.name] === undefined);
  const ask = { ...target.ask, method: name, settings: said, audio: heard ? audio : "drop" };
  const { promise, error: refusal, stale } = usePromise(ask);
  const ledger = useResource("api/ledger");
  const running = useRunning(target);
  const job = useJob(run) || running;
  const charged = ledger.data?.find((each) => `${each.id} ${each.dataset}` === book) || null;
  const needsWord = Boolean(charged && promise && !promise.terms && !unproven);
  const refused = refusal?.message || promise?.refused;
  const ready = !session.readOnly && !refused && !missing.length && promise && !stale && !needsWord && (!job || ended(job));
  const start = () => ready && begin("api/protect", { ...ask, keepNames: keeps.keepNames, ledger: charged && { id: charged.id, dataset: charged.dataset, acknowledgeNoGuarantee: unproven } }).then((id) => { setRun(id); setError(null); }, setError);
  useKeys([
    { keys: ["Ctrl+Enter"], label: "Protect", run: start },
    { keys: ["m"], label: "Choose a method", run: () => document.querySelector(".methods input:checked")?.focus() },
  ]);
  const single = target.recordings.length === 1 && target.recordings[0].kind === "video" ? target.recordings[0] : null;
  return html`<header class="head"><div class="grow"><p class="over-title muted">Protect</p><h1 class="name">${target.name}</h1></div>
      ${target.recordings.length === 1 ? html`<${State} state=${target.recordings[0].state} />` : html`<span class="muted">${plural(target.recordings.length, "recording")}</span>`}</header>
    <div class="bench"><form class="choose" onSubmit=${(event) => { event.preventDefault(); start(); }}>
      <fieldset class="methods"><legend>Method</legend>${groups.filter(([, belongs]) => offered.some(belongs)).map(([title, belongs]) => html`<p class="kinds">${title}</p>${offered.filter(belongs).sort((a, b) => usual(a) - usual(b)).map((each) => html`<label key=${each.name} class="method">
        <input type="radio" name="method" value=${each.name} checked=${each.name === name} onChange=${() => { setName(each.name); setTyped({}); }} />
        <span><b>${each.name}</b> <small>${each.line}</small></span></label>`)}`)}</fieldset>
      <fieldset class="settings"><legend>Settings of ${name}</legend><${Form} list=${list} typed=${typed} setTyped=${setTyped} disabled=${session.readOnly} />
        ${list.length === 0 && html`<p class="muted">This method has nothing to set.</p>`}</fieldset>
      <fieldset class="keeps"><legend>Output</legend>${heard && html`<div class="field choice"><label for="sound-of-video">sound</label>
        <select id="sound-of-video" aria-describedby="hint-sound" disabled=${session.readOnly} onChange=${(event) => setAudio(event.target.value)}>${SOUND.map(([value, words]) => html`<option value=${value} selected=${value === audio}>${words}</option>`)}</select>
        <small class="muted" id="hint-sound">${SOUND.find(([value]) => value === audio)[2]}</small></div>`}${KEEPS.map(([key, words, hint]) => html`<label class="method"><input type="checkbox" checked=${keeps[key]} disabled=${session.readOnly}
        onChange=${(event) => setKeeps((old) => ({ ...old, [key]: event.target.checked }))} /><span>${words}<small>${hint}</small></span></label>`)}</fieldset></form>
    <div class="outcome"><section class="promise-panel" aria-live="polite" data-stale=${Boolean(stale)}>
        <div class="row"><h2 class="grow">What it promises</h2>
          <button type="button" class="primary" disabled=${!ready} onClick=${start}>Protect ${meant.length > 1 ? plural(meant.length, "recording") : ""}</button></div>
        <${Problem} error=${error} />
        ${job && html`<${Progress} job=${job} />`}
        ${job?.state === "done" && html`<${Released} job=${job} target=${target} />`}
        ${missing.length > 0 ? html`<p class="lead muted">Still needed: ${missing.map((each) => each.title).join(", ")}.</p>`
          : refused ? html`<p class="lead bad">${refused}</p>`
          : promise ? html`<${Promised} words=${promise.words} />${promise.terms && html`<p class="terms"><${Icon} name="protect" />${promise.terms}</p>`}
            ${promise.remarks?.map((each) => html`<p class="muted">${each}</p>`)}`
          : html`<p class="muted">Asking …</p>`}
        ${promise && !refused && html`<dl class="facts">
          <div><dt>Expected time</dt><dd>${known(promise, promise.seconds, lasting)}</dd></div>
          <div><dt>Memory</dt><dd>${known(promise, promise.megabytes, megabytes)}</dd></div>
          <div><dt>Kind of promise</dt><dd>${method.guarantee}</dd></div></dl>
          ${heard && target.recordings.some((each) => each.state !== "new") && html`<p class="muted">${method.takesCorrections ? "Covers the people as Review shows them, your corrections included." : "Works without boxes: what was corrected in Review plays no part."}</p>`}`}
        ${ledger.data?.length > 0 && html`<label class="field">Charge a budget<select onChange=${(event) => setBook(event.target.value)}>
          <option value="">none</option>${ledger.data.map((each) => html`<option value=${`${each.id} ${each.dataset}`}>${each.dataset}, ${percent(1 - each.share)} left</option>`)}</select></label>`}
        ${charged && promise && !promise.terms && html`<label class="row keep"><input type="checkbox" checked=${unproven} onChange=${(event) => setUnproven(event.target.checked)} />
          Note it there although it proves nothing: no number covers it then</label>`}

</section>
      ${single && html`<${Preview} recording=${single} ask=${ask} disabled=${session.readOnly || refused || missing.length > 0} />`}</div></div>`;
}

function useRunning(target) {
  const ids = new Set(target.recordings.map((each) => each.id));
  const about = (job) => (job.folder ? job.folder === target.ask.folder : job.recordings.some((id) => ids.has(id)));
  return useJobs().find((job) => job.kind === "protect" && !ended(job) && about(job)) || null;
}

function Released({ job, target }) {
  const failed = job.result?.failed || [];
  const ids = target.recordings.flatMap((each) => each.releases.map((one) => one.id));
  const release = job.result?.releases?.[0] || ids.at(-1);
  const sound = target.recordings.every((each) => each.kind === "sound");
  return html`${failed.map((each) => html`<div class="notice bad" role="alert"><p><b>${each.name}</b>: ${each.reason}</p></div>`)}
    ${release && html`<div class="notice good" role="status"><p>Released. ${sound ? "Nothing proves that nobody is recognised: listen to it." : "No detector proves that nobody was missed: look at frames drawn by chance."}</p>
    ${!sound && html`<a class="button primary" href=${link("signoff", release)}>Sign off</a> `}<a class="button" href=${link("understand", release)}>Understand</a></div>`}`;
}

function Preview({ recording, ask, disabled }) {
  const rate = recording.rate || 25;
  const long = Math.min(recording.frames, Math.round(rate * 2));
  const [from, setFrom] = useState(Math.max(0, Math.floor(recording.frames / 2 - long / 2)));
  const [id, setId] = useState(null);
  const [preview, setPreview] = useState(null);
  const [error, setError] = useState(null);
  const job = useJob(id);
  useEffect(() => {
    if (job?.state !== "done") return;
    const made = job.result?.preview || job.id;
    get(`api/previews/${made}`).then((part) => setPreview({ ...part, id: made }), setError);
  }, [job?.state]);
  const start = () => {
    setError(null);
    begin("api/preview", { recording: recording.id, method: ask.method, settings: ask.settings, from, to: from + long - 1 }).then(setId, setError);
  };
  const still = recording.kind === "picture";
  return html`<section class="preview"><div class="row"><h2 class="grow">Preview</h2>
      ${!still && html`<label class="row muted">from<input type="range" min="0" max=${Math.max(0, recording.frames - long)} value=${from}
        onInput=${(event) => setFrom(Number(event.target.value))} aria-label="Where the preview begins" /><span class="number">${clock(from, rate)}</span></label>`}
      <button type="button" disabled=${Boolean(disabled) || job?.state === "running"} onClick=${start}>${still ? "Preview" : `Preview ${lasting(long / rate)}`}</button></div>
    <${Problem} error=${error} />
    ${job && job.state !== "done" && html`<${Progress} job=${job} quiet />`}
    ${preview ? html`<${Compare} key=${preview.id} recording=${recording} preview=${preview} width=${Math.min(960, recording.width)} />`
      : html`<div class="veil wide"><${Icon} name="review" /><small>A few seconds, as filmed and protected, side by side. They stay on this computer.</small></div>`}</section>`;
}
