// The fields of a method; what is left empty keeps the method's own standard.
import { html } from "../html.js";
import { bound } from "../format.js";

const SUCH_AS = { epsilon: "8", delta: "1e-6", unit: "pixels(16, frames=1)" };
const shown = (value) => (value === null || value === undefined || (Array.isArray(value) && !value.length) ? "by itself" : String(value));

function bounds({ least, most, integer }) {
  const whole = integer ? "a whole number, " : "";
  if (least !== undefined && most !== undefined) return `${whole}${bound(least)} to ${bound(most)}`;
  return least !== undefined ? `${whole}at least ${bound(least)}` : whole.slice(0, -2);
}

function Control({ each, value, change, disabled }) {
  const common = { id: `set-${each.name}`, name: each.name, disabled, "aria-describedby": `hint-${each.name}`, required: each.required };
  if (each.kind === "switch")
    return html`<input ...${common} required=${false} type="checkbox" role="switch" checked=${value ?? each.standard} onChange=${(event) => change(event.target.checked)} />`;
  if (each.kind === "choice")
    return html`<select ...${common} onChange=${(event) => change(event.target.value)}>
      ${each.standard == null && html`<option value="">by itself</option>`}
      ${each.choices.map((name) => html`<option selected=${name === (value ?? each.standard)}>${name}</option>`)}</select>`;
  const number = each.kind === "number";
  return html`<input ...${common} type="text" inputmode=${number ? "decimal" : "text"} autocomplete="off" spellcheck=${false}
    list=${each.usual?.length ? `usual-${each.name}` : undefined} value=${value ?? ""}
    placeholder=${each.required ? `needed${SUCH_AS[each.name] ? `, such as ${SUCH_AS[each.name]}` : ""}` : shown(each.standard)} onInput=${(event) => change(event.target.value)} />
    ${each.usual?.length > 0 && html`<datalist id=${`usual-${each.name}`}>${each.usual.map((name) => html`<option value=${name} />`)}</datalist>`}`;
}

function Field({ each, value, change, disabled }) {
  const limits = each.kind === "number" ? bounds(each) : each.hint === "text" ? "" : each.hint;
  const hint = [each.means, limits].filter(Boolean).join("; ");
  return html`<div class=${`field ${each.kind}`}><label for=${`set-${each.name}`}>${each.title}</label>
    <${Control} each=${each} value=${value} change=${change} disabled=${disabled} />
    <small class="muted" id=${`hint-${each.name}`}>${hint}</small></div>`;
}

export function Form({ list, typed, setTyped, disabled }) {
  const one = (each) => html`<${Field} key=${each.name} each=${each} value=${typed[each.name]} disabled=${disabled}
    change=${(value) => setTyped((old) => ({ ...old, [each.name]: value }))} />`;
  const rare = list.filter((each) => each.rare);
  return html`${list.filter((each) => !each.rare).map(one)}
    ${rare.length > 0 && html`<details><summary>More settings</summary>${rare.map(one)}</details>`}`;
}
