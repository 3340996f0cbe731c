// A kernel: how it came about, its loops, its options with prices, its text, and where it stands under the roofline.

import { h, link, swap, switcher, table } from "./dom.js";
import { count, share, short, size, time } from "./format.js";
import { List } from "./list.js";
import { Machine } from "./machine.js";
import { afterOptions } from "./model.js";
import { linesElement, nestElement } from "./nest.js";
import { roofline } from "./roofline.js";
import { Steps, decisionElement } from "./steps.js";

const TABS = [["loops", "Loops"], ["steps", "Passes"], ["options", "Options"], ["source", "Source"], ["code", "Machine code"],
  ["roofline", "Roofline"]];

export class Kernel {
  constructor(app) {
    this.app = app;
    this.model = app.model;
    this.kernels = [...this.model.kernels].sort((a, b) => b.took - a.took || a.at - b.at);
    this.list = new List("Kernels", { height: 44, kind: () => "two", row: (kernel) => this.row(kernel),
      choose: (kernel) => this.app.go("kernel", { k: kernel.at, tab: this.tab }) });
    this.list.fill(this.kernels);
    this.steps = new Steps(app, (step, node) => this.app.go("kernel", { k: this.kernel.at, tab: "steps", step, node }));
    this.code = new List("Source", { height: 19, row: (line, at) => [h("span.right", {}, String(at + 1)), line] });
    this.code.element.classList.add("code");
    this.machine = new Machine();
    this.head = h("header");
    this.facts = h("div.step.facts");
    this.stage = h("div.fill");
    this.element = h("div.columns", {}, h("section.pane", {}, h("header", {}, h("h2", {}, "Kernels by time")), this.list.element),
      h("section.pane.wide", {}, this.head, this.facts, this.stage));
    this.element.children[0].style.width = "230px";
    this.tab = "loops";
  }

  row(kernel) {
    const bar = h("i");
    bar.style.width = `${(100 * kernel.took) / (this.kernels[0].took || 1)}%`;
    const lines = [...kernel.makers].map((m) => m.split(" ")[0]);
    return [h("div.top", {}, h("span.grow.mono", { title: kernel.name }, kernel.name), h("span.right", {}, time(kernel.took))),
      h("div.sub", {}, [...new Set(lines)].join(", ")), h("div.bar", {}, bar)];
  }

  show(params) {
    const at = params.get("k");
    const kernel = at === null ? this.kernel ?? this.kernels[0] : this.model.kernels[Number(at)] ?? this.kernels[0];
    if (!kernel) return this.stage.replaceChildren(h("p.empty", {}, "no kernel ran or was compiled"));
    this.kernel = kernel;
    this.step = params.get("step");
    this.node = params.get("node") === null ? null : Number(params.get("node"));
    this.tab = this.step !== null ? "steps" : params.get("tab") ?? this.tab;
    this.list.mark(this.kernels.indexOf(kernel));
    this.header();
    this.draw();
  }

  header() {
    const { kernel } = this;
    const { compiled } = kernel;
    const tab = (tab) => this.app.go("kernel", { k: kernel.at, tab });
    this.head.replaceChildren(h("h2.mono", { title: kernel.name }, kernel.name), switcher(TABS, this.tab, tab));
    const runs = kernel.launches.length;
    const each = kernel.median ?? null;
    const [flops, bytes] = kernel.work ?? [null, null];
    const rate = (work) => (each && work != null ? `${(work / (each * 1e3)).toFixed(2)}` : "?");
    const speed = this.model.speed(kernel.launches[0]?.device);
    const floor = speed && each && flops != null ? Math.max(flops / (speed.gflops * 1e3), bytes / (speed.gbps * 1e3)) : null;
    const lines = this.model.placesOf(kernel);
    const first = [...kernel.schedules][0];
    this.facts.replaceChildren(h("div", {}, h("b", {}, time(each) || "never ran"), each == null ? "" : ` median · ${runs} launches, ${time(kernel.took)} · ${share(kernel.took, this.model.total)} of all · `,
      h("b", {}, flops == null ? "?" : count(flops)), " flops · ", h("b", {}, size(bytes) || "?"), ` · ${rate(flops)} GFLOPS · ${rate(bytes)} GB/s`,
      floor ? ` · floor ${time(floor)}, ${share(floor, each)} of the median` : "",
      kernel.compiled ? ` · ${kernel.compiled.origin}` : " · not compiled in this run"),
    compiled ? h("div.dim", {}, `Compiled in ${time(compiled.took)} · found in memory ${kernel.found} times after that, by key ${compiled.scheduled.slice(0, 16)}… · its key on disk is its text`) : "",
    h("div", {}, "Made by ", ...lines.flatMap((line) => [link(line.place ? short(line.key) : line.key,
      () => this.app.go("program", { line: line.key, s: first }), line.key), " "]),
    first == null ? "" : link("· in its schedule", () => this.app.go("program", { s: first, k: kernel.at, mode: "schedule" }))));
  }

  draw() {
    const { compiled } = this.kernel;
    const body = (...parts) => this.stage.replaceChildren(h("div.body", {}, parts));
    if (this.tab === "steps") {
      swap(this.stage, this.steps.element);
      return this.steps.show(`kernel ${this.kernel.at}`, this.kernel.steps, Number(this.step ?? -1), { owner: { kernel: compiled?.number }, options: compiled?.options, node: this.node });
    }
    if (this.tab === "roofline") return body(roofline(this.model, this.kernel, (other) => this.app.go("kernel", { k: other.at, tab: "roofline" })));
    if (!compiled) return body(h("p.empty", {}, "The record has no passes of this kernel: it was compiled before the record began, or lines of the record are missing."));
    if (this.tab === "loops") return this.loops(body);
    if (this.tab === "options") return body(...this.options());
    const text = this.tab === "source" ? compiled.source : compiled.code;
    if (!text) return body(h("p.empty", {}, "No machine code is recorded: VIZ_CODE=1 records it."));
    if (this.tab === "code" && compiled.lines.length > 0) {
      swap(this.stage, this.machine.element);
      return this.machine.fill(compiled);
    }
    swap(this.stage, this.code.element);
    this.code.fill(text.split("\n"));
  }

  loops(body) {
    const [scheduled, optimized] = this.kernel.compiled.graphs;
    const which = this.nest ?? "optimized";
    const names = [["optimized", "After the options"], ["scheduled", "Before passes"]];
    const options = this.kernel.compiled.options;
    body(h("div", {}, switcher(names, which, (name) => {
      this.nest = name;
      this.draw();
    })), h("p.dim", {}, "The name: r has a reduction, E has none, and the numbers are the lengths of the loops r0, r1, … r0 is the loop of axis 0, p0 the first argument, acc0 the first reduction."),
    h("div.tags", {}, options.map((option) => h("span.tag.mono", { title: meaning(option) }, option))),
    nestElement(this.model, [which === "optimized" ? optimized : scheduled], () => {}));
  }

  options() {
    const { options } = this.kernel.compiled;
    const decisions = distinct(this.model.decisions(this.kernel.steps));
    const each = h("div", {}, h("p.dim", {}, "…"));
    this.fillOptions(this.kernel, each);
    return [h("h3", {}, "Options that were applied, in order"),
      options.length > 0 ? table(["#", "option", "what it does"], options.map((o, at) => [String(at + 1), h("span.mono", {}, o), meaning(o)]))
        : h("p.dim", {}, "none: the loops stayed as they were scheduled"),
      h("h3", {}, "The loops after each of them"), each,
      h("h3", {}, "Alternatives and their prices"),
      ...decisions.map((d) => h("div", {}, decisionElement(d), link("in its pass →", () => this.app.go("kernel", { k: this.kernel.at, step: d.step })))),
      decisions.length === 0 ? h("p.dim", {}, "nothing had to be weighed for this kernel") : null].filter(Boolean);
  }

  // Fills itself in when the server has applied the options again. A nest that stayed as it was is not drawn again.
  async fillOptions(kernel, element) {
    let before = "";
    const parts = (await afterOptions(kernel)).map(({ option, nest, without, decided }, at) => {
      const now = JSON.stringify(nest);
      const loops = without ? h("p.dim", {}, `takes effect with the options that follow: ${without}`)
        : now === before ? h("p.dim", {}, "the loops stay as they are") : linesElement(nest);
      before = without ? before : now;
      return h("details.option", { open: true }, h("summary.mono", {}, option === null ? "before the options: axis 1 of any option is r1 here; after an option, loops have new numbers" : `${at}: ${option}`), ...decided.map(decisionElement), loops);
    });
    element.replaceChildren(...(parts.length > 0 ? parts : [h("p.dim", {}, "the record has no graph of this kernel")]));
  }

  key(key) {
    if (!this.kernel) return false; // a record that ends before its first kernel
    if (this.tab === "steps" && this.steps.key(key)) return true;
    const names = TABS.map(([name]) => name);
    if (key === "ArrowRight" || key === "ArrowLeft") {
      this.app.go("kernel", { k: this.kernel.at, tab: "steps" });
      return true;
    }
    if (key !== "g") return false;
    this.app.go("kernel", { k: this.kernel.at, tab: names[(names.indexOf(this.tab) + 1) % names.length] });
    return true;
  }

  redraw() {
    this.steps.redraw();
  }
}

const MEANINGS = { VECTOR: "so many neighbours are lanes of a vector", UPCAST: "so many iterations at once, in registers",
  UNROLL: "so many iterations of a reduction written out", THREAD: "threads share the iterations",
  GLOBAL: "work-groups share the iterations", LOCAL: "so many work-items of a group share the iterations",
  BLOCK: "so many iterations become a loop inside of all others", ALIGN: "rows start at a cache line of so many elements",
  DOT: "narrow factors are packed into words for dot products", MMA: "a matrix unit multiplies blocks of these sides",
  STAGE: "an operand is copied into scratch, in the order in which it is read", KEEP: "a value of a reduction is kept in scratch for later loops",
  ROWS: "so many rows in one nest before the next nest", NEST: "what follows is for this nest" };

// Decisions, each once: a kernel is planned several times, for several numbers of threads.
function distinct(decisions) {
  const seen = new Set();
  return decisions.filter(({ step, ...rest }) => !seen.has(JSON.stringify(rest)) && seen.add(JSON.stringify(rest)));
}

function meaning(option) {
  return MEANINGS[/^[A-Z]+/.exec(option)?.[0]] ?? "";
}
