// Lines of source files, as far as the server has the file.

import { h } from "./dom.js";

const asked = new Map();

// A promise of the text of a file, or of null.
export function fileText(file) {
  if (!asked.has(file)) {
    const text = fetch(`/source?${new URLSearchParams({ file })}`).then((answer) => (answer.ok ? answer.text() : null));
    asked.set(file, text.catch(() => null));
  }
  return asked.get(file);
}

// The text of one line, without its indentation.
export async function lineText(file, line) {
  const text = await fileText(file);
  return text === null ? null : (text.split("\n")[line - 1] ?? "").trim();
}

// Some lines around one, which fill themselves in.
export function sample(file, line, around = 3) {
  const element = h("div.sample", {}, h("p.dim", {}, "…"));
  fileText(file).then((text) => {
    if (text === null) return element.remove();
    const lines = text.split("\n");
    const first = Math.max(1, line - around);
    const shown = lines.slice(first - 1, line + around).map((each, at) => h(first + at === line ? "span.here" : "span", {},
      h("span.number", {}, String(first + at)), each || " "));
    element.replaceChildren(h("pre", {}, shown));
  });
  return element;
}
