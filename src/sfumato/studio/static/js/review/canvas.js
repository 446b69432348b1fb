// The picture with everybody who is known on it, and what a pointer may do there.
import { html, useEffect, useLayoutEffect, useRef } from "../html.js";
import { ON_PICTURE } from "./paint.js";

const BONES = [[5, 7], [7, 9], [6, 8], [8, 10], [5, 6], [5, 11], [6, 12], [11, 12], [11, 13], [13, 15], [12, 14], [14, 16], [0, 5], [0, 6]];
const HANDLE = 9;
const SMALLEST = 4;

/** Where the picture lies on the canvas: fitted, then zoomed about a point. */
function placed(size, picture, view) {
  const fit = Math.min(size.width / picture.width, size.height / picture.height) * view.zoom;
  const x = (size.width - picture.width * fit) / 2 + view.x;
  const y = (size.height - picture.height * fit) / 2 + view.y;
  return { scale: fit, x, y };
}

function outlined(ctx, width, colour, draw) {
  for (const [line, style] of [[width + 2, "rgb(0 0 0 / .65)"], [width, colour]]) {
    ctx.lineWidth = line;
    ctx.strokeStyle = style;
    ctx.beginPath();
    draw();
    ctx.stroke();
  }
}

const LEAST_SCORE = 0.2;

function paintPerson(ctx, person, at, selected, label) {
  const look = ON_PICTURE[person.kind] || ON_PICTURE.found;
  const place = ([x, y, w, h]) => [at.x + x * at.scale, at.y + y * at.scale, w * at.scale, h * at.scale];
  const [x, y, w, h] = place(person.box);
  ctx.setLineDash(look.dash);
  outlined(ctx, selected ? 3 : 1.8, look.colour, () => ctx.rect(x, y, w, h));
  ctx.setLineDash([]);
  if (person.head) {
    const [hx, hy, hw, hh] = place(person.head);
    outlined(ctx, 1.2, look.colour, () => ctx.ellipse(hx + hw / 2, hy + hh / 2, hw / 2, hh / 2, 0, 0, 7));
  }
  const joints = person.joints?.map(([jx, jy, score]) => [at.x + jx * at.scale, at.y + jy * at.scale, score]);
  if (joints) {
    const sure = ([a, b]) => joints[a]?.[2] > LEAST_SCORE && joints[b]?.[2] > LEAST_SCORE;
    outlined(ctx, 1.4, look.colour, () => BONES.filter(sure).forEach(([a, b]) => {
      ctx.moveTo(joints[a][0], joints[a][1]);
      ctx.lineTo(joints[b][0], joints[b][1]);
    }));
  }
  const text = `${label}${person.key ? " ◆" : ""}`;
  ctx.font = `600 12px ${getComputedStyle(document.body).fontFamily}`;
  const wide = ctx.measureText(text).width + 10;
  ctx.fillStyle = look.colour;
  ctx.fillRect(x - 1, y - 18, wide, 17);
  ctx.fillStyle = "#10100f";
  ctx.fillText(text, x + 4, y - 5);
  if (selected) handles([x, y, w, h]).forEach(([hx, hy]) => {
    ctx.fillStyle = look.colour;
    ctx.strokeStyle = "#10100f";
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.rect(hx - 4, hy - 4, 8, 8);
    ctx.fill();
    ctx.stroke();
  });
}

const handles = ([x, y, w, h]) => [
  [x, y, 1, 1, 0, 0], [x + w / 2, y, 0, 1, 0, 0], [x + w, y, 0, 1, 1, 0], [x + w, y + h / 2, 0, 0, 1, 0],
  [x + w, y + h, 0, 0, 1, 1], [x + w / 2, y + h, 0, 0, 0, 1], [x, y + h, 1, 0, 0, 1], [x, y + h / 2, 1, 0, 0, 0],
];

/** The box after a drag by (dx, dy): moved as a whole, or its named edges pulled; never outside the picture. */
export function dragged(box, edges, dx, dy, picture) {
  let [x0, y0] = box;
  let [x1, y1] = [box[0] + box[2], box[1] + box[3]];
  if (!edges) {
    const mx = Math.min(Math.max(dx, -x0), picture.width - x1);
    const my = Math.min(Math.max(dy, -y0), picture.height - y1);
    return [x0 + mx, y0 + my, box[2], box[3]];
  }
  const [left, top, right, bottom] = edges;
  x0 += left * dx; x1 += right * dx; y0 += top * dy; y1 += bottom * dy;
  [x0, x1] = [Math.min(x0, x1), Math.max(x0, x1)].map((v) => Math.min(Math.max(v, 0), picture.width));
  [y0, y1] = [Math.min(y0, y1), Math.max(y0, y1)].map((v) => Math.min(Math.max(v, 0), picture.height));
  return [x0, y0, Math.max(x1 - x0, 1), Math.max(y1 - y0, 1)];
}

export function Picture({ picture, image, people, draft, selected, label, busy, view, setView, onSelect, onClick, onBox, setDraft, readOnly, describe, shownFrame, revision }) {
  const canvas = useRef();
  const drag = useRef(null);
  const shown = draft ? [...people.filter((each) => each.track !== draft.track), { ...draft, kind: "by hand" }] : people;

  const paint = () => {
    const element = canvas.current;
    if (!element) return;
    const { clientWidth: width, clientHeight: height } = element;
    const ratio = devicePixelRatio || 1;
    if (element.width !== Math.round(width * ratio) || element.height !== Math.round(height * ratio)) {
      element.width = Math.round(width * ratio);
      element.height = Math.round(height * ratio);
    }
    const ctx = element.getContext("2d");
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    const at = placed({ width, height }, picture, view);
    if (image) ctx.drawImage(image, at.x, at.y, picture.width * at.scale, picture.height * at.scale);
    for (const person of shown) if (person.track !== selected) paintPerson(ctx, person, at, false, label(person.track));
    for (const person of shown) if (person.track === selected) paintPerson(ctx, person, at, true, label(person.track));
    if (busy) {
      outlined(ctx, 2, "#ffffff", () => ctx.arc(at.x + busy[0] * at.scale, at.y + busy[1] * at.scale, 12, 0, 7));
    }
  };
  useLayoutEffect(paint);
  useEffect(() => {
    const watch = new ResizeObserver(() => setView((old) => ({ ...old })));
    watch.observe(canvas.current);
    return () => watch.disconnect();
  }, []);

  const where = (event) => {
    const frame = canvas.current.getBoundingClientRect();
    const at = placed(frame, picture, view);
    return { x: (event.clientX - frame.left - at.x) / at.scale, y: (event.clientY - frame.top - at.y) / at.scale, scale: at.scale };
  };
  const inside = (point) => point.x >= 0 && point.y >= 0 && point.x < picture.width && point.y < picture.height;
  const grab = (point) => {
    const chosen = shown.find((each) => each.track === selected);
    const handle = chosen && handles(chosen.box).find(([hx, hy]) => Math.hypot(hx - point.x, hy - point.y) < HANDLE / point.scale);
    if (handle) return { person: chosen, edges: handle.slice(2) };
    const under = shown
      .filter(({ box: [x, y, w, h] }) => point.x >= x && point.y >= y && point.x <= x + w && point.y <= y + h)
      .sort((a, b) => (b.track === selected) - (a.track === selected) || a.box[2] * a.box[3] - b.box[2] * b.box[3])[0];
    return under ? { person: under, edges: null } : null;
  };

  const down = (event) => {
    const point = where(event);
    canvas.current.setPointerCapture(event.pointerId);
    if (event.button === 1 || event.shiftKey) drag.current = { pan: [event.clientX - view.x, event.clientY - view.y] };
    else if (event.button === 0) {
      const got = grab(point);
      if (got) onSelect(got.person.track);
      drag.current = { from: point, screen: [event.clientX, event.clientY], got, far: false };
    }
  };
  const move = (event) => {
    const now = drag.current;
    if (!now) {
      const got = grab(where(event));
      canvas.current.dataset.cursor = got ? (got.edges ? "pull" : "move") : inside(where(event)) ? "point" : "";
      return;
    }
    if (now.pan) {
      setView({ ...view, x: event.clientX - now.pan[0], y: event.clientY - now.pan[1] });
      return;
    }
    now.far ||= Math.hypot(event.clientX - now.screen[0], event.clientY - now.screen[1]) > 4;
    if (!now.far || readOnly) return;
    const point = where(event);
    const [dx, dy] = [point.x - now.from.x, point.y - now.from.y];
    // kept here too: a quick hand lets go before the page is drawn anew
    if (now.got) now.draft = { ...now.got.person, sent: false, box: dragged(now.got.person.box, now.got.edges, dx, dy, picture) };
    else now.draft = { track: null, box: dragged([now.from.x, now.from.y, 0, 0], [0, 0, 1, 1], dx, dy, picture) };
    setDraft(now.draft);
  };
  const up = (event) => {
    const now = drag.current;
    drag.current = null;
    if (!now || now.pan) return;
    if (now.far && now.draft) {
      const { box } = now.draft;
      if (box[2] >= SMALLEST && box[3] >= SMALLEST) onBox(now.draft);
      else setDraft(null);
    } else if (!now.far && !now.got && inside(now.from)) onClick(now.from);
    event.preventDefault();
  };
  const wheel = (event) => {
    event.preventDefault();
    const frame = canvas.current.getBoundingClientRect();
    const zoom = Math.min(16, Math.max(1, view.zoom * Math.exp(-event.deltaY / 400)));
    const [cx, cy] = [event.clientX - frame.left - frame.width / 2, event.clientY - frame.top - frame.height / 2];
    const by = zoom / view.zoom;
    setView(zoom === 1 ? { zoom, x: 0, y: 0 } : { zoom, x: cx - (cx - view.x) * by, y: cy - (cy - view.y) * by });
  };
  return html`<canvas ref=${canvas} role="img" aria-label=${describe} class="picture" data-frame=${shownFrame} data-revision=${revision} onPointerDown=${down} onPointerMove=${move}
    onPointerUp=${up} onPointerCancel=${() => { drag.current = null; setDraft(null); }} onWheel=${wheel}></canvas>`;
}
