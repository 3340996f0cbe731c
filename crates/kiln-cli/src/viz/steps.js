// The steps of the compiler, forwards and backwards: passes, rewrites and decisions, with the graph before and after.

import { h, link, swap, switcher } from "./dom.js";
import { counted, price } from "./format.js";
import { Graph } from "./graph.js";
import { List } from "./list.js";
import { difference, formula, picture, opOf } from "./nodes.js";
import { nestElement } from "./nest.js";
import { life } from "./life.js";
import { rowsOf } from "./rows.js";
import { sample } from "./source.js";

const MODES = [["both", "Both", "what is gone and what is new"], ["before", "Before"], ["after", "After"],
  ["loops", "Loops", "the loop nest after the step"], ["text", "Text", "the graph as text"]];

export class Steps {
  constructor(app, go) {
    this.app = app;
    this.model = app.model;
    this.go = go;
    this.mode = "both";
    this.list = new List("Steps of the compiler", { height: 23, row: (row) => this.row(row), kind: (row) => this.kind(row),
      choose: (row) => this.go(row.step) });
    this.graph = new Graph("Graph of the step", { choose: (at) => this.pick(at) });
    this.text = new List("Graph as text", { height: 19, row: (line) => [h("span.right", {}, line.mark), line.text],
      kind: (line) => line.kind });
    this.text.element.classList.add("code");
    this.about = h("div.step");
    this.tools = h("header");
    this.stage = h("div.fill");
    this.panel = h("div.step.node", { hidden: true, "aria-label": "The node" });
    this.element = h("div.columns", {}, h("section.pane", {}, h("header", {}, h("h2", {}, "Steps"),
      this.only = h("span.facts")), this.list.element),
    h("section.pane.wide", {}, this.tools, this.about, this.stage, this.panel));
    this.element.children[0].style.width = "250px";
  }

  // Rows: each pass, and under it the rewrites and decisions that led to it. `options` are those of the kernel, `node` is one
  // of the graph that is told about, `owner` is whose steps they are: {schedule: 3} or {kernel: 2}.
  show(name, steps, at, { owner, options = [], node = null }) {
    this.owner = owner;
    this.options = options;
    this.node = node;
    if (name !== this.name) {
      this.name = name;
      this.rows = rowsOf(steps);
      this.steps = steps;
      this.list.fill(this.rows);
      this.only.textContent = `${this.rows.filter((r) => r.kind === "pass").length} passes, ` +
        `${this.rows.filter((r) => r.kind === "rewrite").length} rewrites`;
    }
    this.panel.hidden = true;
    if (this.rows.length === 0) return this.nothing();
    this.at = Math.max(0, this.rows.findIndex((row) => row.step >= at));
    this.list.mark(this.at);
    this.draw();
  }

  nothing() {
    this.about.replaceChildren();
    this.tools.replaceChildren();
    this.stage.replaceChildren(h("p.empty", {}, "No steps are recorded. It was scheduled or compiled before the record began, or a line asked for many like it: " +
      "of these the first three have their steps."));
  }

  row(row) {
    if (row.kind === "rewrite") {
      const { nodes } = this.model;
      const became = `${formula(nodes, row.of.before, 60)} → ${formula(nodes, row.of.after, 60)}`;
      return [h("span", {}, row.of.rule), h("span.grow.sub.mono", { title: became }, became)];
    }
    if (row.kind === "decision") return [h("span.dot.on"), h("span.grow", {}, row.of.about)];
    return [h(`span.dot${row.changes ? ".on" : ""}`), h("b", {}, row.of.pass), h("span.right", {}, row.of.stage)];
  }

  kind(row) {
    return row.kind === "pass" ? (row.changes ? "" : "quiet") : "inner";
  }

  key(key) {
    if (!this.rows?.length) return false;
    const isPass = (row) => row.kind === "pass";
    const to = { ArrowRight: this.at + 1, ArrowLeft: this.at - 1,
      "]": this.rows.findIndex((row, at) => at > this.at && isPass(row)),
      "[": this.rows.findLastIndex((row, at) => at < this.at && isPass(row)) }[key];
    if (to !== undefined) {
      if (this.rows[to]) this.go(this.rows[to].step);
      return true;
    }
    if (key !== "g") return false;
    const names = MODES.map(([name]) => name);
    this.mode = names[(names.indexOf(this.mode) + 1) % names.length];
    this.draw();
    return true;
  }

  redraw() {
    this.graph.draw();
  }

  draw() {
    const row = this.rows[this.at];
    const modes = row.kind === "decision" ? [] : MODES;
    this.tools.replaceChildren(switcher(modes, this.mode, (mode) => {
      this.mode = mode;
      this.draw();
    }), h("span.facts", {}, `step ${this.at + 1} of ${this.rows.length}`), h("span.dim", {}, h("kbd", {}, "←"), " ", h("kbd", {}, "→")));
    const about = { pass: tellPass, rewrite: tellRewrite, decision: tellDecision }[row.kind];
    if (row.kind === "decision") {
      this.about.replaceChildren(...about(this, row));
      return this.stage.replaceChildren();
    }
    const [before, after] = row.kind === "pass" ? [row.of.before, row.of.after] : [[row.of.before], [row.of.after]];
    const change = difference(this.model, before, after);
    this.about.replaceChildren(...about(this, row, change));
    this.picture(row, change, before, after);
    if (this.node !== null && this.model.nodes[this.node]) this.tell(this.node);
  }

  picture(row, change, before, after) {
    if (this.mode === "loops") {
      const whole = row.kind === "pass" ? after : row.within;
      const nest = nestElement(this.model, whole, () => {});
      return this.stage.replaceChildren(h("div.body", {}, nest));
    }
    if (this.mode === "text") {
      swap(this.stage, this.text.element);
      return this.text.fill(textOf(this.model, change, after));
    }
    swap(this.stage, this.graph.element);
    const ids = { both: change.all, before: change.old, after: change.now }[this.mode];
    // a rule that works on indices is seen among indices
    const folds = row.kind === "pass" && ids.length > 24;
    const marks = folds ? foldable(this.model, change.marks) : change.marks;
    const twins = this.mode === "both" ? change.twins : undefined;
    this.shown = picture(this.model, ids, { marks, folds, twins });
    this.graph.show({ ...this.shown, name: `${this.name} ${this.mode} ${row.step}` });
    const at = this.node === null ? -1 : this.shown.at(this.node);
    if (at >= 0) this.graph.reveal(at);
  }

  // The address keeps what is chosen; the picture stays as it is.
  pick(at) {
    const { id } = this.shown.items[at];
    this.graph.mark(at);
    this.tell(id);
    this.app.keep({ node: id });
  }

  // A node: where it comes from, and what it becomes in this pass and in later ones.
  async tell(id) {
    this.node = id;
    const node = this.model.nodes[id];
    const { rows, owner } = this;
    const { comesFrom, becomes } = await life(owner, rows, passAt(rows, this.at), id);
    if (this.node !== id || this.rows !== rows) return;
    const close = h("button.link", { type: "button", onclick: () => (this.panel.hidden = true) }, "close");
    this.panel.hidden = false;
    this.panel.replaceChildren(h("div", {}, h("b.mono", {}, `%${id} ${node.label}`), node.by ? ` by ${node.by} ` : " ", close),
      h("div.mono.dim", {}, formula(this.model.nodes, id, 160)),
      ...changesElements(this.model, comesFrom, "Comes from", this.go),
      ...changesElements(this.model, becomes, "Becomes", this.go));
  }
}

// The row of the pass that a row belongs to.
function passAt(rows, at) {
  return rows.findLastIndex((row, i) => i <= at && row.kind === "pass");
}

// Lines such as "Becomes %7 add f32 in lower / expand by rule sum (rules/sum.rs:3)". `go(step, node)` leads there.
export function changesElements(model, changes, verb, go) {
  const name = (id) => `%${id} ${model.nodes[id].label}`;
  return changes.map(({ pass, step, how, rules, to, gone }) => h("div", {}, `${verb} `,
    to === null ? h("b", {}, gone) : link(name(to), () => go(step, to), formula(model.nodes, to, 200)),
    h("span.dim", {}, ` in ${pass}, ${HOWS[how]}`),
    ...rules.map((r) => h("span", {}, r === rules[0] ? " by " : ", ", link(r.rule, () => go(r.step, r.before), `${r.file}:${r.line}`),
      h("span.dim", {}, ` (${r.file.split("/").at(-1)}:${r.line})`)))));
}

const HOWS = { rule: "rewritten", sources: "the same over new sources", place: "which stands in its place", gone: "where it is no more",
  made: "where it is made" };

// Indices that changed stay inside of their users, which changed too.
function foldable(model, marks) {
  return new Map([...marks].filter(([id]) => !/ index/.test(model.nodes[id].label) || opOf(model.nodes[id]) === "range"));
}

function tellPass(view, row, change) {
  const { of } = row;
  const count = (mark) => [...change.marks.values()].filter((m) => m === mark).length;
  const carried = count("carried") > 0 ? ` · ${count("carried")} with new sources` : "";
  const said = row.changes ? `${count("gone")} gone · ${count("new")} new${carried} · ${counted(change.now.length, "node")}`
    : `changes nothing here · ${counted(change.now.length, "node")}`;
  const leaves = view.model.leaves.get(`${of.stage} ${of.pass}`);
  return [h("div", {}, h("b", {}, `${of.stage} / ${of.pass}`), ` · ${said}`), leaves ? h("div.dim", {}, `Module ${of.stage}::${of.pass} of kiln-compile. After it: ${leaves}`) : "",
    of.pass === "choose" || of.pass === "options" ? h("div.tags", {}, view.options.map((o) => h("span.tag.mono", {}, o))) : ""];
}

function tellRewrite(view, row, change) {
  const { rule, file, line, before, after } = row.of;
  const { nodes } = view.model;
  const gone = [...change.marks.values()].filter((m) => m === "gone").length;
  const rules = () => view.app.go("rules", { rule: `${rule} ${file}:${line}` });
  return [h("div", {}, h("b", {}, link(rule, rules, "all uses of this rule")), " ", h("span.dim", {}, `${file}:${line}`),
    ` in set ${row.set ?? "?"}${gone === 0 ? "" : `, ${counted(gone, "node")} gone`}`),
  h("div.before", {}, formula(nodes, before)), h("div.after", {}, formula(nodes, after)), sample(file, line, 1)];
}

function tellDecision(view, row) {
  return [decisionElement(row.of)];
}

// A decision with the prices of what was not taken.
export function decisionElement(of) {
  const rows = of.alternatives.map(([name, value], at) =>
    h(at === of.chosen ? "p.chosen-price" : "p", {}, `${at === of.chosen ? "✓" : "·"} ${name}${value == null ? "" : `: ${price(value, of.unit)}`}`));
  return h("div", {}, h("b", {}, of.about), rows, of.note ? h("p.dim", {}, of.note) : null);
}

// The graph as text, sources first. Lines that are gone stand before those that are new.
function textOf(model, change, after) {
  const isList = after.length > 1 && after.length >= change.now.length * 0.5;
  const ids = isList ? after : change.now;
  const gone = change.old.filter((id) => change.marks.get(id) === "gone");
  // A linear program has no node that says only when a value is there: its order says so. Then the value is named.
  const listed = new Set(isList ? ids : []);
  const valueOf = (id) => {
    const { sources } = model.nodes[id];
    return isList && !listed.has(id) && opOf(model.nodes[id]) === "after" && sources.length > 0 ? valueOf(sources[0]) : id;
  };
  const line = (id, indent) => {
    const node = model.nodes[id];
    const mark = change.marks.get(id);
    const sources = node.sources.map(valueOf).map((source) => {
      const label = model.nodes[source].label;
      return /^[-0-9]/.test(label) && !label.includes(" ") ? label : `%${source}`;
    });
    const by = node.by ? `   — ${node.by}` : "";
    return { kind: mark ?? "", mark: mark === "gone" ? "−" : mark === "new" ? "+" : "",
      text: `${"  ".repeat(indent)}%${id} = ${node.label} ${sources.join(" ")}${by}` };
  };
  let deep = 0;
  const lines = Array.from(ids, (id) => {
    const op = opOf(model.nodes[id]);
    if (isList && op === "end") deep = Math.max(0, deep - 1);
    const text = line(id, isList ? deep : 0);
    if (isList && op === "range") deep++;
    return text;
  });
  return [...Array.from(gone, (id) => line(id, 0)), ...lines];
}
