// The loops of a kernel, drawn as Halide prints them: each loop around what it repeats, each statement where its
// operands are known.

import { h } from "./dom.js";
import { cut } from "./format.js";
import { axisOf, expression, formula, opOf } from "./nodes.js";

// The loops and statements of a graph as a tree: {range, inner: [..]} and {text, id}.
export function nestOf(model, roots) {
  const { nodes } = model;
  const ids = model.below(roots);
  const open = openLoops(nodes, ids);
  const names = new Map();
  const top = { inner: [], loops: new Map() };
  const place = (path) => path.reduce(enter, top);
  for (const id of ids) {
    const op = opOf(nodes[id]);
    if (op === "reduce") names.set(id, `acc${names.size}`);
    if (op !== "reduce" && op !== "store") continue;
    const own = [...open.get(id)];
    const closed = op === "reduce" ? nodes[id].sources.slice(1).filter((s) => opOf(nodes[s]) === "range") : [];
    const path = byAxis(nodes, own);
    const inside = [...path, ...byAxis(nodes, closed)];
    place(inside).inner.push(statement(nodes, id, names));
  }
  return top.inner;
}

function enter(at, range) {
  if (!at.loops.has(range)) {
    const loop = { range, inner: [], loops: new Map() };
    at.loops.set(range, loop);
    at.inner.push(loop);
  }
  return at.loops.get(range);
}

function byAxis(nodes, ranges) {
  return ranges.sort((a, b) => axisOf(nodes[a]) - axisOf(nodes[b]));
}

// By node, the loops that are open there.
function openLoops(nodes, ids) {
  const open = new Map();
  for (const id of ids) {
    const node = nodes[id];
    const op = opOf(node);
    const own = new Set();
    for (const source of node.sources) for (const range of open.get(source) ?? []) own.add(range);
    if (op === "range") own.add(id);
    if (op === "end" || op === "reduce") node.sources.slice(1).forEach((range) => own.delete(range));
    open.set(id, own);
  }
  return open;
}

function statement(nodes, id, names) {
  const node = nodes[id];
  const stops = new Map([...names].filter(([other]) => other !== id));
  if (opOf(node) === "reduce") {
    const how = /(add|mul|max|min|or|and)/.exec(node.label)?.[1] ?? "";
    const sign = { add: "+=", mul: "*=", or: "|=", and: "&=" }[how] ?? `${how}=`;
    return { id, what: `${names.get(id)} ${sign} `, text: formula(nodes, node.sources[0], 700, stops) };
  }
  const [memory, index, value] = node.sources;
  const at = expression(nodes, index, 9, stops);
  const gate = node.sources[3] === undefined ? "" : `  if ${formula(nodes, node.sources[3], 200, stops)}`;
  return { id, what: `${expression(nodes, memory, 2)}[${at}] = `, text: formula(nodes, value, 700, stops) + gate };
}

// Draws it. A click on a statement asks for its node.
export function nestElement(model, roots, choose) {
  const { nodes } = model;
  const draw = (part) => {
    if (part.range === undefined) {
      return h("div.statement", { onclick: () => choose(part.id) }, h("span.what", {}, part.what), part.text);
    }
    const node = nodes[part.range];
    const kind = /axis=\d+ (\w+)/.exec(node.label)?.[1] ?? "loop";
    const count = node.sources.map((source) => expression(nodes, source, 4)).join("..");
    const title = h("div.title", {}, `for r${axisOf(node)} in 0..${count} `, h("span.kind", {}, KINDS[kind] ?? kind));
    return h("div", { class: `loop ${kind}` }, title, part.inner.map(draw));
  };
  const nest = nestOf(model, roots);
  return h("div.nest", {}, nest.length > 0 ? nest.map(draw) : h("p.empty", {}, "no loops: nothing is stored here"));
}

// The same of lines that the server made: {depth, kind, text}.
export function linesElement(lines) {
  const top = h("div.nest");
  const open = [top];
  for (const { depth, kind, text } of lines) {
    open.length = Math.min(open.length, depth + 1);
    const title = kind && h("div.title", {}, `for ${text} `, h("span.kind", {}, KINDS[kind] ?? kind));
    const part = kind ? h("div", { class: `loop ${kind}` }, title) : h("div.statement", {}, cut(text, 700));
    open.at(-1).append(part);
    if (kind) open.push(part);
  }
  return top;
}

const KINDS = { loop: "one after the other", thread: "shared by threads", reduce: "a reduction", vector: "lanes of a vector",
  upcast: "unrolled, in registers", unroll: "unrolled", matrix: "a matrix unit", group: "work-groups", local: "work-items", global: "work-groups" };
