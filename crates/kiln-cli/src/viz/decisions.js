// Decisions: what was stored or computed where it is used, with the prices; and why two kernels are not one.

import { h, link, table } from "./dom.js";
import { cut, price, short } from "./format.js";
import { largest, maker } from "./model.js";
import { sample } from "./source.js";
import { decisionElement } from "./steps.js";
import { explainPair } from "./pair.js";

export class Decisions {
  constructor(app) {
    this.app = app;
    this.model = app.model;
    this.all = grouped(this.model);
    this.list = h("div.body");
    this.side = h("div.body");
    this.pick = h("div.step");
    this.element = h("div.columns", {},
      h("section.pane.wide", {}, h("header", {}, h("h2", {}, "What was decided"),
        this.filter = h("input", { type: "search", placeholder: "filter by operation or line", "aria-label": "Filter",
          oninput: () => this.fill() }), this.facts = h("span.facts")), this.list),
      h("section.pane", {}, h("header", {}, h("h2", {}, "Why are two kernels not one?")), this.pick, this.side));
    this.element.children[1].style.width = "430px";
  }

  show(params) {
    const [s, d] = [params.get("s"), params.get("d")];
    const withKernels = this.model.schedules.filter((each) => each.kernels.length > 1);
    const most = largest(withKernels) ?? this.model.schedules[0];
    this.schedule = this.model.schedules[Number(s ?? most?.at ?? 0)] ?? null;
    this.pair = [params.get("a"), params.get("b")].map((at) => (at === null ? null : Number(at)));
    this.chosen = d === null ? null : this.all.find((x) => x.rows.some((row) => row.schedule === this.schedule && row.of.step === Number(d)));
    this.fill();
    this.choose();
  }

  fill() {
    const wanted = this.filter.value.toLowerCase();
    const shown = this.all.filter(({ of }) => of.about.toLowerCase().includes(wanted));
    shown.sort((a, b) => (b.of === this.chosen?.of) - (a.of === this.chosen?.of) || gap(b.of) - gap(a.of));
    this.facts.textContent = `${shown.length} decisions`;
    const row = ({ of, schedule, rows }) => ({ chosen: of === this.chosen?.of,
      open: () => this.app.go("decisions", { s: schedule.at, d: of.step }),
      cells: [aboutElement(of.about), ...priceCells(of), of.note, rows.length > 1 ? `${schedule.at + 1}, and ${rows.length - 1} more` : String(schedule.at + 1)] });
    const rows = shown.slice(0, 400).map(row);
    const chosen = this.chosen ? [this.detail(this.chosen)] : [];
    this.list.replaceChildren(...chosen, table(["value", "taken", "#its price", "else", "#its price", "note", "#schedule"], rows));
    if (shown.length > 400) this.list.append(h("p.dim", {}, `${shown.length - 400} more: filter`));
    if (this.all.length === 0) this.list.replaceChildren(h("p.empty", {}, "no value had to be weighed in this run"));
  }

  detail({ of, schedule }) {
    const line = maker(of.about.split("] ").at(-1));
    return h("div.sample", {}, h("div.body", {}, decisionElement(of),
      line.place ? link(`${line.method} in ${short(line.place)}`, () => this.app.go("program", { s: schedule.at, line: line.place })) : null, " · ",
      link("in the pass that decided →", () => this.app.go("program", { s: schedule.at, mode: "passes", step: of.step })),
      line.place ? sample(line.file, line.line, 1) : null));
  }

  // Two kernels of a schedule, and the answer.
  choose() {
    const { schedule, pair } = this;
    if (!schedule || schedule.places.length < 2) {
      this.pick.replaceChildren();
      return this.side.replaceChildren(h("p.dim", {}, "This schedule has less than two kernels."));
    }
    const [a, b] = [pair[0] ?? 0, pair[1] ?? 1];
    const go = (params) => this.app.go("decisions", { s: schedule.at, a, b, ...params });
    const kernels = (which, at) => h("select", { "aria-label": `Kernel ${which}`, id: `pair-${which}`,
      onchange: (event) => go({ [which]: event.target.value }) },
    schedule.places.map((p) => h("option", { value: p.at, selected: p.at === at },
      cut(`${p.at + 1}: ${p.kernel.name} ${[...new Set(p.methods.map((m) => m.split(" ")[0]))].join(", ")}`, 58))));
    const schedules = h("select", { "aria-label": "Schedule", onchange: (event) => this.app.go("decisions", { s: event.target.value }) },
      this.model.schedules.filter((s) => s.places.length > 1).map((s) =>
        h("option", { value: s.at, selected: s === schedule }, `schedule ${s.at + 1}: ${s.count} kernels`)));
    this.pick.replaceChildren(h("p", {}, schedules), h("p", {}, kernels("a", a)), h("p", {}, kernels("b", b)));
    this.side.replaceChildren(...explainPair(this.model, schedule, a, b, this.app));
  }

  redraw() {}
}

// The decisions of all schedules. Those that are equal are one row, such as in each step of a loop.
function grouped(model) {
  const groups = new Map();
  for (const schedule of model.schedules) {
    for (const of of model.decisions(schedule.steps)) {
      const key = JSON.stringify([of.about, of.alternatives, of.chosen, of.note]);
      if (!groups.has(key)) groups.set(key, { of, schedule, rows: [] });
      groups.get(key).rows.push({ of, schedule });
    }
  }
  return [...groups.values()];
}

// What the best alternative would have cost more: the largest first.
function gap(of) {
  const prices = of.alternatives.map(([, value]) => value ?? NaN);
  const others = prices.filter((value, at) => at !== of.chosen && !Number.isNaN(value));
  return others.length > 0 ? Math.abs(Math.min(...others) - (prices[of.chosen] || 0)) : 0;
}

function priceCells(of) {
  const [name, value] = of.alternatives[of.chosen];
  const others = of.alternatives.filter((each, at) => at !== of.chosen);
  const best = others.reduce((a, b) => ((b[1] ?? Infinity) < (a?.[1] ?? Infinity) ? b : a), others[0]);
  return [h("span.chosen-price", {}, name), price(value, of.unit), best?.[0] ?? "", best ? price(best[1], of.unit) : ""];
}

function aboutElement(about) {
  const at = about.indexOf("] ");
  if (at < 0) return about;
  const line = maker(about.slice(at + 2));
  return h("span", {}, h("b.mono", {}, about.slice(0, at + 1)), " ", h("span.dim", { title: line.place ?? "" },
    line.place ? `${line.method} ${line.place.split("/").at(-1)}` : line.method));
}
