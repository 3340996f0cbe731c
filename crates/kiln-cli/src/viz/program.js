// The program: its lines, the graph of tensors that they made, and the kernels that came of it.

import { h, link, swap, switcher, table } from "./dom.js";
import { count, counted, cut, share, short, size, time } from "./format.js";
import { Graph } from "./graph.js";
import { List } from "./list.js";
import { memoryPlan } from "./memory.js";
import { largest, maker } from "./model.js";
import { picture, formula, opOf } from "./nodes.js";
import { lineText, sample } from "./source.js";
import { scheduleGraph } from "./schedule.js";
import { life } from "./life.js";
import { rowsOf } from "./rows.js";
import { Steps, changesElements } from "./steps.js";

const MODES = [["schedule", "Kernels"], ["tensors", "Tensor graph"], ["passes", "Passes"], ["memory", "Memory"]];

export class Program {
  constructor(app) {
    this.app = app;
    this.model = app.model;
    this.open = new Set();
    this.texts = new Map();
    this.lines = new List("Lines of the program", { height: 40, row: (line) => this.row(line),
      kind: (line) => (this.isLit(line) ? "two hit" : "two"),
      choose: (line) => this.app.go("program", { ...this.state(), line: line.key, k: null, node: null }) });
    this.lines.fill(this.model.lines);
    this.graph = new Graph("Graph", { choose: (at) => this.pick(at), open: (at) => this.enter(at) });
    this.steps = new Steps(app, (step, node) => this.app.go("program", { ...this.state(), mode: "passes", step, node }));
    this.head = h("header");
    this.middle = h("div.fill");
    this.side = h("div.body");
    this.element = h("div.columns", {},
      h("section.pane", {}, h("header", {}, h("h2", {}, "Lines"),
        h("span.facts", {}, `${this.model.lines.length} made nodes`)), this.lines.element),
      h("section.pane.wide", {}, this.head, this.middle),
      h("section.pane", {}, h("header", {}, h("h2", {}, "What it is")), this.side));
    this.element.children[0].style.width = "290px";
    this.element.children[2].style.width = "300px";
    this.fetchTexts();
  }

  // The text of each line, where its file can be read.
  fetchTexts() {
    for (const line of this.model.lines.slice(0, 5000)) {
      if (!line.place) continue;
      lineText(line.file, line.line).then((text) => {
        if (!text) return;
        this.texts.set(line.key, text);
        this.lines.draw();
      });
    }
  }

  row(line) {
    const name = line.place ? `${line.file.split("/").at(-1)}:${line.line}` : line.key;
    const text = this.texts.get(line.key) ?? [...line.methods].join(", ");
    const kernels = line.kernels.size;
    return [h("div.top", {}, h("span.grow.name.mono", { title: text }, text),
      h("span.right", {}, kernels > 0 ? share(line.took, this.model.total) : "")),
    h("div.sub", { title: line.key }, `${name} · ${counted(line.nodes.length, "node")} · ${counted(kernels, "kernel")}`)];
  }

  isLit(line) {
    return (this.kernel && line.kernels.has(this.kernel)) || false;
  }

  state() {
    const { s, line, k, mode, step } = this.params;
    return { s, line, k, mode, step };
  }

  show(params) {
    const { model } = this;
    const get = (name) => params.get(name);
    const line = model.lines.find((l) => l.key === get("line")) ?? null;
    const first = this.firstSchedule(line);
    const s = Math.min(Number(get("s") ?? first), Math.max(0, model.schedules.length - 1));
    this.line = line;
    this.schedule = model.schedules[s] ?? null;
    this.kernel = get("k") === null ? null : model.kernels[Number(get("k"))] ?? null;
    this.params = { s, line: get("line"), k: get("k"), mode: get("mode") ?? "schedule", step: get("step") };
    this.node = get("node") === null ? null : model.nodes[Number(get("node"))] ?? null;
    this.header();
    this.lines.mark(line ? model.lines.indexOf(line) : -1);
    this.draw();
    this.tell();
  }

  // The schedule to start with: one of the line, or of all, with most kernels.
  firstSchedule(line) {
    const of = this.model.schedules.filter((s) => s.kernels.length > 0 && (!line || line.schedules.has(s.at)));
    return largest(of)?.at ?? 0;
  }

  header() {
    const { model, params } = this;
    const name = (s) => `${s.at + 1}: ${s.count} kernel${s.count === 1 ? "" : "s"}, ` +
      (s.took == null ? `remembered${s.same == null ? "" : ` (as ${s.same + 1})`}` : `scheduled in ${time(s.took)}`);
    const options = foldedRuns(model.schedules, params.s).map((s) => h("option", { value: s.at, selected: s.at === params.s }, name(s)));
    const select = h("select", { "aria-label": "Schedule", id: "schedule",
      onchange: (event) => this.app.go("program", { ...this.state(), s: event.target.value, node: null, step: null }) }, options);
    this.head.replaceChildren(select, switcher(MODES, params.mode, (mode) => this.mode(mode)),
      this.opener = h("button", { type: "button", title: "groups, inputs and outputs (e)", onclick: () => this.key("e") }, this.isAllOpen ? "Fold" : "Unfold"));
  }

  mode(mode) {
    this.app.go("program", { ...this.state(), mode, step: mode === "passes" ? 0 : null });
  }

  draw() {
    const { schedule, params } = this;
    this.element.children[2].hidden = params.mode === "passes";
    if (!schedule) return this.middle.replaceChildren(h("p.empty", {}, "nothing was computed"));
    if (params.mode === "memory") return this.middle.replaceChildren(h("div.body", {}, memoryPlan(this.model, schedule, this.app)));
    const isPasses = params.mode === "passes";
    swap(this.middle, isPasses ? this.steps.element : this.graph.element);
    if (isPasses) {
      const planned = this.model.schedules[schedule.same ?? schedule.at];
      return this.steps.show(`schedule ${planned.at}`, planned.steps, Number(params.step ?? -1), { owner: { schedule: planned.at }, node: this.node?.id ?? null });
    }
    if (params.mode === "schedule") return this.drawSchedule();
    this.drawTensors();
  }

  drawSchedule() {
    const { schedule, line, kernel } = this;
    const shown = scheduleGraph(this.model, schedule, { isWhole: this.isAllOpen || schedule.places.length < 4 });
    for (const item of shown.items) {
      if (item.kernel && line?.kernels.has(item.kernel)) item.mark = "hit";
    }
    this.shown = shown;
    this.graph.show({ ...shown, name: `schedule ${schedule.at} ${this.isAllOpen}` });
    const at = shown.items.findIndex((item) => item.kernel && (kernel ? item.kernel === kernel : item.mark));
    if (at >= 0) this.graph.reveal(at);
  }

  drawTensors() {
    const { schedule, line, kernel, node, model } = this;
    const roots = model.schedules[schedule.same ?? schedule.at].roots;
    const ids = model.below(roots);
    const group = (each) => each.by ?? null;
    const isLit = (each) => each.by && ((line && (maker(each.by).place ?? each.by) === line.key) ||
      (!line && kernel?.makers.has(each.by)));
    const marks = new Map();
    for (const id of ids) if (isLit(model.nodes[id])) marks.set(id, "hit");
    const grouped = ids.length > 40 || this.open.size > 0 ? group : null;
    const shown = picture(model, ids, { marks, folds: true, group: this.isAllOpen ? null : grouped, open: this.open });
    this.shown = shown;
    this.graph.show({ ...shown, name: `tensors ${schedule.at} ${[...this.open].join()} ${this.isAllOpen}` });
    const at = node ? shown.at(node.id) : marks.size > 0 ? shown.items.findIndex((item) => item.mark) : -1;
    if (at >= 0) this.graph.reveal(at);
  }

  pick(at) {
    const item = this.shown.items[at];
    this.graph.mark(at);
    if (item.kernel) this.app.go("program", { ...this.state(), k: item.kernel.at, line: null });
    else if (item.id != null) this.app.go("program", { ...this.state(), node: item.id });
  }

  enter(at) {
    const item = this.shown.items[at];
    if (item.kernel) return this.app.go("kernel", { k: item.kernel.at });
    if (!item.group) return;
    this.open.add(item.group.key);
    this.drawTensors();
  }

  key(key) {
    if (this.params.mode === "passes" && this.steps.key(key)) return true;
    if (key === "g") {
      const modes = MODES.map(([name]) => name);
      this.mode(modes[(modes.indexOf(this.params.mode) + 1) % modes.length]);
    } else if (key === "e") {
      this.isAllOpen = !this.isAllOpen;
      this.opener.textContent = this.isAllOpen ? "Fold" : "Unfold";
      this.open.clear();
      this.draw();
    } else return false;
    return true;
  }

  redraw() {
    this.graph.draw();
    this.steps.redraw();
  }

  tell() {
    const about = this.node && this.params.mode === "tensors" ? this.tellNode(this.node)
      : this.kernel ? this.tellKernel(this.kernel) : this.line ? this.tellLine(this.line) : this.tellAll();
    this.side.replaceChildren(...about);
    this.lines.draw();
  }

  tellAll() {
    const { record } = this.model;
    const launches = this.model.launches.length;
    return [...(this.schedule ? this.tellSchedule(this.schedule) : []), h("h3", {}, "The run"),
      h("p", {}, `${launches} launches, ${time(this.model.total)}. ${this.model.schedules.length} schedules, ` +
        `${record.kernels.length} kernels compiled, ${record.copies.length} copies.`),
      ...record.devices.map((open) => h("p.dim", {}, `${open.name} is ${open.backend}: ${open.compiler}`)),
      h("h3", {}, "Kernels by time"), this.kernelTable([...this.model.kernels].sort((a, b) => b.took - a.took).slice(0, 12)),
      h("p.dim", {}, "Choose a line to see its kernels, or a kernel to see its lines. Double click opens a kernel or a group. ? lists the keys.")];
  }

  askedBy(by) {
    const { method, place } = maker(by);
    if (!this.model.lines.some((line) => line.key === place)) return by;
    return link(`${method} in ${short(place)}`, () => this.app.go("program", { ...this.state(), line: place, k: null }), by);
  }

  // A schedule: whether it was remembered, and if not, what differs from one like it.
  tellSchedule(schedule) {
    const go = (at) => link(`schedule ${at + 1}`, () => this.app.go("program", { ...this.state(), s: at, node: null, step: null }));
    const [arena, all] = schedule.memory;
    const said = [h("h3", {}, `Schedule ${schedule.at + 1}, on ${schedule.device}`), h("p.dim.mono", {}, `key ${schedule.key.slice(0, 16)}…`)];
    if (schedule.by) said.push(h("p", {}, "Asked for by ", this.askedBy(schedule.by), "."));
    if (schedule.took == null) {
      said.push(h("p", {}, "Remembered: nothing was scheduled or compiled for it. ", schedule.same == null ? "" : h("span", {}, "It is ", go(schedule.same), ".")));
    } else said.push(h("p", {}, `Scheduled in ${time(schedule.took)}${all > 0 ? `; temporaries of ${size(all)} in ${size(arena)}` : ""}.`));
    const differs = this.model.differs(schedule);
    const alike = this.model.schedules.slice(0, schedule.at).findLast((s) => s.took != null && s.key === schedule.key);
    if (alike && schedule.took != null) {
      const { was, is } = this.model.constantsThatDiffer(alike, schedule);
      const some = (labels) => h("span.mono", {}, cut(labels.join(", "), 200) || "nothing");
      said.push(h("p", {}, "Its key is that of ", go(alike.at), ". It was scheduled anew because numbers differ: ", some(is), " instead of ", some(was),
        ". They are arguments of launches from then on."));
    } else if (differs) {
      said.push(h("p", {}, "Equal but for numbers: ", go(differs.earlier.at), ". Scheduled anew because ",
        differs.is ? h("span.mono", {}, `${differs.is.label} was ${differs.was.label}`) : "a dtype, a device or an order differs",
        differs.is?.by ? ` (${differs.is.by})` : "", "."));
    }
    return said;
  }

  kernelTable(kernels) {
    return table(["kernel", "#runs", "#time"], kernels.map((kernel) => ({
      cells: [h("span.any.mono", {}, kernel.name), count(kernel.launches.length), time(kernel.took)],
      open: () => this.app.go("kernel", { k: kernel.at }) })));
  }

  tellLine(line) {
    const kernels = [...line.kernels].sort((a, b) => b.took - a.took);
    const decided = this.model.schedules.flatMap((s) => this.model.decisions(s.steps).map((d) => ({ ...d, s: s.at })))
      .filter((d) => line.place && d.about.endsWith(` ${line.place}`));
    return [h("p", {}, h("b", {}, [...line.methods].join(", "))), h("p.dim", { title: line.key }, short(line.key)),
      line.place ? sample(line.file, line.line) : null,
      h("p", {}, `${counted(line.nodes.length, "node")}, in ${counted(line.schedules.size, "schedule")}`),
      h("h3", {}, `Its kernels`), kernels.length > 0 ? this.kernelTable(kernels) : h("p.dim", {}, "none: nothing of it was computed by a kernel in this run"),
      decided.length > 0 ? h("h3", {}, "What was decided about its values") : null,
      ...decided.slice(0, 12).map((d) => h("p", {}, link(`${d.about.slice(0, -line.place.length - 1)}: ${d.alternatives[d.chosen][0]}`,
        () => this.app.go("decisions", { s: d.s, d: d.step }))))].filter(Boolean);
  }

  tellKernel(kernel) {
    const lines = this.model.placesOf(kernel);
    const place = this.schedule?.places.find((p) => p.kernel === kernel);
    return [h("p", {}, h("b.mono", {}, `${place ? `${place.at + 1}: ` : ""}${kernel.name}`)),
      h("p", {}, link("open: passes, loops, code →", () => this.app.go("kernel", { k: kernel.at }))),
      h("p", {}, `${kernel.launches.length} launches, ${time(kernel.took)} (${share(kernel.took, this.model.total)}), median ${time(kernel.median)}`),
      place ? h("h3", {}, "Memory") : null,
      place ? table(["argument", "#bytes"], place.arguments.map(([name, bytes]) => [name, size(bytes)])) : null,
      h("h3", {}, "Its lines"),
      ...lines.map((line) => h("p", {}, link(line.place ? short(line.key) : line.key,
        () => this.app.go("program", { ...this.state(), line: line.key, k: null }), line.key), " ",
      h("span.dim", {}, this.texts.get(line.key) ?? [...line.methods].join(", "))))].filter(Boolean);
  }

  // What the stage makes of a node of the tensor graph, and the kernels that its line is in.
  tellFate(node) {
    const schedule = this.schedule && this.model.schedules[this.schedule.same ?? this.schedule.at];
    if (!schedule) return [];
    schedule.rows ??= rowsOf(schedule.steps);
    const go = (step, id) => this.app.go("program", { ...this.state(), mode: "passes", step, node: id });
    const kernels = schedule.places.filter((place) => node.by && place.methods.includes(node.by));
    const stored = schedule.temporaries.findIndex((temporary) => temporary.value === node.id);
    const changes = h("div", {}, h("p.dim", {}, "…"));
    life({ schedule: schedule.at }, schedule.rows, 0, node.id)
      .then((told) => changes.replaceChildren(...changesElements(this.model, told.becomes, "Becomes", go)));
    return [h("h3", {}, "What it becomes"), changes,
      stored < 0 ? "" : h("p", {}, `Stored as temporary ${stored}.`),
      ...kernels.map((place) => h("p", {}, "Its line is computed in ", link(`${place.at + 1}: ${place.kernel.name}`,
        () => this.app.go("kernel", { k: place.kernel.at }))))];
  }

  tellNode(node) {
    const { nodes } = this.model;
    const by = node.by ? maker(node.by) : null;
    const users = [];
    for (let id = node.id + 1; id < nodes.length && users.length < 12; id++) {
      if (nodes[id].sources.includes(node.id)) users.push(id);
    }
    const go = (id) => link(`%${id} ${nodes[id].label}`, () => this.app.go("program", { ...this.state(), node: id }));
    return [h("p", {}, h("b.mono", {}, `%${node.id} ${node.label}`)),
      h("p.dim", {}, `shape [${node.shape.join(", ")}]`),
      by?.place ? h("p", {}, `${by.method} in `, link(short(by.place), () => this.app.go("program", { ...this.state(), line: by.place, k: null }))) : null,
      by?.place ? sample(by.file, by.line, 2) : null,
      ...this.tellFate(node),
      h("h3", {}, "Of"), ...node.sources.map((id) => h("p", {}, go(id))),
      h("h3", {}, "Used by"), ...users.map((id) => h("p", {}, go(id))),
      opOf(node) === node.label ? null : h("h3", {}, "As an expression"), h("p.mono", {}, formula(nodes, node.id, 400))].filter(Boolean);
  }
}

// Schedules for a list: of those in a row that are one remembered schedule, such as the steps of a loop, the first and the last,
// and the one that is shown.
function foldedRuns(schedules, shown) {
  const isLike = (a, b) => a && b && a.took == null && b.took == null && a.key === b.key;
  return schedules.filter((s, at) => at === shown || !isLike(schedules[at - 1], s) || !isLike(s, schedules[at + 1]));
}
