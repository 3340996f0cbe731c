// The page: reads the record, shows one view at a time, and keeps in the address what is shown, so that "back" works.

import { h, swap, table } from "./dom.js";
import { forgetPalette } from "./graph.js";
import { Model } from "./model.js";
import { Search } from "./search.js";
import { Program } from "./program.js";
import { Kernel } from "./kernel.js";
import { Decisions } from "./decisions.js";
import { Timeline } from "./timeline.js";
import { Rules } from "./rules.js";

const VIEWS = { program: ["Program", Program], kernel: ["Kernels", Kernel], decisions: ["Decisions", Decisions],
  timeline: ["Timeline", Timeline], rules: ["Rules", Rules] };

const KEYS = [["1 … 5", "program, kernels, decisions, timeline, rules"], ["/", "search everything"],
  ["← →", "in a kernel or schedule: the step before, the next step"], ["[ ]", "in a kernel: the pass before, the next pass"],
  ["↑ ↓ PgUp PgDn Home End", "in a list"], ["Enter", "open what is chosen; in machine code: the next instructions of the line"],
  ["Tab", "from list to list, and to the graph"], ["+ - 0", "in a graph or timeline: larger, smaller, all of it"],
  ["h j k l", "move a graph"], ["n p", "the next node of a graph, the one before"],
  ["g", "switch between the kinds of picture"], ["e", "open or close all groups"], ["b", "back"], ["t", "light or dark"],
  ["?", "this list"], ["Esc", "close"]];

const COLORS = [["data", "data, loads, scratch"], ["view", "views: reshape, permute, slice"], ["math", "arithmetic"],
  ["reduce", "reductions; kernels"], ["store", "stores, outputs"], ["loop", "loops: range, end"], ["constant", "numbers"],
  ["group", "what one line made"], ["copy", "copies between devices"]];
const MARKS = [["gone", "gone after this step"], ["new", "new"], ["carried", "the same with new sources"], ["hit", "of the chosen line or kernel"]];

function legend() {
  const chip = (kind, name, text) => h("span", { class: `tag ${kind}-${name}` }, text);
  return h("div.tags", {}, COLORS.map(([name, text]) => chip("kind", name, text)), MARKS.map(([name, text]) => chip("mark", name, text)));
}

class App {
  constructor(record, passes) {
    this.model = new Model(record, passes);
    this.views = {};
    this.search = new Search(this);
    this.header();
    addEventListener("hashchange", () => this.show());
    addEventListener("keydown", (event) => this.key(event));
    this.show();
  }

  header() {
    const { record } = this.model;
    this.tabs = Object.entries(VIEWS).map(([name, [title]], at) =>
      h("button", { type: "button", "data-view": name, onclick: () => this.go(name) }, title, h("kbd", {}, String(at + 1))));
    document.getElementById("tabs").append(...this.tabs);
    const missing = record.is_full ? " · the record is cut (VIZ_MB)" : "";
    const damaged = record.damaged > 0 ? ` · ${record.damaged} damaged lines` : "";
    const device = record.devices[0]?.backend ?? "";
    document.getElementById("program").textContent =
      `${record.program.split("/").at(-1)} · ${device} · ${record.nodes.length} nodes${missing}${damaged}`;
    document.getElementById("program").title = record.program;
    document.getElementById("search-open").addEventListener("click", () => this.search.open());
    document.getElementById("help-open").addEventListener("click", () => this.help());
    document.getElementById("theme").addEventListener("click", () => this.theme());
  }

  // Shows a view: what to show is in the address. Missing values are left as they are in that view. People count schedules
  // from 1, so the address does.
  go(view, params = {}) {
    const given = Object.entries(params).filter(([, value]) => value != null);
    const text = new URLSearchParams(given.map(([key, value]) => [key, key === "s" ? Number(value) + 1 : value])).toString();
    const address = `#${view}${text ? `?${text}` : ""}`;
    if (address === location.hash) this.show();
    else location.hash = address;
  }

  // Puts values into the address without showing anything anew.
  keep(params) {
    const [name, text] = location.hash.slice(1).split(/\?(.*)/s);
    const all = new URLSearchParams(text ?? "");
    for (const [key, value] of Object.entries(params)) {
      if (value == null) all.delete(key);
      else all.set(key, String(value));
    }
    history.replaceState(null, "", `#${name || "program"}?${all}`);
  }

  show() {
    const [name, text] = location.hash.slice(1).split(/\?(.*)/s);
    const view = VIEWS[name] ? name : "program";
    this.views[view] ??= new VIEWS[view][1](this);
    this.current = this.views[view];
    swap(document.getElementById("view"), this.current.element);
    for (const tab of this.tabs) {
      if (tab.dataset.view === view) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    document.title = `kiln: ${VIEWS[view][0]}`;
    const params = new URLSearchParams(text ?? "");
    if (params.has("s")) params.set("s", Math.max(1, Number(params.get("s"))) - 1);
    this.current.show(params);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && this.sheet) return this.close();
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || this.sheet) return;
    const view = Object.keys(VIEWS)[Number(event.key) - 1];
    const acts = { "/": () => this.search.open(), "?": () => this.help(), t: () => this.theme(), b: () => history.back() };
    if (view) this.go(view);
    else if (acts[event.key]) acts[event.key]();
    else if (!this.current.key?.(event.key)) return;
    event.preventDefault();
  }

  // A sheet over the page.
  cover(sheet) {
    this.close();
    const overlay = h("div.overlay", { onclick: (event) => event.target === overlay && this.close() }, sheet);
    this.sheet = overlay;
    this.before = document.activeElement;
    document.body.append(overlay);
  }

  close() {
    this.sheet?.remove();
    this.sheet = null;
    this.before?.focus?.();
  }

  help() {
    const close = h("button", { type: "button", onclick: () => this.close() }, "Close");
    const rows = KEYS.map(([keys, what]) => [h("kbd", {}, keys), what]);
    this.cover(h("div.sheet.help", { role: "dialog", "aria-label": "Keys" }, h("h2", {}, "Keys"),
      table(["key", "what it does"], rows), h("h2", {}, "Colors"), legend(), h("p", {}, close)));
    close.focus();
  }

  theme() {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    forgetPalette();
    this.current.redraw?.();
  }
}

async function json(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

async function start() {
  const view = document.getElementById("view");
  try {
    const [record, passes] = await Promise.all(["/record", "/passes"].map(json));
    window.kiln = new App(record, passes);
  } catch (why) {
    view.replaceChildren(h("p.empty", {}, `the record cannot be shown: ${why.message}`));
    throw why;
  }
}

start();
