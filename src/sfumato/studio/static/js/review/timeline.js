// One lane a track over all frames: zoomed by wheel or keys, scrubbed anywhere.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { clock } from "../format.js";
import { Icon } from "../ui.js";
import { KINDS, paintSpan, palette } from "./paint.js";

const LANE = 24;
const RULER = 30;

export const whole = (frames) => ({ from: 0, to: Math.max(1, frames) });

/** The part of the timeline after zooming by `factor` about `frame`. */
export function zoomed(part, factor, frame, frames) {
  const span = Math.min(frames, Math.max(Math.min(10, frames), (part.to - part.from) * factor));
  const share = (frame - part.from) / (part.to - part.from);
  const from = Math.min(Math.max(0, frame - share * span), frames - span);
  return { from, to: from + span };
}

/** The same part, moved until `frame` is inside. */
export function following(part, frame, frames) {
  if (frame >= part.from && frame + 1 <= part.to) return part;
  const span = part.to - part.from;
  const from = Math.min(Math.max(0, frame - span * 0.15), frames - span);
  return { from, to: from + span };
}

function ticks(part, rate, width) {
  const seconds = (part.to - part.from) / rate;
  const steps = [1 / rate, 5 / rate, 10 / rate, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600];
  const step = steps.find((each) => (each / seconds) * width > 84) || 7200;
  const first = Math.ceil(part.from / rate / step);
  return Array.from({ length: Math.floor(part.to / rate / step) - first + 1 }, (_, i) => (first + i) * step);
}

function paintRuler(ctx, { part, rate, width, doubts, colours }) {
  const x = (frame) => ((frame - part.from) / (part.to - part.from)) * width;
  ctx.fillStyle = colours.sunken;
  ctx.fillRect(0, 0, width, RULER);
  ctx.font = `11px ${colours.font}`;
  for (const second of ticks(part, rate, width)) {
    const at = Math.round(x(second * rate)) + 0.5;
    ctx.fillStyle = colours.edge;
    ctx.fillRect(at, 0, 1, 6);
    ctx.fillStyle = colours.muted;
    ctx.fillText(clock(second * rate, rate).replace(/\.000$/, ""), at + 4, 11);
  }
  for (const doubt of doubts) {
    const at = x(doubt.frame + 0.5);
    if (at < -5 || at > width + 5) continue;
    ctx.fillStyle = colours.warn;
    ctx.beginPath();
    ctx.moveTo(at, 16);
    ctx.lineTo(at + 5, RULER - 3);
    ctx.lineTo(at - 5, RULER - 3);
    ctx.fill();
  }
}

function paintLanes(ctx, { part, width, height, scroll, tracks, selected, frame, colours }) {
  const x = (n) => ((n - part.from) / (part.to - part.from)) * width;
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, RULER, width, height - RULER);
  ctx.clip();
  const first = Math.max(0, Math.floor(scroll / LANE));
  tracks.slice(first, first + Math.ceil(height / LANE) + 1).forEach((track, i) => {
    const y = RULER + (first + i) * LANE - scroll;
    if (track.id === selected) {
      ctx.fillStyle = colours.tint;
      ctx.fillRect(0, y, width, LANE);
    }
    ctx.fillStyle = colours.line;
    ctx.fillRect(0, y + LANE - 1, width, 1);
    for (const span of track.spans) {
      const [left, right] = [x(span.from), x(span.to + 1)];
      if (right < 0 || left > width) continue;
      const start = Math.max(left, -8);
      paintSpan(ctx, span.kind, start, y + 5, Math.min(right, width + 8) - start, LANE - 10, colours);
    }
  });
  ctx.restore();
  const at = x(frame + 0.5);
  ctx.fillStyle = colours.ink;
  ctx.fillRect(Math.round(at) - 0.75, 0, 1.5, height);
  ctx.beginPath();
  ctx.moveTo(at - 6, 0);
  ctx.lineTo(at + 6, 0);
  ctx.lineTo(at, 9);
  ctx.fill();
}

function Swatch({ kind }) {
  const canvas = useRef();
  useEffect(() => {
    const paint = () => {
      const ctx = canvas.current.getContext("2d");
      ctx.setTransform(2, 0, 0, 2, 0, 0);
      ctx.clearRect(0, 0, 26, 14);
      paintSpan(ctx, kind, 0, 0, 26, 14, palette(canvas.current.parentElement));
    };
    paint();
    addEventListener("themechange", paint);
    return () => removeEventListener("themechange", paint);
  }, []);
  return html`<canvas ref=${canvas} width="52" height="28" class="swatch" aria-hidden="true"></canvas>`;
}

export function Legend() {
  return html`<ul class="legend">${KINDS.map(({ kind, words }) => html`<li title=${words}><${Swatch} kind=${kind} />${kind}</li>`)}
    <li title="where the finder was least sure"><span class="mark" aria-hidden="true">▲</span>doubt</li></ul>`;
}

export function Timeline({ tracks, doubts, frames, rate, frame, part, setPart, seek, selected, onSelect }) {
  const canvas = useRef();
  const lanes = useRef();
  const [scroll, setScroll] = useState(0);
  const [, draw] = useState(0);
  const holding = useRef(false);
  useLayoutEffect(() => {
    const element = canvas.current;
    const { clientWidth: width, clientHeight: height } = element;
    const ratio = devicePixelRatio || 1;
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    const ctx = element.getContext("2d");
    ctx.scale(ratio, ratio);
    const colours = palette(element.parentElement);
    paintRuler(ctx, { part, rate, width, doubts, colours });
    paintLanes(ctx, { part, width, height, scroll, tracks, selected, frame, colours });
  });
  useEffect(() => {
    const again = () => draw((n) => n + 1);
    const watch = new ResizeObserver(again);
    watch.observe(canvas.current);
    addEventListener("themechange", again);
    return () => {
      watch.disconnect();
      removeEventListener("themechange", again);
    };
  }, []);
  useEffect(() => {
    const at = tracks.findIndex((track) => track.id === selected) * LANE;
    const box = lanes.current;
    if (at >= 0 && (at < box.scrollTop || at + LANE > box.scrollTop + box.clientHeight)) box.scrollTop = at - LANE;
  }, [selected]);
  const frameAt = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const n = part.from + ((event.clientX - box.left) / box.width) * (part.to - part.from);
    return Math.min(frames - 1, Math.max(0, Math.floor(n)));
  };
  const down = (event) => {
    canvas.current.setPointerCapture(event.pointerId);
    holding.current = true;
    const y = event.clientY - canvas.current.getBoundingClientRect().top;
    if (y > RULER) onSelect(tracks[Math.floor((y - RULER + scroll) / LANE)]?.id ?? null);
    seek(frameAt(event));
  };
  const wheel = (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const span = part.to - part.from;
      const by = ((event.deltaX || event.deltaY) / canvas.current.clientWidth) * span;
      const from = Math.min(Math.max(0, part.from + by), frames - span);
      setPart({ from, to: from + span });
    } else if (event.altKey) lanes.current.scrollTop += event.deltaY;
    else setPart(zoomed(part, Math.exp(event.deltaY / 300), frameAt(event), frames));
  };
  const high = RULER + LANE * Math.max(3, tracks.length) + 10;
  return html`<section class="timeline" aria-label="Timeline" style=${{ height: `min(30vh, ${high}px)` }}>
    <div class="lanes" ref=${lanes} onScroll=${(event) => setScroll(event.target.scrollTop)}>
      <div class="corner muted">${tracks.length} ${tracks.length === 1 ? "track" : "tracks"}</div>
      ${tracks.map((track) => html`<button type="button" key=${track.id} class="lane" aria-pressed=${track.id === selected}
        onMouseDown=${(event) => event.preventDefault()} onClick=${() => { onSelect(track.id); if (!track.spans.some((s) => s.from <= frame && frame <= s.to)) seek(track.spans[0]?.from ?? frame); }}>
        <span class="name grow">${track.label}</span>${track.open && html`<${Icon} name="open" />`}</button>`)}</div>
    <canvas ref=${canvas} class="spans" role="slider" tabindex="0" aria-label="Frame" aria-valuemin="0" aria-valuemax=${frames - 1}
      aria-valuenow=${frame} aria-valuetext=${`frame ${frame}, ${clock(frame, rate)}`} onPointerDown=${down}
      onPointerMove=${(event) => holding.current && seek(frameAt(event))} onPointerUp=${() => { holding.current = false; }}
      onPointerCancel=${() => { holding.current = false; }} onWheel=${wheel}></canvas></section>`;
}
