// Numbers for people.

export function time(us) {
  if (us == null) return "";
  if (us >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
  if (us >= 1e3) return `${(us / 1e3).toFixed(2)} ms`;
  return `${us.toFixed(us < 10 ? 2 : 1)} µs`;
}

export function size(bytes) {
  if (bytes == null) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (bytes >= 1000 && at < units.length - 1) [bytes, at] = [bytes / 1000, at + 1];
  return `${at === 0 ? bytes : bytes.toFixed(bytes < 10 ? 2 : 1)} ${units[at]}`;
}

export function count(number) {
  if (number >= 1e9) return `${(number / 1e9).toFixed(2)} G`;
  if (number >= 1e6) return `${(number / 1e6).toFixed(2)} M`;
  if (number >= 1e4) return `${(number / 1e3).toFixed(1)} k`;
  return String(Math.round(number));
}

// Such as "1 node" and "3 nodes".
export function counted(number, what) {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

export function share(part, whole) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "";
}

export function price(value, unit) {
  if (value == null) return "";
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 3;
  return `${value.toFixed(digits)} ${unit}`;
}

// The last parts of a path; paths of crates are long.
export function short(place) {
  const parts = place.split("/");
  return parts.length > 3 ? `…/${parts.slice(-2).join("/")}` : place;
}

export function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
