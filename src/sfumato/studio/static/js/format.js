// Numbers, sizes and times in the reader's own locale.
const number = (options) => new Intl.NumberFormat(undefined, options);

export const count = (n) => number().format(n);
export const decimal = (n, digits = 3) => number({ maximumSignificantDigits: digits }).format(n);
/** A limit of a setting: short whatever its size. */
export const bound = (n) =>
  n !== 0 && (Math.abs(n) < 1e-4 || Math.abs(n) >= 1e7)
    ? number({ notation: "scientific", maximumSignificantDigits: 3 }).format(n).toLowerCase()
    : number({ maximumSignificantDigits: 6 }).format(n);
export const percent = (share, digits = 0) =>
  number({ style: "percent", maximumFractionDigits: digits }).format(share);

const unit = (n, name, digits = 0) =>
  number({ style: "unit", unit: name, unitDisplay: "short", maximumFractionDigits: digits }).format(n);

export function bytes(n) {
  if (n < 1e6) return unit(n / 1e3, "kilobyte");
  return n < 1e9 ? unit(n / 1e6, "megabyte", 1) : unit(n / 1e9, "gigabyte", 1);
}

export const megabytes = (n) => bytes(n * 1e6);

/** How long something takes: rough on purpose. */
export function lasting(seconds) {
  if (seconds < 1) return `< ${unit(1, "second")}`;
  if (seconds < 90) return unit(Math.round(seconds), "second");
  if (seconds < 5400) return unit(Math.round(seconds / 60), "minute");
  return unit(seconds / 3600, "hour", 1);
}

const two = number({ minimumIntegerDigits: 2, useGrouping: false });
const three = number({ minimumIntegerDigits: 3, useGrouping: false });

/** Where a frame stands on the clock, to the millisecond. */
export function clock(frame, rate) {
  const milliseconds = Math.round((frame / (rate || 25)) * 1000);
  const minutes = Math.floor(milliseconds / 60000);
  const hours = Math.floor(minutes / 60);
  const seconds = `${two.format(Math.floor(milliseconds / 1000) % 60)}.${three.format(milliseconds % 1000)}`;
  return hours ? `${hours}:${two.format(minutes % 60)}:${seconds}` : `${minutes}:${seconds}`;
}

export function length(seconds) {
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const end = two.format(whole % 60);
  return hours ? `${hours}:${two.format(minutes)}:${end}` : `${minutes}:${end}`;
}

export const day = (text) => {
  const when = new Date(text);
  return Number.isNaN(when.valueOf())
    ? String(text)
    : new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" }).format(when);
};

export const firstSentence = (text) => text.split(/(?<=[.])\s/)[0];

export const plural = (n, one, many = `${one}s`) =>
  `${count(n)} ${new Intl.PluralRules("en").select(n) === "one" ? one : many}`;
