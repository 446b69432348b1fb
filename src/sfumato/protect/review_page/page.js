"use strict";
// One answer a frame, in memory only; "save" hands them to the reader as a file.
const answers = JSON.parse(document.getElementById("data").textContent).unanswered;
const thumbs = [...document.querySelectorAll(".thumb")];
const done = [];
let at = 0;
let saved = true;

const element = (id) => document.getElementById(id);
const WORDS = { yes: "somebody is left", no: "nobody is left", unsure: "cannot tell" };

function show() {
  const { recording, frame, left } = answers.answers[at];
  element("large").src = thumbs[at].firstElementChild.src;
  element("caption").textContent =
    `${at + 1} of ${thumbs.length}: frame ${frame} of ${recording}` + (left ? ` (${WORDS[left]})` : "");
  thumbs.forEach((thumb, i) => {
    const answer = answers.answers[i].left;
    if (answer) thumb.dataset.left = answer;
    else delete thumb.dataset.left;
    if (i === at) thumb.setAttribute("aria-current", "true");
    else thumb.removeAttribute("aria-current");
  });
  const open = answers.answers.filter((one) => one.left === null).length;
  element("save").disabled = open > 0;
  element("undo").disabled = done.length === 0;
  element("standing").textContent = open
    ? `${open} to go.`
    : "Every frame has an answer: save them, then run sfumato review OUT --answers FILE --by NAME.";
}

function answer(left) {
  done.push([at, answers.answers[at].left]);
  answers.answers[at].left = left;
  saved = false;
  const after = answers.answers.findIndex((one, i) => i > at && one.left === null);
  const any = answers.answers.findIndex((one) => one.left === null);
  at = after >= 0 ? after : any >= 0 ? any : at;
  show();
}

function undo() {
  if (!done.length) return;
  const [place, before] = done.pop();
  answers.answers[place].left = before;
  at = place;
  show();
}

function go(step) {
  at = Math.min(Math.max(at + step, 0), thumbs.length - 1);
  show();
}

function save() {
  if (element("save").disabled) return;
  const link = document.createElement("a");
  const file = new Blob([JSON.stringify(answers, null, 2) + "\n"], { type: "application/json" });
  link.href = URL.createObjectURL(file);
  link.download = "answers.json";
  link.click();
  saved = true;
}

const KEYS = {
  y: () => answer("yes"), n: () => answer("no"), "?": () => answer("unsure"), u: undo,
  Backspace: undo, ArrowLeft: () => go(-1), ArrowRight: () => go(1), s: save,
};
document.addEventListener("keydown", (event) => {
  const act = KEYS[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  act();
});
for (const left of ["yes", "no", "unsure"]) element(left).addEventListener("click", () => answer(left));
element("undo").addEventListener("click", undo);
element("save").addEventListener("click", save);
thumbs.forEach((thumb, i) => thumb.addEventListener("click", () => { at = i; show(); }));
window.addEventListener("beforeunload", (event) => { if (!saved) event.preventDefault(); });
show();
