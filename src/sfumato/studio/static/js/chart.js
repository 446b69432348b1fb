// A line chart of a few series over steps, small enough to watch.
import { html } from "./html.js";
import { count, decimal } from "./format.js";

const [WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM] = [440, 190, 50, 10, 10, 24];

function scale(values, low, high) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const span = most - least || Math.abs(most) || 1;
  return { at: (v) => high - ((v - (most === least ? least - span / 2 : least)) / span) * (high - low), least, most };
}

/** `points`: [{step, value}], drawn with its own axis; words say the last value. */
export function Chart({ points, title, steps, shown = decimal }) {
  const known = points.filter((each) => Number.isFinite(each.value));
  if (known.length === 0) return html`<figure class="chart"><figcaption>${title}</figcaption><p class="muted">Nothing measured yet.</p></figure>`;
  const y = scale(known.map((each) => each.value), TOP, HIGH - BOTTOM);
  const last = known.at(-1);
  const end = steps || last.step || 1;
  const x = (step) => LEFT + (step / end) * (WIDE - LEFT - RIGHT);
  const path = known.map((each, i) => `${i ? "L" : "M"}${x(each.step).toFixed(1)} ${y.at(each.value).toFixed(1)}`).join("");
  const marks = y.least === y.most ? [y.least] : [y.least, (y.least + y.most) / 2, y.most];
  return html`<figure class="chart"><figcaption>${title} <b class="number">${shown(last.value)}</b></figcaption>
    <svg viewBox=${`0 0 ${WIDE} ${HIGH}`} role="img" aria-label=${`${title}: ${shown(last.value)} at step ${last.step}`}>
      ${marks.map((v) => html`<g><line class="grid" x1=${LEFT} x2=${WIDE - RIGHT} y1=${y.at(v)} y2=${y.at(v)} />
        <text x=${LEFT - 6} y=${y.at(v) + 4} text-anchor="end">${shown(v)}</text></g>`)}
      <text x=${LEFT} y=${HIGH - 6}>0</text><text x=${WIDE - RIGHT} y=${HIGH - 6} text-anchor="end">${count(end)} steps</text>
      <path class="curve" d=${path} /><circle class="now" cx=${x(last.step)} cy=${y.at(last.value)} r="4" /></svg></figure>`;
}
