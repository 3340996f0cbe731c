// Search over everything: lines, kernels, nodes, rules, decisions, sources.

import { h } from "./dom.js";
import { cut, time } from "./format.js";
import { List } from "./list.js";
import { opOf } from "./nodes.js";
import { fitAll } from "./words.js";

const [MOST, MOST_OF_OP] = [40, 6];

export class Search {
  constructor(app) {
    this.app = app;
    this.model = app.model;
    this.input = h("input", { type: "search", placeholder: "lines, kernels, nodes, rules, decisions, sources", "aria-label": "Search",
      oninput: () => this.find(), onkeydown: (event) => this.key(event) });
    this.list = new List("Found", { height: 26, kind: (item) => (item.go ? "" : "head"), row: (item) => this.row(item),
      choose: (item) => this.enter(item) });
    this.sheet = h("div.sheet", { role: "dialog", "aria-label": "Search" }, this.input, this.list.element);
  }

  open() {
    this.app.cover(this.sheet);
    this.input.select();
    this.input.focus();
    this.find();
  }

  row(item) {
    if (!item.go) return [item.text];
    return [h("span.grow", { title: item.text }, item.text), h("span.right", {}, item.note ?? "")];
  }

  key(event) {
    if (event.key === "Escape") return;
    const { chosen, items } = this.list;
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) {
      let at = chosen + by;
      while (items[at] && !items[at].go) at += by;
      if (items[at]) this.list.mark(at);
      event.preventDefault();
    } else if (event.key === "Enter" && items[chosen]) this.enter(items[chosen]);
  }

  enter(item) {
    if (!item.go) return;
    this.app.close();
    item.go();
  }

  find() {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (text) => words.every((word) => text.toLowerCase().includes(word));
    const items = [];
    for (const [title, found] of this.groups(has, words)) {
      if (found.length === 0) continue;
      items.push({ text: `${title}${found.length >= MOST ? `, the first ${MOST}` : ""}` }, ...found);
    }
    this.list.fill(items, items.findIndex((item) => item.go));
  }

  groups(has, words) {
    const { app, model } = this;
    const { program } = app.views;
    const taken = (all, test, item) => {
      const found = [];
      for (const each of all) {
        if (found.length >= MOST) break;
        if (test(each)) found.push(item(each));
      }
      return found;
    };
    const text = (line) => `${line.key} ${[...line.methods].join(" ")} ${program?.texts.get(line.key) ?? ""}`;
    const lines = taken(model.lines, (line) => has(text(line)), (line) => ({ text: text(line), note: "line",
      go: () => app.go("program", { line: line.key }) }));
    const kernels = taken(model.kernels, (k) => has(`${k.name} ${[...k.makers].join(" ")}`), (k) => ({
      text: `${k.name}  ${[...k.makers].map((m) => m.split(" ")[0]).join(", ")}`, note: time(k.took), go: () => app.go("kernel", { k: k.at }) }));
    const rules = taken(model.rules, (rule) => has(rule.key), (rule) => ({ text: rule.key, note: `${rule.fired.length} fired`,
      go: () => app.go("rules", { rule: rule.key }) }));
    if (words.length === 0) return [["Lines", lines], ["Kernels", kernels], ["Rules", rules]];
    return [["Lines", lines], ["Kernels", kernels], ["Rules", rules], ["Decisions", this.decisions(has, taken)],
      ["Sources", this.sources(has, taken)], ["Nodes", this.nodes(words)]];
  }

  decisions(has, taken) {
    const all = this.model.schedules.flatMap((s) => this.model.decisions(s.steps).map((d) => ({ ...d, s: s.at })));
    return taken(all, (d) => has(`${d.about} ${d.note}`), (d) => ({ text: d.about, note: d.alternatives[d.chosen][0],
      go: () => this.app.go("decisions", { s: d.s, d: d.step }) }));
  }

  // The first line of each source that has the words.
  sources(has, taken) {
    const hit = (kernel) => kernel.compiled?.source.split("\n").find(has);
    return taken(this.model.kernels, hit, (kernel) => ({ text: cut(hit(kernel).trim(), 110), note: kernel.name,
      go: () => this.app.go("kernel", { k: kernel.at, tab: "source" }) }));
  }

  // Nodes that fit best first: those that a method of the name made, then what contains the words, then what they stand for.
  nodes(words) {
    const found = [[], [], []];
    const ofOp = new Map();
    for (const node of this.model.nodes) {
      const rank = fitAll(node, words);
      if (rank === null || found[rank].length >= MOST) continue;
      const key = `${rank} ${opOf(node)}`;
      ofOp.set(key, (ofOp.get(key) ?? 0) + 1);
      // of each op that a word stands for, some
      if (rank < 2 || ofOp.get(key) <= MOST_OF_OP) found[rank].push(node);
    }
    return found.flatMap((nodes, rank) => nodes.map((node) => ({ text: `%${node.id} ${node.label}`, go: () => this.node(node.id),
      note: node.by ? node.by.split("/").at(-1) : rank === 2 ? `as in ${words.join(" ")}` : "" }))).slice(0, MOST);
  }

  // Where a node is: in a schedule's graph, or in a pass of a kernel or a schedule.
  node(id) {
    const { app, model } = this;
    const within = (roots) => roots.length > 0 && model.below(roots).includes(id);
    const schedule = model.schedules.find((s) => within(s.roots));
    if (schedule) return app.go("program", { s: schedule.at, mode: "tensors", node: id });
    const isOf = (s) => (s.kind === "pass" && within(s.after)) || (s.kind === "rewrite" && within([s.before, s.after]));
    for (const kernel of model.kernels) {
      const step = kernel.steps.findIndex(isOf);
      if (step >= 0) return app.go("kernel", { k: kernel.at, step });
    }
    for (const each of model.schedules) {
      const step = each.steps.findIndex(isOf);
      if (step >= 0) return app.go("program", { s: each.at, mode: "passes", step });
    }
  }
}
