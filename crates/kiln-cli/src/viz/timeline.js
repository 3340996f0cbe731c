// The timeline: what the host, the threads that compile, and the devices did when; and memory over time.

import { h, link, table } from "./dom.js";
import { share, size, time } from "./format.js";
import { palette } from "./graph.js";
import { maker } from "./model.js";

const [ROW, NAME, MEMORY, AXIS] = [26, 185, 110, 24];

export class Timeline {
  constructor(app) {
    this.app = app;
    this.model = app.model;
    this.rows = rowsOf(this.model);
    this.memory = memoryOf(this.model);
    const all = this.rows.flatMap((row) => row.spans);
    this.end = all.reduce((end, span) => Math.max(end, span.at + span.took), 1);
    this.start = all.reduce((start, span) => Math.min(start, span.at), this.end);
    this.canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "Timeline" });
    this.tip = h("div.note");
    this.frame = h("div.graph", {}, this.canvas, this.tip);
    this.side = h("div.body");
    this.element = h("div.columns", {}, h("section.pane.wide", {}, h("header", {}, h("h2", {}, "Timeline"),
      h("span.facts", {}, "drag, wheel or + − 0; click for what it is")), this.frame),
    h("section.pane", {}, h("header", {}, h("h2", {}, "What it is")), this.side));
    this.element.children[1].style.width = "310px";
    // until the page has laid itself out
    this.size = { wide: 800, high: 600, ratio: 1 };
    this.all();
    this.listen();
    new ResizeObserver(() => this.resized()).observe(this.frame);
  }

  all() {
    const space = (this.end - this.start) * 0.02;
    this.view = { from: this.start - space, to: this.end + space };
  }

  listen() {
    let from = null;
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY * 0.0016), event.offsetX);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      from = { x: event.clientX, moved: 0 };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!from) return this.hover(event);
      const dx = event.clientX - from.x;
      from = { x: event.clientX, moved: from.moved + Math.abs(dx) };
      this.move(dx);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (from && from.moved < 4) this.click(event.offsetX, event.offsetY);
      from = null;
    });
  }

  key(key) {
    if (key === "+" || key === "=") this.zoom(1 / 1.4);
    else if (key === "-") this.zoom(1.4);
    else if (key === "0") this.all();
    else if (key === "ArrowLeft" || key === "ArrowRight") this.step(key === "ArrowLeft" ? -1 : 1);
    else return false;
    this.draw();
    return true;
  }

  // The span before or after the chosen one, in its row.
  step(by) {
    const row = this.rows.find((r) => r.spans.includes(this.chosen)) ?? this.rows.find((r) => r.spans.length > 0);
    const at = (row?.spans.indexOf(this.chosen) ?? 0) + by;
    if (row?.spans[at]) this.choose(row.spans[at]);
  }

  move(dx) {
    const by = (dx * (this.view.to - this.view.from)) / this.wide();
    this.view = { from: this.view.from - by, to: this.view.to - by };
    this.draw();
  }

  zoom(factor, px = NAME + this.wide() / 2) {
    const at = this.timeAt(px);
    const { from, to } = this.view;
    if ((to - from) * factor < 0.5) return;
    this.view = { from: at - (at - from) * factor, to: at + (to - at) * factor };
    this.draw();
  }

  wide() {
    return Math.max(50, this.size.wide - NAME - 10);
  }

  timeAt(px) {
    return this.view.from + ((px - NAME) / this.wide()) * (this.view.to - this.view.from);
  }

  x(at) {
    return NAME + ((at - this.view.from) / (this.view.to - this.view.from)) * this.wide();
  }

  resized() {
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [this.frame.clientWidth, this.frame.clientHeight];
    if (wide === 0) return;
    this.size = { wide, high, ratio };
    [this.canvas.width, this.canvas.height] = [wide * ratio, high * ratio];
    this.canvas.style.width = `${wide}px`;
    this.canvas.style.height = `${high}px`;
    this.paint();
  }

  show(params) {
    const at = params.get("launch");
    const launch = at === null ? null : this.rows.flatMap((r) => r.spans).find((s) => s.launch?.index === Number(at));
    const [row, place] = (params.get("span") ?? "").split(".").map(Number);
    const span = launch ?? this.rows[row]?.spans[place];
    const [from, to] = (params.get("view") ?? "").split(":").map(Number);
    if (to > from) this.view = { from, to };
    if (span) this.choose(span);
    else if (!this.chosen) this.summary();
    this.draw();
  }

  draw() {
    if (!this.isAsked) requestAnimationFrame(() => this.paint());
    this.isAsked = true;
  }

  paint() {
    this.isAsked = false;
    const pen = this.canvas.getContext("2d");
    const colors = palette();
    const { ratio, wide, high } = this.size;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    this.scale(pen, colors);
    this.rows.forEach((row, at) => this.band(pen, colors, row, AXIS + at * ROW));
    this.memory.forEach((device, at) => this.curve(pen, colors, device, AXIS + this.rows.length * ROW + 14 + at * (MEMORY + 16)));
  }

  scale(pen, colors) {
    const span = this.view.to - this.view.from;
    // round numbers, far enough from each other for their texts
    const least = (span * 84) / this.wide();
    const step = 10 ** Math.floor(Math.log10(least));
    const by = step * ([1, 2, 5].find((times) => times * step >= least) ?? 10);
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "left";
    for (let at = Math.ceil(this.view.from / by) * by; at < this.view.to; at += by) {
      const x = this.x(at);
      if (x < NAME) continue;
      pen.fillStyle = colors.rule;
      pen.fillRect(x, 0, 1, this.size.high);
      pen.fillStyle = colors.dim;
      pen.fillText(at <= 0 ? "0" : time(at).replace(/\.?0+ /, " "), x + 4, 14);
    }
  }

  // A row. Spans that fall on the same pixels are drawn once.
  band(pen, colors, row, top) {
    pen.fillStyle = colors.text;
    pen.textAlign = "left";
    pen.font = "12px system-ui, sans-serif";
    pen.fillText(row.name, 10, top + 17);
    let drawn = -1;
    for (let at = firstAfter(row.spans, this.view.from); at < row.spans.length; at++) {
      const span = row.spans[at];
      if (span.at > this.view.to) break;
      const [left, right] = [Math.max(NAME, this.x(span.at)), this.x(span.at + span.took)];
      if (right < NAME || right <= drawn) continue;
      pen.fillStyle = span === this.chosen ? colors.accent : colors.line[span.kind];
      pen.fillRect(left, top + 3, Math.max(1, right - left), ROW - 7);
      drawn = Math.max(left + 1, right) + 0.2;
      if (right - left > 46) {
        pen.fillStyle = colors.back;
        pen.font = "11px system-ui, sans-serif";
        pen.fillText(span.name.slice(0, Math.floor((right - left - 8) / 6.2)), left + 4, top + 17);
      }
    }
  }

  curve(pen, colors, device, top) {
    pen.fillStyle = colors.text;
    pen.font = "12px system-ui, sans-serif";
    pen.fillText(`memory of ${device.name}`, 10, top + 14);
    pen.fillStyle = colors.dim;
    pen.fillText(`most ${size(device.peak.memory)}`, 10, top + 32);
    const y = (bytes) => top + MEMORY - (bytes / Math.max(1, device.peak.memory)) * (MEMORY - 8);
    pen.beginPath();
    pen.moveTo(NAME, top + MEMORY);
    let [last, drawn] = [0, -1];
    for (const point of device.points) {
      const x = Math.max(NAME, this.x(point.at));
      if (x < drawn + 0.5 && point.memory <= last) continue;
      if (this.x(point.at) > this.size.wide) break;
      pen.lineTo(x, y(last));
      pen.lineTo(x, y(point.memory));
      [last, drawn] = [point.memory, x];
    }
    pen.lineTo(this.size.wide - 10, y(last));
    pen.lineTo(this.size.wide - 10, top + MEMORY);
    pen.fillStyle = colors.fill.data;
    pen.fill();
    pen.strokeStyle = colors.line.data;
    pen.lineWidth = 1.3;
    pen.stroke();
    const peak = this.x(device.peak.at);
    if (peak > NAME) {
      pen.fillStyle = colors.accent;
      pen.fillRect(peak - 1, top, 2, MEMORY);
    }
  }

  at(px, py) {
    const memory = Math.floor((py - AXIS - this.rows.length * ROW - 14) / (MEMORY + 16));
    if (py > AXIS + this.rows.length * ROW + 14 && this.memory[memory]) return { peak: this.memory[memory] };
    const row = this.rows[Math.floor((py - AXIS) / ROW)];
    if (!row || px < NAME) return null;
    const slack = (3 * (this.view.to - this.view.from)) / this.wide();
    const at = this.timeAt(px);
    const near = row.spans.filter((s) => s.at - slack <= at && at <= s.at + s.took + slack);
    return near.sort((a, b) => Math.abs(a.at + a.took / 2 - at) - Math.abs(b.at + b.took / 2 - at))[0] ?? null;
  }

  hover(event) {
    const span = this.at(event.offsetX, event.offsetY);
    this.tip.textContent = span?.name ? `${span.name}: ${time(span.took)} at ${time(span.at)}` : "";
    this.tip.style.left = `${Math.min(event.offsetX + 14, this.size.wide - 260)}px`;
    this.tip.style.top = `${event.offsetY + 16}px`;
  }

  click(x, y) {
    const span = this.at(x, y);
    if (span?.peak) return this.tellPeak(span.peak);
    if (span) this.choose(span);
  }

  // The address keeps what is chosen and what is in sight, for links.
  choose(span) {
    this.chosen = span;
    const row = this.rows.findIndex((r) => r.spans.includes(span));
    this.app.keep({ launch: null, span: `${row}.${this.rows[row]?.spans.indexOf(span)}`, view: `${Math.round(this.view.from)}:${Math.round(this.view.to)}` });
    this.draw();
    const { launch, kernel, schedule } = span;
    const parts = [h("p", {}, h("b", {}, span.name)), h("p", {}, `${time(span.took)}, from ${time(span.at)}`)];
    if (span.bytes != null) parts.push(h("p", {}, size(span.bytes)));
    if (launch) {
      parts.push(h("p", {}, `${size(launch.memory)} in use on ${launch.device}`), h("h3", {}, "Made by"));
      parts.push(...launch.methods.map((method) => h("p.mono", {}, method)));
    }
    if (kernel) parts.push(h("p", {}, link("its kernel →", () => this.app.go("kernel", { k: kernel.at }))));
    if (schedule) parts.push(h("p", {}, link("its schedule →", () => this.app.go("program", { s: schedule.at }))));
    this.side.replaceChildren(...parts);
  }

  summary() {
    const total = (row) => row.spans.reduce((sum, span) => sum + span.took, 0);
    const rows = this.rows.map((row) => [row.name, String(row.spans.length), time(total(row)), share(total(row), this.end - this.start)]);
    this.side.replaceChildren(h("p", {}, `${time(this.end - this.start)} from the first to the last`),
      table(["who", "#what", "#time", "#share"], rows), h("h3", {}, "Most memory"),
      ...this.memory.map((device) => h("p", {}, link(`${device.name}: ${size(device.peak.memory)} at ${time(device.peak.at)}`, () => this.tellPeak(device)))));
  }

  // Who holds what when most is held.
  tellPeak(device) {
    const { peak, name } = device;
    const holders = this.model.holders(name, peak.at);
    this.side.replaceChildren(h("p", {}, h("b", {}, `${size(peak.memory)} on ${name}`), ` at ${time(peak.at)}`),
      h("p", {}, "in ", link(peak.name, () => this.app.go("kernel", { k: peak.kernel.at })), ` of ${peak.methods.join(", ")}`),
      h("h3", {}, "Who holds it"),
      table(["holder", "#blocks", "#bytes"], holders.slice(0, 60).map(([who, bytes, blocks]) => this.holder(who, bytes, blocks))));
  }

  // A row of a holder; one that is a line of the program leads there.
  holder(who, bytes, blocks) {
    const { place } = maker(who);
    const open = place && this.model.lines.some((line) => line.key === place) && (() => this.app.go("program", { line: place }));
    return { cells: [h("span.any", {}, who), String(blocks), size(bytes)], open };
  }

  redraw() {
    this.draw();
  }
}

// The first span that ends after a time: spans of a row do not overlap much, so a few before it are looked at too.
function firstAfter(spans, at) {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].at < at) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 64);
}

function rowsOf(model) {
  const rows = new Map();
  const add = (name, span) => {
    if (!rows.has(name)) rows.set(name, { name, spans: [] });
    rows.get(name).spans.push(span);
  };
  const helping = [];
  const thread = (number) => model.record.threads[number] || `thread ${number}`;
  for (const schedule of model.schedules) {
    const name = `${schedule.took == null ? "remembered " : ""}schedule of ${schedule.count} kernels`;
    add(`${thread(schedule.thread)}: scheduling`, { name, at: schedule.at_us, took: schedule.took ?? 0, kind: "view", schedule });
  }
  for (const kernel of model.kernels) {
    if (!kernel.compiled) continue;
    const { at, took, thread: number } = kernel.compiled;
    const span = { name: `compile ${kernel.name}`, at, took, kind: "loop", kernel };
    if (model.record.threads[number]) add(`${thread(number)}: compiling`, span);
    else helping.push({ ...span, number });
  }
  for (const [lane, spans] of lanesOf(helping).entries()) spans.forEach((span) => add(`thread ${lane + 1}: compiling`, span));
  for (const launch of model.launches) {
    add(`${launch.device}: launches`, { name: launch.name, at: launch.at, took: launch.took, kind: "reduce", launch, kernel: launch.kernel });
  }
  for (const { device, from, bytes, at, took } of model.record.copies) {
    add(`${device}: copies`, { name: `copy from ${from}`, at, took, bytes, kind: "copy" });
  }
  for (const { device, bytes, holder, at, took } of model.record.blocks) {
    add(`${device}: new memory`, { name: `memory for ${holder}`, at, took, bytes, kind: "data" });
  }
  for (const row of rows.values()) row.spans.sort((a, b) => a.at - b.at);
  return [...rows.values()];
}

// Threads without a name live as long as a schedule is compiled. One that begins when another has ended has its row.
function lanesOf(spans) {
  const threads = new Map();
  for (const span of spans) {
    if (!threads.has(span.number)) threads.set(span.number, []);
    threads.get(span.number).push(span);
  }
  const lanes = [];
  const start = (all) => Math.min(...all.map((span) => span.at));
  for (const all of [...threads.values()].sort((a, b) => start(a) - start(b))) {
    const free = lanes.find((lane) => lane.end <= start(all)) ?? lanes[lanes.push({ spans: [], end: 0 }) - 1];
    free.spans.push(...all);
    free.end = Math.max(...all.map((span) => span.at + span.took));
  }
  return lanes.map((lane) => lane.spans);
}

// By device, the bytes in use at each launch.
function memoryOf(model) {
  const devices = new Map();
  for (const launch of model.launches) {
    if (!devices.has(launch.device)) devices.set(launch.device, { name: launch.device, points: [], peak: launch });
    const device = devices.get(launch.device);
    device.points.push(launch);
    if (launch.memory > device.peak.memory) device.peak = launch;
  }
  return [...devices.values()];
}
