// The same frame twice: as filmed left of the line, protected right of it.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { Frames } from "../review/frames.js";
import { Tool } from "../ui.js";
import { clock } from "../format.js";

export function Compare({ recording, preview, width }) {
  const { from, to } = preview;
  const canvas = useRef();
  const [frame, setFrame] = useState(from);
  const [split, setSplit] = useState(0.5);
  const [playing, setPlaying] = useState(false);
  const [, draw] = useState(0);
  const sources = useMemo(() => {
    const arrived = () => draw((n) => n + 1);
    const make = (address) => new Frames(address, to + 1, { arrived, failed: () => {}, first: from });
    return {
      before: make((n) => `api/recordings/${recording.id}/frames/${n}?width=${width}`),
      after: make((n) => `api/previews/${preview.id}/frames/${n}?width=${width}`),
    };
  }, [preview.id]);
  useEffect(() => () => { sources.before.close(); sources.after.close(); }, [sources]);
  useEffect(() => { sources.before.want(frame, 1, 8); sources.after.want(frame, 1, 8); }, [frame, sources]);
  useEffect(() => {
    if (!playing) return undefined;
    const timer = setInterval(() => setFrame((n) => {
      const next = n >= to ? from : n + 1;
      return sources.before.at(next) && sources.after.at(next) ? next : (sources.before.want(next, 1, 8), sources.after.want(next, 1, 8), n);
    }), 1000 / (recording.rate || 25));
    return () => clearInterval(timer);
  }, [playing, sources]);
  useLayoutEffect(() => {
    const { width: wide, height: high } = canvas.current;
    const ctx = canvas.current.getContext("2d");
    const [before, after] = [sources.before.at(frame), sources.after.at(frame)];
    if (!before || !after) return;
    const at = Math.round(split * wide);
    ctx.drawImage(before, 0, 0, wide, high);
    ctx.save();
    ctx.beginPath();
    ctx.rect(at, 0, wide - at, high);
    ctx.clip();
    ctx.drawImage(after, 0, 0, wide, high);
    ctx.restore();
    ctx.fillStyle = "#10100f";
    ctx.fillRect(at - 2, 0, 4, high);
    ctx.fillStyle = "#ffffff";
    ctx.fillRect(at - 1, 0, 2, high);
  });
  const high = Math.round((width * recording.height) / recording.width);
  const pull = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    const box = canvas.current.getBoundingClientRect();
    setSplit(Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)));
  };
  return html`<figure class="compare"><div class="pair"><span>as filmed</span><span>protected</span></div>
    <canvas ref=${canvas} width=${width} height=${high} role="img" aria-label=${`Frame ${frame}: as filmed on the left, protected on the right`}
      onPointerDown=${pull} onPointerMove=${pull}></canvas>
    <div class="row"><${Tool} icon=${playing ? "pause" : "play"} label=${playing ? "Pause the preview" : "Play the preview"} onClick=${() => setPlaying(!playing)} />
      ${to > from && html`<input class="grow" type="range" min=${from} max=${to} value=${frame} aria-label="Frame of the preview"
        onInput=${(event) => { setPlaying(false); setFrame(Number(event.target.value)); }} />`}
      <span class="number muted">${clock(frame, recording.rate)}</span>
      <label class="row muted">line<input type="range" min="0" max="1" step="0.01" value=${split} aria-label="Where the line between filmed and protected stands"
        onInput=${(event) => setSplit(Number(event.target.value))} /></label></div></figure>`;
}
