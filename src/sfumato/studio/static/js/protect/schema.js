// A method's own JSON schema, read as fields that a person can fill in.

/** Set by Review, or meaningless in a browser: not asked for here. */
const ELSEWHERE = new Set(["import_boxes", "leave_open", "finder", "refine"]);
const RARE = new Set([
  "seed", "start", "end", "cover", "check", "detector", "on_miss", "every", "public_mask", "published", "calibration",
  "poses", "masks", "inpainting", "tool_timeout", "timeout", "window", "second_look", "clips", "k", "basis", "block",
  "kept_frames", "kept_size", "shrink", "smooth", "b", "relation",
]);
const USUAL = {
  unit: ["pixels(16, frames=1)", "frame", "clip", "video"],
  relation: ["replace", "add-remove", "zero-out"],
  region: ["faces", "people", "background", "text"],
};

/** What the commonest settings mean, for somebody who sees them for the first time. */
const MEANS = {
  epsilon: "how much may leak: smaller is safer, and shows less", delta: "the small probability of more", unit: "what is protected: a frame, the whole video, so many pixels",
  relation: "what it means that somebody is left out", region: "what is changed", keep_text: "leave captions, badges, plates and screens readable",
  level: "how bright the people are filled", strength: "how strongly it is blurred", cells: "squares across a face or a person", detector: "which detectors look, joined by +",
  on_miss: "when somebody is lost: hold on, blank the frame, or fail", every: "look at every n-th frame and follow in between", start: "cover from this second on",
  end: "cover up to this second", check: "look at the result again, and fail if somebody is still visible", speakers: "one new voice for all, or another one for each",
};

function alternatives(schema, defs) {
  if (schema.$ref) return alternatives({ ...defs[schema.$ref.split("/").at(-1)], description: "" }, defs);
  return schema.anyOf ? schema.anyOf.flatMap((each) => alternatives(each, defs)) : [schema];
}

const words = (name) => name.replaceAll("_", " ");

export function field(name, schema, defs, required) {
  const all = alternatives(schema, defs);
  const given = all.filter((each) => each.type !== "null");
  const find = (test) => given.find(test);
  const choices = given.flatMap((each) => each.enum?.filter((value) => value !== null) || (typeof each.const === "string" ? [each.const] : []));
  const number = find((each) => each.type === "number" || each.type === "integer");
  const text = given.some((each) => (each.type === "string" && !each.enum) || Object.keys(each).length === 0);
  const base = {
    name, title: words(name), required, rare: RARE.has(name) && !required, standard: schema.default,
    means: MEANS[name], hint: schema.description || given.map((each) => each.description).find(Boolean) || "",
  };
  if (find((each) => each.type === "array")) return { ...base, kind: "list", items: find((each) => each.type === "array").items };
  if (find((each) => each.type === "boolean") && given.length === 1) return { ...base, kind: "switch" };
  if (choices.length && !number && !text) return { ...base, kind: "choice", choices };
  if (number && given.length === 1) {
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, type } = number;
    return { ...base, kind: "number", integer: type === "integer", least: minimum ?? exclusiveMinimum, most: maximum ?? exclusiveMaximum };
  }
  return { ...base, kind: "text", usual: [...choices, ...(USUAL[name] || [])], numeric: Boolean(number), off: Boolean(find((each) => each.const === false)) };
}

export function fields(schema) {
  const required = new Set(schema.required || []);
  return Object.entries(schema.properties || {})
    .filter(([name]) => !ELSEWHERE.has(name))
    .map(([name, each]) => field(name, each, schema.$defs || {}, required.has(name)))
    .sort((a, b) => b.required - a.required);
}

/** What was typed into a field, as the setting it means; undefined when it was left alone. */
export function meaning(each, typed) {
  if (typed === undefined || typed === "") return undefined;
  if (each.kind === "switch") return typed;
  if (each.kind === "number") return Number.isNaN(Number(typed)) ? typed : Number(typed);
  if (each.kind === "list") return typed.split(/[;\n]+/).map((part) => part.trim()).filter(Boolean).map((part) => (each.items?.type === "integer" ? Number(part) : part));
  if (each.off && typed === "false") return false;
  return each.numeric && typed.trim() !== "" && !Number.isNaN(Number(typed)) ? Number(typed) : typed;
}

export function settings(list, typed) {
  const said = list.map((each) => [each.name, meaning(each, typed[each.name])]);
  return Object.fromEntries(said.filter(([, value]) => value !== undefined));
}
