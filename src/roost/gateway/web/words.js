// Figures as people read them. Pure.

/** A count: 950, 12.3k, 4.5M; a dash where nobody knows. */
export function count(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value < 10_000) return String(Math.round(value * 10) / 10);
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 100_000 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

/** Bytes in powers of 1024. */
export function bytes(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let rest = value;
  let unit = 0;
  while (rest >= 1024 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${unit === 0 || rest >= 100 ? Math.round(rest) : rest.toFixed(1)} ${units[unit]}`;
}

/** A length of time in its two largest units. */
export function seconds(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value < 10) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/** When something was, seen from `now`; both in milliseconds since 1970. */
export function ago(then, now) {
  const past = Math.max(0, now - then) / 1000;
  if (past < 60) return "just now";
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  if (past < 86_400) return `${Math.floor(past / 3600)} h ago`;
  return past < 172_800 ? "yesterday" : `${Math.floor(past / 86_400)} days ago`;
}

/** Tokens per second. */
export function rate(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return `${value < 100 ? value.toFixed(1) : Math.round(value)} tok/s`;
}

/** One of something, or several: "1 token", "3 tokens". */
export function several(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A share of a whole as 0 to 100; null where one of them is not known. */
export function percent(part, whole) {
  if (part === null || part === undefined || !whole) return null;
  return Math.min(100, Math.max(0, Math.round((100 * part) / whole)));
}
