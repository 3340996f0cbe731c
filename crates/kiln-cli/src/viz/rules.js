// Rules: how often each fired, where, and what it costs where that is recorded.

import { h, switcher, table } from "./dom.js";
import { count, time } from "./format.js";
import { List } from "./list.js";
import { formula } from "./nodes.js";
import { sample } from "./source.js";

// Orders of the list, each with what it says.
const fired = (rule) => rule.total ?? rule.fired.length;
const SORTS = { count: ["how often it fired", (a, b) => fired(b) - fired(a) || (b.tried ?? 0) - (a.tried ?? 0)],
  time: ["microseconds in all attempts", (a, b) => (b.took ?? 0) - (a.took ?? 0)],
  name: ["its name", (a, b) => a.key.localeCompare(b.key)] };

export class Rules {
  constructor(app) {
    this.app = app;
    this.model = app.model;
    this.filter = h("input", { type: "search", placeholder: "filter", "aria-label": "Filter rules", oninput: () => this.fill() });
    this.list = new List("Rules", { height: 40, kind: () => "two", row: (rule) => this.row(rule),
      choose: (rule) => app.go("rules", { rule: rule.key, sort: this.sort }) });
    this.uses = new List("Uses of the rule", { height: 42, kind: () => "two", row: (use) => this.use(use),
      choose: (use) => this.enter(use) });
    this.side = h("div.step");
    this.sort = "count";
    this.sorts = h("span");
    this.element = h("div.columns", {}, h("section.pane", {}, h("header", {}, h("h2", {}, "Rules"), this.filter, this.sorts,
      this.facts = h("span.facts")), this.list.element),
    h("section.pane.wide", {}, this.side, this.uses.element));
    this.element.children[0].style.width = "420px";
    this.fill();
  }

  fill() {
    const wanted = this.filter.value.toLowerCase();
    this.shown = this.model.rules.filter((rule) => rule.key.toLowerCase().includes(wanted)).sort(SORTS[this.sort][1]);
    this.sorts.replaceChildren(switcher(Object.entries(SORTS).map(([name, [title]]) => [name, name, title]), this.sort,
      (sort) => this.app.go("rules", { rule: this.rule?.key, sort })));
    this.list.fill(this.shown, this.shown.indexOf(this.rule));
    const fired = this.model.rules.reduce((sum, rule) => sum + rule.fired.length, 0);
    this.facts.textContent = `${this.model.rules.length} rules, ${fired} rewrites`;
  }

  row(rule) {
    const tried = rule.tried == null ? "" : ` of ${count(rule.tried)} tried, ${time(rule.took)}`;
    return [h("div.top", {}, h("b.grow", {}, rule.rule), h("span.right", {}, `${count(rule.total ?? rule.fired.length)} fired${tried}`)),
      h("div.sub", {}, `${rule.file}:${rule.line}`)];
  }

  show(params) {
    const key = params.get("rule");
    const sort = params.get("sort") ?? this.sort;
    if (Object.hasOwn(SORTS, sort) && sort !== this.sort) {
      this.sort = sort;
      this.fill();
    }
    this.rule = this.model.rules.find((rule) => rule.key === key) ?? this.rule ?? this.model.rules[0];
    if (!this.rule) return this.side.replaceChildren(h("p.empty", {}, "no rule fired in this run"));
    if (!this.shown.includes(this.rule)) {
      this.filter.value = "";
      this.fill();
    }
    this.list.mark(this.shown.indexOf(this.rule));
    const { rule, file, line, fired } = this.rule;
    const owners = new Map();
    for (const use of fired) {
      const owner = use.kernel ?? use.schedule;
      owners.set(owner, (owners.get(owner) ?? 0) + 1);
    }
    const most = [...owners].sort((a, b) => b[1] - a[1]).slice(0, 4);
    this.side.replaceChildren(h("div", {}, h("b", {}, rule), " ", h("span.dim", {}, `${file}:${line}`), ` · ${fired.length} rewrites in the record`),
      sample(file, line, 2), table(["where", "#rewrites"], most.map(([owner, times]) => [nameOf(owner), String(times)])));
    this.uses.fill(fired);
  }

  use({ kernel, schedule, step }) {
    const { nodes } = this.model;
    const { before, after } = (kernel ?? schedule).steps[step];
    return [h("div.top", {}, h("span.grow.mono", {}, `${formula(nodes, before, 140)}`), h("span.right", {}, nameOf(kernel ?? schedule))),
      h("div.sub.mono", {}, `→ ${formula(nodes, after, 140)}`)];
  }

  enter({ kernel, schedule, step }) {
    if (kernel) this.app.go("kernel", { k: kernel.at, step });
    else this.app.go("program", { s: schedule.at, mode: "passes", step });
  }

  redraw() {}
}

function nameOf(owner) {
  return owner.name ?? `schedule ${owner.at + 1}`;
}
