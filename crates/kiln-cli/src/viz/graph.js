// A graph on a canvas: it moves and zooms by mouse and keys. A frame draws what can be seen, and never more than a
// bounded number of boxes and lines, so that it takes as long for a hundred thousand nodes as for a thousand.

import { h } from "./dom.js";
import { cut } from "./format.js";

const ROW = 62;
const HIGH = 34;
const MOST_BOXES = 3000;
const MOST_LINES = 2500;

export function widthOf(item) {
  const letters = Math.max(item.label.length, (item.sub?.length ?? 0) * 0.86);
  return Math.min(300, Math.max(44, letters * 7.0 + 18));
}

export class Graph {
  // choose(at) is called for a click on an item, open(at) for a double click or Enter
  constructor(label, { choose = () => {}, open = () => {} }) {
    this.actions = { choose, open };
    this.canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": label });
    this.note = h("div.note");
    this.element = h("div.graph", {}, this.canvas, this.note);
    this.items = [];
    this.chosen = -1;
    this.view = { x: 0, y: 0, scale: 1 };
    this.drawn = [];
    this.asked = 0;
    this.worker = new Worker("/layout.js");
    this.worker.onmessage = ({ data }) => data.id === this.asked && this.laidOut(data);
    this.listen();
    new ResizeObserver(() => this.resized()).observe(this.element);
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * 0.0016), event.offsetX, event.offsetY);
    }, { passive: false });
    let from = null;
    canvas.addEventListener("pointerdown", (event) => {
      from = { x: event.clientX, y: event.clientY, moved: 0 };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
      from = { x: event.clientX, y: event.clientY, moved: from.moved + Math.abs(dx) + Math.abs(dy) };
      this.move(dx, dy);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (from && from.moved < 4) this.click(event.offsetX, event.offsetY);
      from = null;
    });
    canvas.addEventListener("dblclick", (event) => {
      const at = this.at(event.offsetX, event.offsetY);
      if (at >= 0) this.actions.open(at);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = { h: [60, 0], l: [-60, 0], k: [0, 60], j: [0, -60] };
    if (event.key in moves) this.move(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter" && this.chosen >= 0) this.actions.open(this.chosen);
    else if (event.key === "n") this.step(1);
    else if (event.key === "p") this.step(-1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // The next item, in the order of the graph.
  step(by) {
    const at = Math.min(this.items.length - 1, Math.max(0, this.chosen + by));
    if (this.items[at]) this.actions.choose(at);
  }

  // items: [{label, sub, kind, mark}]; edges: from[e] -> to[e], with texts[e] or none. A view is kept if the graph has a
  // name, and the same name as before.
  show({ items, from, to, texts = null, name = null }) {
    const isSame = name !== null && name === this.name && this.fitted === name;
    Object.assign(this, { items, texts, name, from: Int32Array.from(from), to: Int32Array.from(to), places: null });
    this.keeps = isSame;
    this.chosen = -1;
    this.note.textContent = items.length > 3000 ? `laying out ${items.length} nodes …` : "";
    const widths = Float32Array.from(items, widthOf);
    this.widths = widths;
    this.worker.postMessage({ id: ++this.asked, widths, from: this.from, to: this.to });
    this.ready = new Promise((done) => (this.isReady = done));
  }

  laidOut({ x, y, bends, starts }) {
    const rows = [];
    for (let n = 0; n < x.length; n++) (rows[Math.round(y[n] / ROW)] ??= []).push(n);
    for (let r = 0; r < rows.length; r++) (rows[r] ??= []).sort((a, b) => x[a] - x[b]);
    this.places = { x, y, bends, starts, rows, edges: edgesOf(this.items.length, this.from, this.to) };
    this.note.textContent = "";
    if (!this.keeps) this.fit();
    if (this.wanted != null) this.reveal(this.wanted);
    this.draw();
    this.isReady();
  }

  resized() {
    const { canvas, element } = this;
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [element.clientWidth, element.clientHeight];
    if (wide === 0 || high === 0) return;
    const isFirst = canvas.width <= 300 && !this.size;
    this.size = { wide, high, ratio };
    [canvas.width, canvas.height] = [wide * ratio, high * ratio];
    canvas.style.width = `${wide}px`;
    canvas.style.height = `${high}px`;
    if (isFirst || this.fitted !== this.name) this.fit();
    this.paint();
  }

  // The whole graph, but not larger than life, and not so small that its texts are lost where a part will do.
  fit() {
    if (!this.places || !this.size || this.items.length === 0) return;
    const { x, y } = this.places;
    let [left, right, bottom] = [Infinity, -Infinity, 0];
    for (let n = 0; n < x.length; n++) {
      left = Math.min(left, x[n] - this.widths[n] / 2);
      right = Math.max(right, x[n] + this.widths[n] / 2);
      bottom = Math.max(bottom, y[n]);
    }
    for (let at = 0; at < this.places.bends.length; at += 2) {
      left = Math.min(left, this.places.bends[at]);
      right = Math.max(right, this.places.bends[at]);
    }
    const { wide, high } = this.size;
    const scale = Math.min(1.15, (wide - 40) / (right - left), (high - 40) / (bottom + HIGH));
    this.fitted = this.name;
    this.view = { scale, x: wide / 2 - ((left + right) / 2) * scale, y: Math.max(20, (high - bottom * scale) / 2) };
    this.draw();
  }

  move(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.draw();
  }

  // Around a place of the canvas; without one, around its middle.
  zoom(factor, x, y) {
    const { view, size } = this;
    if (!size) return;
    [x, y] = [x ?? size.wide / 2, y ?? size.high / 2];
    const scale = Math.min(3, Math.max(0.0005, view.scale * factor));
    const by = scale / view.scale;
    this.view = { scale, x: x - (x - view.x) * by, y: y - (y - view.y) * by };
    this.draw();
  }

  mark(at) {
    this.chosen = at;
    this.draw();
  }

  // Marks an item and moves it into sight; after the layout if it is still being made.
  reveal(at) {
    this.mark(at);
    this.wanted = this.places ? null : at;
    if (!this.places || at < 0 || !this.size) return;
    const { view, size, places } = this;
    if (view.scale < 0.5) view.scale = 0.8;
    const [x, y] = [places.x[at] * view.scale + view.x, places.y[at] * view.scale + view.y];
    const space = (this.widths[at] / 2) * view.scale + 12;
    if (x < space || x > size.wide - space) view.x += size.wide / 2 - x;
    if (y < 40 || y > size.high - 40) view.y += size.high / 2 - y;
    this.draw();
  }

  at(px, py) {
    if (!this.places) return -1;
    const [x, y] = [(px - this.view.x) / this.view.scale, (py - this.view.y) / this.view.scale];
    const row = this.places.rows[Math.round(y / ROW)] ?? [];
    const slack = Math.max(0, 4 / this.view.scale);
    if (Math.abs(y - Math.round(y / ROW) * ROW) > HIGH / 2 + slack) return -1;
    return row.find((n) => Math.abs(this.places.x[n] - x) <= this.widths[n] / 2 + slack) ?? -1;
  }

  click(x, y) {
    const at = this.at(x, y);
    if (at >= 0) this.actions.choose(at);
  }

  draw() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.isAsked = false;
    if (!this.size) return;
    const started = performance.now();
    const pen = this.canvas.getContext("2d");
    const { ratio, wide, high } = this.size;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    if (this.places) {
      const colors = palette();
      const seen = this.seen();
      pen.translate(this.view.x, this.view.y);
      pen.scale(this.view.scale, this.view.scale);
      this.lines(pen, colors, seen);
      this.boxes(pen, colors, seen);
    }
    this.drawn.push(performance.now() - started);
    if (this.drawn.length > 600) this.drawn.shift();
  }

  // The nodes in sight, at most so many: of more, each so many-th, drawn the wider.
  seen() {
    const { view, size, places } = this;
    const [left, top] = [-view.x / view.scale, -view.y / view.scale];
    const [right, bottom] = [left + size.wide / view.scale, top + size.high / view.scale];
    const [first, last] = [Math.max(0, Math.floor(top / ROW)), Math.min(places.rows.length - 1, Math.ceil(bottom / ROW))];
    const spans = [];
    let total = 0;
    const skip = Math.max(1, Math.floor(2.5 / (ROW * view.scale)));
    for (let r = first - (first % skip); r <= last; r += skip) {
      const row = places.rows[r];
      const from = Math.max(0, lower(row, places.x, left) - 1);
      const to = Math.min(row.length, lower(row, places.x, right) + 1);
      if (to > from) spans.push([row, from, to]);
      total += Math.max(0, to - from);
    }
    const stride = Math.max(1, Math.ceil(total / MOST_BOXES));
    const nodes = [];
    for (const [row, from, to] of spans) for (let i = from; i < to; i += stride) nodes.push(row[i]);
    return { nodes, stride, skip, box: { left, right, top, bottom } };
  }

  lines(pen, colors, seen) {
    const { edges } = this.places;
    pen.strokeStyle = colors.edge;
    pen.lineWidth = Math.min(1.2, 0.7 / this.view.scale);
    pen.beginPath();
    let left = MOST_LINES;
    const { length } = this.from;
    const marked = [];
    if (length <= MOST_LINES) {
      for (let e = 0; e < length; e++) if (this.crosses(e, seen.box)) this.curve(pen, e, marked);
    } else {
      for (const n of seen.nodes) {
        for (let i = edges.starts[n]; i < edges.starts[n + 1] && left > 0; i++, left--) this.curve(pen, edges.all[i], marked);
      }
    }
    pen.stroke();
    if (marked.length > 0) {
      pen.strokeStyle = colors.chosen;
      pen.lineWidth = 2;
      pen.beginPath();
      for (const e of marked) this.curve(pen, e, []);
      pen.stroke();
    }
    if (this.texts && this.view.scale > 0.4) this.captions(pen, colors, seen.box);
  }

  crosses(e, { left, right, top, bottom }) {
    const { x, y } = this.places;
    const [a, b] = [this.from[e], this.to[e]];
    if (Math.max(y[a], y[b]) < top || Math.min(y[a], y[b]) > bottom) return false;
    return Math.max(x[a], x[b]) > left - 400 && Math.min(x[a], x[b]) < right + 400;
  }

  curve(pen, e, marked) {
    const { x, y, bends, starts } = this.places;
    const [a, b] = [this.from[e], this.to[e]];
    if (a === this.chosen || b === this.chosen) marked.push(e);
    let [px, py] = [x[a], y[a] + HIGH / 2];
    pen.moveTo(px, py);
    // from afar nobody sees the bends
    if (this.view.scale < 0.12) return pen.lineTo(x[b], y[b] - HIGH / 2);
    for (let i = starts[e]; i <= starts[e + 1]; i++) {
      const isLast = i === starts[e + 1];
      const [qx, qy] = isLast ? [x[b], y[b] - HIGH / 2] : [bends[2 * i], bends[2 * i + 1]];
      const middle = (py + qy) / 2;
      pen.bezierCurveTo(px, middle, qx, middle, qx, qy);
      [px, py] = [qx, qy];
    }
  }

  captions(pen, colors, box) {
    const { x, y, bends, starts } = this.places;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.fillStyle = colors.dim;
    for (let e = 0; e < this.texts.length; e++) {
      if (!this.texts[e] || !this.crosses(e, box)) continue;
      const [a, b] = [this.from[e], this.to[e]];
      const [s, t] = [starts[e], starts[e + 1]];
      const to = t > s ? [bends[2 * s], bends[2 * s + 1]] : [x[b], y[b]];
      pen.fillText(this.texts[e], x[a] + (to[0] - x[a]) * 0.5, (y[a] + to[1]) / 2 + 4);
    }
  }

  boxes(pen, colors, { nodes, stride, skip }) {
    const { x, y } = this.places;
    const isText = this.view.scale > 0.33;
    const high = HIGH * Math.max(1, skip * 0.8);
    for (const n of nodes) {
      const item = this.items[n];
      const wide = this.widths[n] * stride;
      const [left, top] = [x[n] - this.widths[n] / 2, y[n] - HIGH / 2];
      pen.fillStyle = colors.fill[item.kind] ?? colors.fill.other;
      if (!isText) {
        pen.fillStyle = item.mark ? colors.mark[item.mark] : colors.line[item.kind] ?? colors.line.other;
        pen.fillRect(left, top, wide, high);
        continue;
      }
      pen.beginPath();
      pen.roundRect(left, top, wide, HIGH, 6);
      pen.fill();
      pen.strokeStyle = item.mark ? colors.mark[item.mark] : colors.line[item.kind] ?? colors.line.other;
      pen.lineWidth = item.mark ? (item.mark === "carried" ? 1.6 : 2.6) : 1;
      pen.setLineDash(item.mark === "gone" ? [5, 3] : []);
      pen.stroke();
      this.words(pen, colors, item, n);
    }
    pen.setLineDash([]);
    if (this.chosen >= 0) this.ring(pen, colors);
  }

  words(pen, colors, item, n) {
    const { x, y } = this.places;
    const letters = Math.floor((this.widths[n] - 10) / 6.6);
    pen.textAlign = "center";
    pen.fillStyle = colors.text;
    pen.font = "600 11.5px ui-monospace, monospace";
    pen.fillText(cut(item.label, letters), x[n], y[n] + (item.sub ? -2 : 4));
    if (!item.sub) return;
    pen.fillStyle = colors.dim;
    pen.font = "10.5px system-ui, sans-serif";
    pen.fillText(cut(item.sub, Math.floor(letters * 1.15)), x[n], y[n] + 12);
  }

  ring(pen, colors) {
    const { x, y } = this.places;
    const n = this.chosen;
    const grow = Math.max(4, 3 / this.view.scale);
    pen.strokeStyle = colors.chosen;
    pen.lineWidth = Math.max(2.5, 2 / this.view.scale);
    pen.strokeRect(x[n] - this.widths[n] / 2 - grow, y[n] - HIGH / 2 - grow, this.widths[n] + 2 * grow, HIGH + 2 * grow);
  }

  // Zooms from the whole to one node and back; gives the milliseconds between frames.
  async measure(frames = 60) {
    this.fit();
    const steps = Math.log(1 / this.view.scale) / (frames / 2);
    const gaps = [];
    let last = await new Promise(requestAnimationFrame);
    for (let f = 0; f < frames; f++) {
      this.zoom(Math.exp(f < frames / 2 ? steps : -steps), this.size.wide * 0.4, this.size.high * 0.4);
      const now = await new Promise(requestAnimationFrame);
      gaps.push(now - last);
      last = now;
    }
    return gaps;
  }
}

// The edges of each node, in both directions.
function edgesOf(count, from, to) {
  const starts = new Int32Array(count + 1);
  for (const n of to) starts[n + 1]++;
  for (let n = 0; n < count; n++) starts[n + 1] += starts[n];
  const next = starts.slice();
  const all = new Int32Array(to.length);
  for (let e = 0; e < to.length; e++) all[next[to[e]]++] = e;
  return { starts, all };
}

// The first of a row whose place is not left of x.
function lower(row, places, x) {
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (places[row[middle]] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

let kept = null;

// The colors of the style sheet; they are read once, and again after `forgetPalette`.
export function palette() {
  if (kept) return kept;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const kinds = ["data", "loop", "reduce", "store", "view", "math", "constant", "group", "kernel", "copy", "other"];
  const each = (end) => Object.fromEntries(kinds.map((kind) => [kind, color(`${kind}-${end}`)]));
  const mark = { gone: color("gone"), new: color("new"), carried: color("carried"), changed: color("chosen"), hit: color("chosen") };
  kept = { fill: each("fill"), line: each("line"), mark, edge: color("edge"), text: color("text"), dim: color("dim"),
    chosen: color("chosen"), accent: color("accent"), back: color("back"), rule: color("rule") };
  return kept;
}

export function forgetPalette() {
  kept = null;
}
