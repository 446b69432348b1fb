// Sign off: frames drawn by chance, answered by keys; the card carries what was seen.
import { get, post } from "./api.js";
import { count, decimal, firstSentence, plural } from "./format.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { useKeys } from "./keys.js";
import { link } from "./router.js";
import { Chooser } from "./chooser.js";
import { Problem } from "./ui.js";

const USUAL = 60;

export function SignOff({ route, recordings, session, reload }) {
  const id = route.rest[0];
  const recording = recordings.find((each) => each.releases.some((one) => one.id === id));
  if (!recording || recording.kind === "sound")
    return html`<${Chooser} title="Sign off" icon="signoff" page="signoff" release recordings=${recordings.filter((each) => each.kind !== "sound")}
      words="Look at frames drawn by chance, and say whether anyone is left. Choose a release." />`;
  const release = recording.releases.find((one) => one.id === id);
  return html`<${Sheet} recording=${recording} release=${release} session=${session} reload=${reload} />`;
}

function Sheet({ recording, release, session, reload }) {
  const [wanted, setWanted] = useState(Math.min(USUAL, recording.frames || USUAL));
  const [sample, setSample] = useState(null);
  const [error, setError] = useState(null);
  const [result, setResult] = useState(null);
  useEffect(() => {
    get(`api/releases/${release.id}/review`).then((begun) => begun && !session.readOnly && setSample(begun), setError);
  }, []);
  const draw = () => post(`api/releases/${release.id}/review`, { frames: Number(wanted) }).then((drawn) => { setSample(drawn); setResult(null); setError(null); }, setError);
  return html`<header class="head"><div class="grow"><p class="over-title muted">Sign off</p><h1 class="name">${recording.name}</h1>
      <p class="muted">${release.name} · ${release.method} · ${firstSentence(release.guarantee)}</p></div></header>
    <${Problem} error=${error} />
    ${result ? html`<${Result} result=${result} release=${release} recording=${recording} again=${draw} />`
      : sample ? html`<${Answering} sample=${sample} release=${release} recording=${recording} done=${(answer) => { setResult(answer); reload(); }} />`
      : html`<div class="sheet wide"><h2>Is anyone left?</h2>
          <p>Frames are drawn by chance from the protected recording. Say for each whether you still see somebody whom you could
          recognise: a face, a body, a reflection. Whoever is left open on purpose does not count.</p>
          ${release.reviewed && html`<p class="good">${release.reviewed.words || "This release has been looked at before; a new look is added, the first stays."}</p>`}
          <div class="row"><label class="row">Frames <input type="number" min="1" max=${recording.frames || undefined} value=${wanted} onInput=${(event) => setWanted(event.target.value)} /></label>
          <button type="button" class="primary" disabled=${session.readOnly} onClick=${draw}>Draw them</button></div></div>`}`;
}

function Answering({ sample, release, recording, done }) {
  const [answers, setAnswers] = useState(sample.answers);
  const [history, setHistory] = useState([]);
  const [at, setAt] = useState(Math.max(0, sample.frames.findIndex((n) => sample.answers[n] === undefined)));
  const [who, setWho] = useState("");
  const [error, setError] = useState(null);
  const frames = sample.frames;
  const open = frames.filter((n) => answers[n] === undefined).length;
  const keep = useRef(Promise.resolve());
  const change = (next) => {
    setAnswers(next);
    const given = Object.fromEntries(Object.entries(next).filter(([, left]) => left !== undefined));
    keep.current = keep.current.then(() => post(`api/reviews/${sample.review}/answers`, { answers: given })).then(() => setError(null), setError);
  };
  const answer = (left) => {
    const next = { ...answers, [frames[at]]: left };
    setHistory([...history, [at, answers[frames[at]]]]);
    change(next);
    const after = frames.findIndex((n, i) => i > at && next[n] === undefined);
    const any = frames.findIndex((n) => next[n] === undefined);
    setAt(after >= 0 ? after : any >= 0 ? any : at);
  };
  const undo = () => {
    if (!history.length) return;
    const [place, before] = history.at(-1);
    setHistory(history.slice(0, -1));
    change({ ...answers, [frames[place]]: before });
    setAt(place);
  };
  const move = (by) => () => setAt(Math.min(frames.length - 1, Math.max(0, at + by)));
  const send = () => keep.current.then(() => post(`api/reviews/${sample.review}`, { who, answers })).then(done, setError);
  useKeys([
    { keys: ["a"], label: "Anyone left (in doubt, too)", run: () => answer(true) },
    { keys: ["n"], label: "Nobody left", run: () => answer(false) },
    { keys: ["ArrowRight"], label: "Next frame", run: move(1) },
    { keys: ["ArrowLeft"], label: "Previous frame", run: move(-1) },
    { keys: ["Ctrl+z", "u"], label: "Undo", run: undo },
  ]);
  const picture = (n, width) => `api/releases/${release.id}/frames/${n}?width=${width}`;
  const left = frames.filter((n) => answers[n]).length;
  return html`<div class="answering"><figure><img class="large" src=${picture(frames[at], Math.min(1280, recording.width || 1280))} alt=${`Protected frame ${frames[at]}`} data-left=${String(answers[frames[at]])} />
      <figcaption class="number muted">${at + 1} of ${frames.length}: frame ${count(frames[at])}</figcaption></figure>
    <div class="verdict"><h2>Is anyone left on this frame?</h2>
      <button type="button" class="large" aria-pressed=${answers[frames[at]] === true} onClick=${() => answer(true)}><kbd>A</kbd> Anyone left</button>
      <button type="button" class="large" aria-pressed=${answers[frames[at]] === false} onClick=${() => answer(false)}><kbd>N</kbd> Nobody</button>
      <p class="muted">In doubt, say <kbd>A</kbd>. <kbd>U</kbd> takes the last answer back.</p>
      <p role="status" aria-live="polite">${open ? `${count(open)} to go` : "Every frame has an answer."}${left > 0 ? `, somebody left on ${count(left)}` : ""}</p>
      <form class="row" onSubmit=${(event) => { event.preventDefault(); send(); }}><label class="grow">Your name, for the card
        <input type="text" value=${who} onInput=${(event) => setWho(event.target.value)} maxlength="80" placeholder="letters, digits, spaces" autocomplete="name" required /></label>
        <button type="submit" class="primary" disabled=${open > 0 || !who.trim()}>Sign off</button></form>
      <${Problem} error=${error} /></div></div>
    <ol class="strip">${frames.map((n, i) => html`<li key=${n}><button type="button" aria-current=${i === at ? "true" : undefined} data-left=${String(answers[n])}
      aria-label=${`Frame ${n}: ${answers[n] === undefined ? "no answer yet" : answers[n] ? "somebody is left" : "nobody is left"}`} onClick=${() => setAt(i)}>
      <img loading="lazy" src=${picture(n, 160)} alt="" /></button></li>`)}</ol>`;
}

function Result({ result, release, recording, again }) {
  return html`<div class=${`notice ${result.misses ? "bad" : "good"} result`} role="status">
    <p class="figure number">${decimal(result.misses)} <small>of ${plural(result.looked, "frame")} with somebody left</small></p>
    <p class="lead">${result.words}</p>
    <p>This now stands on the card.</p>
    ${result.misses > 0 && html`<p>Go back to Review, click on whoever was missed, and protect again: ${result.left.map((n) => html`<a href=${`${link("review", recording.id)}?frame=${n}`}>frame ${count(n)}</a> `)}</p>`}
    <a class="button primary" href=${link("understand", release.id)}>See the card</a> <button type="button" onClick=${again}>Look again</button></div>`;
}
