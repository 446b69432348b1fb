// Colours and patterns of the five kinds: a kind can be told without its colour.
export const KINDS = [
  { kind: "found", words: "found: seen at every look, that is on every fourth frame", name: "--found" },
  { kind: "bridged", words: "bridged: missed here, seen before and after", name: "--bridged" },
  { kind: "held", words: "held: before the first or after the last sighting", name: "--held" },
  { kind: "open", words: "left open on purpose", name: "--open" },
  { kind: "by hand", words: "by hand", name: "--by-hand" },
];

/** The page's colours as the canvas needs them. */
export function palette(element) {
  const probe = element.appendChild(document.createElement("span"));
  const read = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ["--paper", "--raised", "--sunken", "--ink", "--muted", "--line", "--edge", "--accent", "--warn", "--bad", "--tint"];
  const colours = Object.fromEntries([...names, ...KINDS.map((each) => each.name)].map((name) => [name.slice(2), read(name)]));
  colours.font = getComputedStyle(probe).fontFamily;
  probe.remove();
  for (const { kind, name } of KINDS) colours[kind] = colours[name.slice(2)];
  return colours;
}

/** A span of a lane: solid, hatched, dotted, hollow, or solid with a notch. */
export function paintSpan(ctx, kind, x, y, width, height, colours) {
  const colour = colours[kind] || colours.ink;
  ctx.save();
  ctx.beginPath();
  ctx.roundRect(x, y, Math.max(width, 1.5), height, Math.min(3, width / 2));
  ctx.clip();
  ctx.fillStyle = ctx.strokeStyle = colour;
  if (kind === "found" || kind === "by hand") ctx.fill();
  else {
    ctx.globalAlpha = 0.22;
    ctx.fill();
    ctx.globalAlpha = 1;
  }
  ctx.lineWidth = 1.6;
  if (kind === "bridged") {
    ctx.beginPath();
    for (let at = x - height - ((x - height) % 6); at < x + width; at += 6) ctx.moveTo(at, y + height), ctx.lineTo(at + height, y);
    ctx.stroke();
  }
  if (kind === "held") {
    ctx.setLineDash([1.6, 3]);
    ctx.beginPath();
    for (let line = y + 2.5; line < y + height; line += 4.5) ctx.moveTo(x, line), ctx.lineTo(x + width, line);
    ctx.lineWidth = 2;
    ctx.stroke();
    ctx.setLineDash([]);
  }
  if (kind === "open") {
    ctx.lineWidth = 3;
    ctx.beginPath();
    ctx.roundRect(x, y, Math.max(width, 1.5), height, 3);
    ctx.stroke();
  }
  if (kind === "by hand") {
    ctx.fillStyle = colours.raised;
    ctx.fillRect(x, y + height / 2 - 1, width, 2);
  }
  ctx.restore();
}

/** How a box is outlined on the picture; the picture is neither light nor dark, so every line has a dark edge. */
export const ON_PICTURE = {
  found: { colour: "#7ee2a4", dash: [] },
  bridged: { colour: "#ffc857", dash: [9, 5] },
  held: { colour: "#ff9a6b", dash: [2, 5] },
  open: { colour: "#d8b4ff", dash: [14, 4, 2, 4] },
  "by hand": { colour: "#8ecbff", dash: [] },
};
