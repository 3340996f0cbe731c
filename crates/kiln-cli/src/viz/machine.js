// Machine code beside the text that it was compiled from: what is chosen in one marks what belongs to it in the other.

import { h } from "./dom.js";
import { List } from "./list.js";

export class Machine {
  constructor() {
    const right = (text) => h("span.right", {}, text);
    this.source = this.list("Source", (item) => [right(String(item.line)), h("span.grow", { title: item.text }, item.text), right(String(item.count || ""))],
      (item) => (item.count > 0 ? "" : "quiet"));
    this.code = this.list("Machine code", (item) => [right(item.begins ? String(item.line ?? "") : ""), item.text],
      (item) => (item.odd ? "odd" : ""));
    this.element = h("div.columns", {}, this.source.element, this.code.element);
    this.line = this.near = null;
  }

  // Classes of a row come from its item, so that rows which scroll into sight have them too.
  list(label, row, kind) {
    const list = new List(label, { height: 19, row, choose: (item) => this.choose(list, item),
      kind: (item) => `${kind(item)}${this.is(item, this.line) ? " same" : ""}${this.is(item, this.near) ? " near" : ""}` });
    list.element.classList.add("code");
    list.element.addEventListener("mouseover", (event) => this.hover(list.items[event.target.closest(".row")?.dataset.at]?.line ?? null));
    list.element.addEventListener("mouseleave", () => this.hover(null));
    return list;
  }

  is(item, line) {
    return line !== null && item.line === line;
  }

  // Shows a kernel. Instructions of one line in a row are a group, whose first has the number of the line.
  fill(compiled) {
    if (this.compiled === compiled) return;
    this.compiled = compiled;
    this.line = this.near = null;
    const counts = new Map();
    let odd = false;
    const code = compiled.lines.map((line, at) => {
      const begins = at === 0 || line !== compiled.lines[at - 1];
      if (begins) odd = !odd;
      counts.set(line, (counts.get(line) ?? 0) + 1);
      return { line, begins, odd };
    });
    compiled.code.trimEnd().split("\n").forEach((text, at) => Object.assign(code[at] ??= { line: null }, { text }));
    this.source.fill(compiled.source.trimEnd().split("\n").map((text, at) => ({ text, line: at + 1, count: counts.get(at + 1) ?? 0 })));
    this.code.fill(code);
  }

  // Choosing a line again goes on to its next group.
  choose(list, item) {
    const after = item.line === this.line ? this.code.chosen : -1;
    this.line = item.line;
    const starts = this.code.items.flatMap((other, at) => (other.begins && this.is(other, this.line) ? [at] : []));
    if (list === this.source) this.code.mark(starts.find((at) => at > after) ?? starts[0] ?? -1);
    else this.source.mark(item.line === null ? -1 : item.line - 1);
    list.draw();
  }

  // Rows stay the elements that they are: the mouse is on one of them.
  hover(line) {
    if (line === this.near) return;
    this.near = line;
    for (const list of [this.source, this.code]) {
      for (const row of list.rows.children) row.classList.toggle("near", this.is(list.items[row.dataset.at], line));
    }
  }
}
