// Keys belong to whatever is on the screen; "?" lists those that work now.
import { html, useLayoutEffect, useRef } from "./html.js";

const bound = new Set();
const TYPING = "input:not([type=checkbox]):not([type=range]):not([type=radio]), textarea, select, [contenteditable]";
const PRESSABLE = "button, a[href], summary, input, [role=option]";

function combination(event) {
  const letter = event.key.length === 1;
  const control = event.ctrlKey || event.metaKey;
  return (
    (control ? "Ctrl+" : "") + (event.altKey ? "Alt+" : "") +
    (event.shiftKey && (!letter || control) ? "Shift+" : "") + (letter ? event.key.toLowerCase() : event.key)
  );
}

function pressed(event) {
  if (event.defaultPrevented || event.target.closest?.(TYPING)) return;
  if (document.querySelector("dialog[open]")) return;
  const name = combination(event);
  if ((name === " " || name === "Enter") && event.target.closest?.(PRESSABLE)) return;
  for (const group of [...bound].reverse()) {
    const binding = group.current.find((each) => each.keys.includes(name) && !each.off);
    if (binding) {
      event.preventDefault();
      binding.run(event);
      return;
    }
  }
}
addEventListener("keydown", pressed);

/** While the caller is on the screen: [{keys: ["n"], label, run, off?}]. */
export function useKeys(bindings) {
  const latest = useRef(bindings);
  latest.current = bindings;
  useLayoutEffect(() => {
    bound.add(latest);
    return () => bound.delete(latest);
  }, []);
}

const SHOWN = { " ": "Space", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Delete: "Del", Escape: "Esc" };

export function Keys({ name }) {
  const parts = name === "+" ? ["+"] : name.split("+");
  return parts.map((part, i) => html`${i > 0 && "+"}<kbd>${SHOWN[part] || (part.length === 1 ? part.toUpperCase() : part)}</kbd>`);
}

export const listed = () => [...bound].reverse().flatMap((group) => group.current).filter((each) => each.label);
