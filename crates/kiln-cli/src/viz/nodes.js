// Pictures and texts of nodes: kinds, expressions, groups, and what differs between two graphs.

import { cut } from "./format.js";

const VIEWS = new Set("reshape expand permute slice pad window flip shrink stride cat gather view".split(" "));
const SIGNS = { add: "+", sub: "-", mul: "*", div: "/", idiv: "/", floordiv: "/", mod: "%", rem: "%", and: "&", or: "|",
  xor: "^", cmplt: "<", cmpeq: "==", cmpne: "!=", cmple: "<=", shl: "<<", shr: ">>" };

export function opOf(node) {
  const space = node.label.indexOf(" ");
  return space < 0 ? node.label : node.label.slice(0, space);
}

// A number: its label has no type after a space.
export function isConstant(node) {
  return /^[-+0-9]|^(true|false|inf|nan)/i.test(node.label) && !node.label.includes(" ");
}

export function kindOf(node) {
  const op = opOf(node);
  if (node.label === "") return "other";
  if (isConstant(node)) return "constant";
  if (op === "param" || op === "buffer" || op === "load" || op === "local" || op === "lookup") return "data";
  if (op === "range" || op === "end") return "loop";
  if (op === "reduce" || op === "dot" || op === "mma" || op === "matmul") return "reduce";
  if (op === "store" || op === "update" || op === "sink" || op === "after") return "store";
  return VIEWS.has(op) ? "view" : "math";
}

// Whether a node is arithmetic of indices, which graphs show inside of the node that uses it.
export function isIndex(node) {
  return node.label.includes(" index") && opOf(node) !== "range" && opOf(node) !== "reduce" && opOf(node) !== "load";
}

export function axisOf(node) {
  return Number(/axis=(\d+)/.exec(node.label)?.[1] ?? -1);
}

function leafText(node) {
  const op = opOf(node);
  if (isConstant(node)) return node.label.replace(/:.*$/, "");
  if (op === "range") return `i${axisOf(node)}`;
  const slot = /slot=(\d+)/.exec(node.label) ?? /id=(\d+)/.exec(node.label);
  if (slot) return `${op === "param" ? "data" : "scratch"}${slot[1]}`;
  return null;
}

// A node as an expression, so many levels deep. `stops` says where a name stands instead.
export function expression(nodes, id, depth = 8, stops = null) {
  const node = nodes[id];
  const leaf = leafText(node);
  if (leaf !== null) return leaf;
  const stop = stops?.get(id);
  if (stop !== undefined) return stop;
  if (depth === 0) return "…";
  const sources = node.sources.map((source) => expression(nodes, source, depth - 1, stops));
  const op = opOf(node);
  if (op === "load") return `${sources[0]}[${sources[1] ?? "0"}]${sources[2] ? ` if ${sources[2]}` : ""}`;
  if (op === "where" && sources.length === 3) return `(${sources[0]} ? ${sources[1]} : ${sources[2]})`;
  if (op === "not" && sources.length === 1) return `!${sources[0]}`;
  if (op === "neg" && sources.length === 1) return `-${sources[0]}`;
  if (SIGNS[op] && sources.length === 2) return `(${sources[0]} ${SIGNS[op]} ${sources[1]})`;
  return `${op}(${sources.join(", ")})`;
}

// The same without the outer brackets, and not longer than people read.
export function formula(nodes, id, most = 600, stops = null) {
  const text = expression(nodes, id, 9, stops);
  const bare = text.startsWith("(") && closes(text) ? text.slice(1, -1) : text;
  return cut(bare, most);
}

// Whether the first bracket closes at the end.
function closes(text) {
  let open = 0;
  for (let at = 0; at < text.length; at++) {
    open += text[at] === "(" ? 1 : text[at] === ")" ? -1 : 0;
    if (open === 0) return at === text.length - 1;
  }
  return false;
}

// What the graph of `ids` looks like. Options: marks (id -> mark), folds (constants and indices inside of their users),
// groups (a name for a node, or null) with those that are open.
export function picture(model, ids, { marks = new Map(), folds = true, group = null, open = new Set() } = {}) {
  const { nodes } = model;
  const keys = group ? groupKeys(nodes, ids, group, open) : null;
  const isFolded = (id) => folds && !marks.has(id) && (isConstant(nodes[id]) || isIndex(nodes[id]));
  const isNeeded = neededOf(nodes, ids, folds);
  const [items, from, to, at, seen] = [[], [], [], new Map(), new Set()];
  const place = (id) => {
    const key = keys?.get(id) ?? id;
    if (!at.has(key)) {
      at.set(key, items.length);
      items.push(key === id ? nodeItem(nodes, id, marks, folds) : { label: key.name, kind: "group", ids: [], group: key });
    }
    const item = items[at.get(key)];
    if (item.ids) {
      item.ids.push(id);
      if (marks.has(id)) item.mark ??= marks.get(id);
    }
    return at.get(key);
  };
  for (const id of ids) {
    if (isFolded(id) && isNeeded(id)) continue;
    const user = place(id);
    for (const source of shownSources(nodes, id, isFolded, folds)) {
      const other = place(source);
      const pair = other * 4294967 + user;
      if (other === user || seen.has(pair)) continue;
      seen.add(pair);
      from.push(other);
      to.push(user);
    }
  }
  for (const item of items) if (item.ids) finishGroup(nodes, item);
  return { items, from, to, at: (id) => at.get(keys?.get(id) ?? id) ?? -1 };
}

// Folded nodes are left out if somebody who shows them uses them: a graph that is an index alone shows itself.
function neededOf(nodes, ids, folds) {
  if (!folds) return () => false;
  const used = new Set();
  for (const id of ids) for (const source of nodes[id].sources) used.add(source);
  return (id) => used.has(id);
}

function shownSources(nodes, id, isFolded) {
  const shown = new Set();
  const stack = [...nodes[id].sources];
  const passed = new Set();
  while (stack.length > 0 && passed.size < 200) {
    const source = stack.pop();
    if (passed.has(source)) continue;
    passed.add(source);
    if (!isFolded(source)) shown.add(source);
    else if (opOf(nodes[id]) !== "load" && opOf(nodes[id]) !== "store") stack.push(...nodes[source].sources);
  }
  return shown;
}

function nodeItem(nodes, id, marks, folds) {
  const node = nodes[id];
  const op = opOf(node);
  const kind = kindOf(node);
  const rest = node.label.slice(op.length + 1);
  const constants = folds ? node.sources.filter((s) => isConstant(nodes[s])).map((s) => leafText(nodes[s])) : [];
  let label = kind === "loop" && op === "range" ? `i${axisOf(node)} ${rest.replace(/^\S+ axis=\d+ ?/, "")}` : op;
  if (kind === "constant") label = node.label;
  if (op === "param" || op === "local") label = `${leafText(node) ?? op} ${rest.replace(/slot=\d+ |id=\d+ /, "")}`;
  if (op === "range") label = `${label} ${leafText(nodes[node.sources[0]] ?? node) ?? ""}`;
  else if (constants.length > 0 && constants.length < 4) label = `${label} ${constants.join(" ")}`;
  let sub = node.shape.length > 0 ? `${/^\S+/.exec(rest)?.[0] ?? ""} [${node.shape.join(", ")}]` : rest;
  if (folds && (op === "load" || op === "store") && node.sources[1] !== undefined) {
    sub = `[${cut(expression(nodes, node.sources[1], 6).replace(/^\((.*)\)$/, "$1"), 44)}]`;
  }
  return { label, sub: op === "param" || op === "range" || kind === "constant" ? "" : cut(sub, 46), kind, id, mark: marks.get(id) };
}

// Nodes of one maker that hang together are a group. A path that leaves a group does not come back to it: what comes
// after has another depth, so that groups have no circle.
function groupKeys(nodes, ids, group, open) {
  const [keys, depth, groups] = [new Map(), new Map(), new Map()];
  for (const id of ids) {
    const own = group(nodes[id]);
    let level = 0;
    for (const source of nodes[id].sources) {
      const other = group(nodes[source]);
      level = Math.max(level, (depth.get(source) ?? 0) + (other === own ? 0 : 1));
    }
    depth.set(id, level);
    if (own === null) continue;
    const name = `${own} @${level}`;
    if (open.has(name)) continue;
    if (!groups.has(name)) groups.set(name, { name: own, key: name });
    keys.set(id, groups.get(name));
  }
  return keys;
}

function finishGroup(nodes, item) {
  const { ids } = item;
  const space = item.label.indexOf(" ");
  const [method, place] = space < 0 ? [item.label, "kiln"] : [item.label.slice(0, space), item.label.slice(space + 1)];
  const last = nodes[ids.at(-1)];
  item.label = `${method}${last.shape.length > 0 ? ` [${last.shape.join(", ")}]` : ""}`;
  item.sub = `${place.split("/").at(-1)} · ${ids.length === 1 ? opOf(last) : `${ids.length} nodes`}`;
  item.id = ids.at(-1);
}

// What differs between two graphs: a node of the first alone is gone, one of the second alone is new.
export function difference(model, before, after) {
  const [old, now] = [model.below(before), model.below(after)];
  const [inOld, inNow] = [new Set(old), new Set(now)];
  const marks = new Map();
  for (const id of old) if (!inNow.has(id)) marks.set(id, "gone");
  for (const id of now) if (!inOld.has(id)) marks.set(id, "new");
  return { old, now, marks, all: Int32Array.from(new Set([...old, ...now])).sort() };
}
