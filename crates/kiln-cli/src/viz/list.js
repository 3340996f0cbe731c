// A list of any length: only the rows that can be seen are elements.

import { h } from "./dom.js";

export class List {
  // options: {row(item, at) -> children, choose(item, at), height, kind(item) -> classes}
  constructor(label, options) {
    this.options = { height: 24, choose() {}, kind: () => "", ...options };
    this.items = [];
    this.chosen = -1;
    this.rows = h("div.rows");
    this.element = h("div.list", { tabindex: 0, role: "listbox", "aria-label": label,
      onscroll: () => this.draw(), onkeydown: (event) => this.key(event) }, this.rows);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  fill(items, chosen = -1) {
    this.items = items;
    this.rows.style.height = `${items.length * this.options.height}px`;
    this.mark(chosen);
  }

  // Marks a row and brings it into sight.
  mark(at) {
    this.chosen = at;
    const { height } = this.options;
    const { element } = this;
    if (at >= 0 && element.clientHeight > 0) {
      if (at * height < element.scrollTop) element.scrollTop = at * height - height;
      const below = (at + 2) * height - element.clientHeight;
      if (below > element.scrollTop) element.scrollTop = below;
    }
    this.draw();
  }

  draw() {
    const { height } = this.options;
    const first = Math.max(0, Math.floor(this.element.scrollTop / height) - 4);
    const last = Math.min(this.items.length, first + Math.ceil((this.element.clientHeight || 800) / height) + 8);
    const rows = [];
    for (let at = first; at < last; at++) rows.push(this.row(at));
    this.rows.replaceChildren(...rows);
  }

  row(at) {
    const item = this.items[at];
    const kind = `row ${this.options.kind(item)}${at === this.chosen ? " chosen" : ""}`;
    const row = h("div", { class: kind, role: "option", "aria-selected": String(at === this.chosen),
      "data-at": at, onclick: () => this.open(at) }, this.options.row(item, at));
    row.style.top = `${at * this.options.height}px`;
    row.style.height = `${this.options.height}px`;
    return row;
  }

  open(at) {
    if (at < 0 || at >= this.items.length) return;
    this.mark(at);
    this.options.choose(this.items[at], at);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.options.height) - 1);
    const last = this.items.length - 1;
    const to = { ArrowDown: this.chosen + 1, ArrowUp: this.chosen - 1, PageDown: Math.min(last, this.chosen + page),
      PageUp: Math.max(0, this.chosen - page), Home: 0, End: last, Enter: this.chosen }[event.key];
    if (to === undefined || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.open(to);
  }
}
