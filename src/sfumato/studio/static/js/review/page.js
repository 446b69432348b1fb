// Review: see who was found, mend it, go from doubt to doubt.
import { clock, count, plural } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { begin, useJobs } from "../jobs.js";
import { useKeys } from "../keys.js";
import { link } from "../router.js";
import { Chooser } from "../chooser.js";
import { Icon, Problem, Progress, Tool } from "../ui.js";
import { dragged, Picture } from "./canvas.js";
import { usePeople } from "./people.js";
import { usePlayer, widthFor } from "./player.js";
import { following, Legend, Timeline, whole, zoomed } from "./timeline.js";

export function Review(props) {
  const recording = props.recordings.find((each) => each.id === props.route.rest[0]);
  if (!recording || recording.kind === "sound")
    return html`<${Chooser} title="Review" icon="review" page="review" recordings=${props.recordings.filter((each) => each.kind !== "sound")}
      words="Who was found, frame by frame, and what you want to change about it. Choose a recording." />`;
  return html`<${Editor} key=${recording.id} ...${props} recording=${recording} />`;
}

function Editor({ recording: asked, session, route, reload }) {
  const recording = { ...asked, frames: asked.frames || 1 }; // of a picture the sizes are known once it is shown or searched
  const [view, setView] = useState({ zoom: 1, x: 0, y: 0 });
  const [room, setRoom] = useState(960);
  const [part, setPart] = useState(whole(recording.frames));
  const [selected, setSelected] = useState(null);
  const [busy, setBusy] = useState(null);
  const [said, setSaid] = useState("");
  const [shownDoubt, setShownDoubt] = useState({ at: -1, doubt: null });
  const stage = useRef();
  const widest = useRef(0);
  widest.current = Math.max(widest.current, widthFor(room * view.zoom, recording.width || 3840));
  const player = usePlayer(recording, widest.current, Number(route.query.get("frame")));
  const { frame, seek } = player;
  const people = usePeople(recording, frame);
  // never on the picture of another frame; what the lane says of it holds for the box
  const here = people.ready && !player.waiting ? people.at(frame).map((each) => ({ ...each, kind: kindAt(people.tracks, each.track, frame) || each.kind })) : [];
  const chosen = here.find((each) => each.track === selected);
  const track = people.tracks.find((each) => each.id === selected);
  const label = (id) => people.tracks.find((each) => each.id === id)?.label ?? "new";
  const locked = session.readOnly || !people.ready;
  const size = (side) => recording[side] || people[side] || player.image?.[side] || 480;
  const picture = { width: size("width"), height: size("height") };
  const second = Math.max(1, Math.round(recording.rate || 25));

  useEffect(() => {
    const measure = () => setRoom(stage.current.clientWidth * (devicePixelRatio || 1));
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  useEffect(() => setPart((old) => following(old, frame, recording.frames)), [frame]);

  const edit = (body, words) => people.edit(body).then((answer) => { if (answer) setSaid(words); return answer; });
  const click = async (point) => {
    if (locked || player.waiting) return setSelected(null);
    player.pause();
    setBusy([point.x, point.y]);
    const answer = await edit({ do: "click", frame, x: Math.round(point.x), y: Math.round(point.y) }, "A person was added there and followed both ways.");
    setBusy(null);
    if (answer?.track != null) setSelected(answer.track);
    return undefined;
  };
  const box = async ({ track: drawn, box: place }) => {
    const id = drawn === null && track && !chosen ? selected : drawn; // of whoever is selected and has no box here
    people.setDraft({ track: id, box: place, frame, sent: true });
    const answer = await edit({ do: "box", frame, track: id, box: place.map((v) => Math.round(v * 10) / 10) }, "The box was placed.");
    if (id === null && answer?.track != null) setSelected(answer.track);
  };
  const nudge = (dx, dy, edges) => chosen && !locked && box({ track: selected, box: dragged((people.draft || chosen).box, edges, dx, dy, picture) });
  const step = picture.width / 200;
  const boxInTheMiddle = () => {
    const [wide, high] = [picture.height / 8, picture.height / 4];
    if (!player.waiting) box({ track: null, box: [(picture.width - wide) / 2, (picture.height - high) / 2, wide, high] });
  };
  const removeBox = () => chosen && edit({ do: "deleteBox", frame, track: selected }, `The box of ${label(selected)} on this frame was deleted.`);
  const removeTrack = () => track && edit({ do: "deleteTrack", track: selected }, `${label(selected)} was deleted.`).then((answer) => answer && setSelected(null));
  const leaveOpen = () => track && edit({ do: "open", track: selected, open: !track.open }, track.open ? `${track.label} will be covered.` : `${track.label} is left open on purpose.`);
  const markReviewed = () => edit({ do: "review", done: !people.reviewed }, people.reviewed ? "Not reviewed any more." : "Marked as reviewed.").then((answer) => answer && reload());
  const follow = async () => {
    if (!chosen || player.waiting) return;
    player.pause();
    setBusy([chosen.box[0] + chosen.box[2] / 2, chosen.box[1] + chosen.box[3] / 2]);
    await edit({ do: "follow", frame, track: selected }, `${label(selected)} is confirmed here, and was followed as far as possible.`);
    setBusy(null);
  };
  const confirm = () => chosen && edit({ do: "confirm", frame, track: selected }, `${label(selected)} is confirmed on this frame.`);
  const doubtAt = people.doubts.findIndex((each) => same(each, shownDoubt.doubt));
  const toDoubt = (at) => {
    if (people.doubts.length === 0) return setSaid("There is no doubt left.");
    const index = (at + people.doubts.length) % people.doubts.length;
    const doubt = people.doubts[index];
    player.pause();
    setShownDoubt({ at: index, doubt });
    seek(doubt.frame);
    setSaid(`Doubt ${index + 1} of ${people.doubts.length}: ${reason(doubt, label)}`);
    return doubt.track != null ? setSelected(doubt.track) : undefined;
  };
  // a doubt that was settled is gone: the next one has moved to its place
  const nextDoubt = (by) => toDoubt(doubtAt >= 0 ? doubtAt + by : shownDoubt.at + (by > 0 ? Number(shownDoubt.at < 0) : -1));
  const other = (by) => {
    if (here.length === 0) return;
    const at = here.findIndex((each) => each.track === selected);
    setSelected(here[(at + by + here.length) % here.length].track);
  };
  useKeys([
    { keys: [" "], label: "Play or pause", run: player.toggle },
    { keys: ["ArrowRight"], label: "Next frame", run: () => seek(frame + 1) },
    { keys: ["ArrowLeft"], label: "Previous frame", run: () => seek(frame - 1) },
    { keys: ["Shift+ArrowRight"], label: "One second on", run: () => seek(frame + second) },
    { keys: ["Shift+ArrowLeft"], label: "One second back", run: () => seek(frame - second) },
    { keys: ["Home"], label: "First frame", run: () => seek(0) },
    { keys: ["End"], label: "Last frame", run: () => seek(recording.frames - 1) },
    { keys: ["n"], label: "Next doubt, the worst first", run: (event) => nextDoubt(event.shiftKey ? -1 : 1) },
    { keys: ["]", "ArrowDown"], label: "Next person on this frame", run: () => other(1) },
    { keys: ["[", "ArrowUp"], label: "Previous person on this frame", run: () => other(-1) },
    { keys: ["b"], label: "Add a box in the middle, to be moved by keys", run: boxInTheMiddle, off: locked },
    { keys: ["Alt+ArrowLeft"], label: "Move the box (all arrows)", run: () => nudge(-step, 0) },
    { keys: ["Alt+ArrowRight"], run: () => nudge(step, 0) },
    { keys: ["Alt+ArrowUp"], run: () => nudge(0, -step) },
    { keys: ["Alt+ArrowDown"], run: () => nudge(0, step) },
    { keys: ["Alt+Shift+ArrowRight"], label: "Resize the box (all arrows)", run: () => nudge(step, 0, [0, 0, 1, 0]) },
    { keys: ["Alt+Shift+ArrowLeft"], run: () => nudge(-step, 0, [0, 0, 1, 0]) },
    { keys: ["Alt+Shift+ArrowDown"], run: () => nudge(0, step, [0, 0, 0, 1]) },
    { keys: ["Alt+Shift+ArrowUp"], run: () => nudge(0, -step, [0, 0, 0, 1]) },
    { keys: ["c"], label: "Confirm this person here", run: confirm, off: locked },
    { keys: ["f"], label: "Confirm here, and follow this person further", run: follow, off: locked },
    { keys: ["o"], label: "Leave this track open, or cover it again", run: leaveOpen, off: locked },
    { keys: ["r"], label: "Mark as reviewed, or not", run: markReviewed, off: locked },
    { keys: ["Delete", "Backspace"], label: "Delete the box on this frame", run: removeBox, off: locked },
    { keys: ["Shift+Delete"], label: "Delete the whole track", run: removeTrack, off: locked },
    { keys: ["Ctrl+z"], label: "Undo", run: () => people.canUndo && people.undo().then(() => setSaid("Undone.")), off: locked },
    { keys: ["Ctrl+Shift+z", "Ctrl+y"], label: "Redo", run: () => people.canRedo && people.redo().then(() => setSaid("Done again.")), off: locked },
    { keys: ["+", "="], label: "Zoom into the timeline", run: () => setPart(zoomed(part, 0.6, frame, recording.frames)) },
    { keys: ["-"], label: "Zoom out", run: () => setPart(zoomed(part, 1.6, frame, recording.frames)) },
    { keys: ["0"], label: "Show everything", run: () => { setPart(whole(recording.frames)); setView({ zoom: 1, x: 0, y: 0 }); } },
    { keys: ["Escape"], label: "Select nobody", run: () => setSelected(null) },
  ]);

  return html`<div class="editor">
    <header class="toolbar row"><h1 class="name" title=${recording.name}>${recording.name}</h1>
      <span class="group"><${Tool} icon="undo" label="Undo" keys="Ctrl+Z" disabled=${locked || !people.canUndo} onClick=${people.undo} />
        <${Tool} icon="redo" label="Redo" keys="Ctrl+Shift+Z" disabled=${locked || !people.canRedo} onClick=${people.redo} /></span>
      <span class="group"><${Tool} icon="confirm" label="Confirm this person here" keys="C" disabled=${locked || !chosen} onClick=${confirm} />
        <${Tool} icon=${track?.open ? "closed" : "open"} label=${track?.open ? "Cover this track again" : "Leave this track open"} keys="O" disabled=${locked || !track} onClick=${leaveOpen} />
        <${Tool} icon="delete" label="Delete the box on this frame" keys="Del" disabled=${locked || !chosen} onClick=${removeBox} /></span>
      <span class="grow status muted" role="status" aria-live="polite">${busy ? "Finding this person, and following both ways …" : people.working ? "Saving …" : said}</span>
      <button type="button" aria-pressed=${Boolean(people.reviewed)} disabled=${locked} title="I have looked at all of it (R)" onMouseDown=${(event) => event.preventDefault()}
        onClick=${markReviewed}>${people.reviewed ? "✓ Reviewed" : "Mark as reviewed"}</button>
      <a class="button primary" href=${link("protect", recording.id)}>Protect</a></header>
    <div class="stage" ref=${stage}>
      <${Picture} picture=${picture} image=${player.image} people=${here} draft=${people.draft?.frame === frame ? people.draft : null} selected=${selected} label=${label}
        busy=${busy} view=${view} setView=${setView} onSelect=${setSelected} onClick=${click} onBox=${box} setDraft=${(draft) => people.setDraft(draft && { ...draft, frame })} shownFrame=${player.waiting ? "" : frame} revision=${people.revisionAt(frame)}
        readOnly=${locked || player.waiting} describe=${`Frame ${frame}: ${plural(here.length, "person", "people")} known here`} />
      ${player.error && html`<div class="over"><${Problem} error=${player.error} retry=${() => seek(frame)} /></div>`}
      ${!people.ready && !player.error && html`<${NotYet} recording=${recording} people=${people} readOnly=${session.readOnly} />`}
    </div>
    <aside class="inspector"><${Problem} error=${people.ready && people.error} retry=${people.clear} />
      <${Here} here=${here} selected=${selected} label=${label} onSelect=${setSelected} frame=${frame} ready=${!player.waiting && people.revisionAt(frame) !== null} away=${track && !chosen && !player.waiting ? track.label : null} />
      <${Selected} track=${track} chosen=${chosen} locked=${locked} confirm=${confirm} follow=${follow} leaveOpen=${leaveOpen} removeBox=${removeBox} removeTrack=${removeTrack} />
      <${Doubts} doubts=${people.doubts} at=${doubtAt} toDoubt=${toDoubt} rate=${recording.rate} ready=${people.ready} label=${label} />
      <${Sidecar} recording=${recording} people=${people} locked=${session.readOnly} /></aside>
    <div class="transport row"><${Tool} icon="previous" label="Previous frame" keys="←" onClick=${() => seek(frame - 1)} />
      <${Tool} icon=${player.playing ? "pause" : "play"} label=${player.playing ? "Pause" : "Play"} keys="Space" onClick=${player.toggle} />
      <${Tool} icon="next" label="Next frame" keys="→" onClick=${() => seek(frame + 1)} />
      <span class="number time">${clock(frame, recording.rate)}</span>
      <label class="row number muted">frame <input class="frame" type="number" min="0" max=${recording.frames - 1} value=${frame}
        onChange=${(event) => seek(Number(event.target.value) || 0)} /> of ${count(recording.frames)}</label>
      <${Tool} icon="doubt" label="Next doubt" keys="N" disabled=${people.doubts.length === 0} onClick=${() => nextDoubt(1)}><span>${plural(people.doubts.length, "doubt")}</span><//>
      <span class="grow"></span><${Legend} />
      <span class="group"><${Tool} icon="minus" label="Zoom out" keys="-" onClick=${() => setPart(zoomed(part, 1.6, frame, recording.frames))} />
        <${Tool} icon="plus" label="Zoom into the timeline" keys="+" onClick=${() => setPart(zoomed(part, 0.6, frame, recording.frames))} /></span></div>
    <${Timeline} tracks=${people.tracks} doubts=${people.doubts} frames=${recording.frames} rate=${recording.rate || 25} frame=${frame}
      part=${part} setPart=${setPart} seek=${(n) => { player.pause(); seek(n); }} selected=${selected} onSelect=${setSelected} /></div>`;
}

function kindAt(tracks, id, frame) {
  return tracks.find((each) => each.id === id)?.spans.find((span) => span.from <= frame && frame <= span.to)?.kind;
}

function NotYet({ recording, people, readOnly }) {
  const job = useJobs().find((each) => each.kind === "find" && each.recordings.includes(recording.id) && each.state !== "done");
  const [error, setError] = useState(null);
  const find = () => begin(`api/recordings/${recording.id}/find`, { settings: {} }).then(() => setError(null), setError);
  if (recording.state !== "new") return people.error && html`<div class="over"><${Problem} error=${people.error} retry=${people.reload} /></div>`;
  return html`<div class="over">${job
    ? html`<div class="sheet"><${Progress} job=${job} /></div>`
    : html`<div class="sheet"><h2>Nobody has been looked for yet</h2>
        <p>The detectors go through every frame; afterwards you mend what they missed.</p>
        <button type="button" class="primary" disabled=${readOnly} onClick=${find}>Find people</button></div>`}
    <${Problem} error=${error} /></div>`;
}

function Here({ here, selected, label, onSelect, frame, ready, away }) {
  return html`<section><h2>On frame ${count(frame)}</h2>
    ${ready && here.length === 0 && html`<p class="muted">Nobody is known here. Click on whoever was missed.</p>`}
    ${away && html`<p class="muted">${away} has no box here: draw one, and the frames between are filled in.</p>`}
    <ul class="plain">${here.map((each) => html`<li key=${each.track}><button type="button" class="pick row" aria-pressed=${each.track === selected}
      onMouseDown=${(event) => event.preventDefault()} onClick=${() => onSelect(each.track)}><i class="dot" data-kind=${each.kind}></i>
      <span class="name grow">${label(each.track)}</span><small class="muted">${each.kind}${each.key ? " ◆" : ""}</small></button></li>`)}</ul></section>`;
}

function Selected({ track, chosen, locked, confirm, follow, leaveOpen, removeBox, removeTrack }) {
  if (!track) return null;
  return html`<section><h2 class="name">${track.label}</h2>
    <div class="actions"><button type="button" disabled=${locked || !chosen} onClick=${confirm}>Confirm here</button>
      <button type="button" disabled=${locked || !chosen} title="Confirm here and carry on to where the track ends (F)" onClick=${follow}>Follow further</button>
      <button type="button" disabled=${locked} aria-pressed=${track.open} onClick=${leaveOpen}>${track.open ? "Cover again" : "Leave open"}</button>
      <button type="button" disabled=${locked || !chosen} onClick=${removeBox}>Delete box</button>
      <button type="button" class="danger" disabled=${locked} onClick=${removeTrack}>Delete track</button></div>
    ${track.open && html`<p class="warn">Left open: this person stays as filmed, and the card will say so.</p>`}</section>`;
}

const REASONS = { unsure: "seen once, by one detector", carried: "followed from your click, not confirmed" };
const same = (one, other) => Boolean(other) && one.frame === other.frame && one.track === other.track && one.reason === other.reason;

function reason(doubt, label) {
  const why = REASONS[doubt.reason] || doubt.reason;
  const long = doubt.to > doubt.frame ? `, ${plural(doubt.to - doubt.frame + 1, "frame")}` : "";
  return doubt.track == null ? `${why}${long}` : `${label(doubt.track)}: ${why}${long}`;
}

function Doubts({ doubts, at, toDoubt, rate, ready, label }) {
  return html`<section class="doubts"><h2>Doubts <small class="muted">worst first</small></h2>
    ${ready && doubts.length === 0 && html`<p class="muted">The finder was sure everywhere. That is no proof: play it once.</p>`}
    <ol class="plain">${doubts.slice(0, 200).map((each, i) => html`<li key=${`${each.frame} ${i}`}><button type="button" class="pick row" aria-pressed=${i === at}
      onMouseDown=${(event) => event.preventDefault()} onClick=${() => toDoubt(i)}><span class="number">${clock(each.frame, rate)}</span>
      <span class="grow clip" title=${reason(each, label)}>${reason(each, label)}</span></button></li>`)}</ol></section>`;
}

function Sidecar({ recording, people, locked }) {
  const file = useRef();
  const read = async (event) => {
    const [chosen] = event.target.files;
    event.target.value = "";
    if (!chosen) return;
    try {
      await people.importBoxes(JSON.parse(await chosen.text()));
    } catch {
      people.fail(new Error("Expected a COCO sidecar, a JSON file such as Export writes; this file is not JSON."));
    }
  };
  if (!people.ready) return null;
  return html`<section class="sidecar"><h2>Boxes as a file <small class="muted">COCO</small></h2><div class="actions">
    <a class="button" href=${`api/recordings/${recording.id}/coco`} download="boxes.json"><${Icon} name="download" />Export</a>
    <button type="button" disabled=${locked} onClick=${() => file.current.click()}><${Icon} name="upload" />Import</button>
    <input ref=${file} type="file" accept=".json,application/json" hidden onChange=${read} /></div></section>`;
}
