// Numbers, sizes and moments as people read them; the same words as the command line's.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const percent = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));

/** A number that has little room. */
export const compact = (value) => (Math.abs(value) < 100_000 ? whole.format(value) : short.format(value));

export function count(value, noun) {
  return `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let power = 0;
  let scaled = value;
  while (scaled >= 999.5 && power < UNITS.length - 1) {
    scaled /= 1000;
    power += 1;
  }
  return `${scaled < 99.95 && power ? tenth.format(scaled) : whole.format(scaled)} ${UNITS[power]}`;
}

/** A share; what is nearly everything is not called everything. */
export function share(value) {
  if (value > 0 && value < 0.001) return "less than 0.1%";
  if (value < 1 && value > 0.999) return "more than 99.9%";
  return percent.format(value);
}

export const perSecond = (value, what) => (value === null ? "–" : `${tenth.format(value)}${what && ` ${what}`}/s`);

/** A moment in UTC, to the second. */
export function moment(text) {
  return text ? `${new Date(text).toISOString().slice(0, 19).replace("T", " ")}Z` : "–";
}

/** A moment as an axis has room for it: days where the axis spans days, else the clock. */
export function tick(time, span) {
  const iso = new Date(time).toISOString();
  const day = `${Number(iso.slice(8, 10))} ${MONTHS[Number(iso.slice(5, 7)) - 1]}`;
  if (span > 300 * 86_400_000) return `${MONTHS[Number(iso.slice(5, 7)) - 1]} ${iso.slice(0, 4)}`;
  if (span > 3 * 86_400_000) return day;
  if (span > 86_400_000) return `${day} ${iso.slice(11, 16)}`;
  return span > 600_000 ? iso.slice(11, 16) : span > 5_000 ? iso.slice(11, 19) : iso.slice(14, 23);
}

export function ago(text, now = Date.now()) {
  const seconds = Math.max(0, (now - new Date(text)) / 1000);
  for (const [unit, length] of [["d", 86_400], ["h", 3_600], ["min", 60]]) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit} ago`;
  }
  return seconds < 5 ? "just now" : `${Math.floor(seconds)} s ago`;
}
