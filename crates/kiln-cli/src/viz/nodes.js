// Pictures and texts of nodes: kinds, expressions, groups, and what differs between two graphs.

import { cut } from "./format.js";

const VIEWS = new Set("reshape expand permute slice pad window flip shrink stride cat gather view".split(" "));
const SIGNS = { add: "+", sub: "-", mul: "*", div: "/", idiv: "/", floordiv: "/", mod: "%", rem: "%", floormod: "%", and: "&", or: "|",
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
  if (op === "range") return `r${axisOf(node)}`;
  const slot = /slot=(\d+)/.exec(node.label) ?? /id=(\d+)/.exec(node.label);
  // a number that is known when the kernel is launched, or a place held for one
  if (op === "var") return `v${(slot?.[1] ?? "").slice(-3)}`;
  if (slot) return `${op === "param" ? "p" : / register /.test(node.label) ? "reg" : "scratch"}${slot[1]}`;
  return null;
}

const STRENGTH = { mul: 5, div: 5, idiv: 5, floordiv: 5, mod: 5, rem: 5, floormod: 5, add: 4, sub: 4, shl: 3, shr: 3,
  cmplt: 2, cmple: 2, cmpeq: 2, cmpne: 2, and: 1, xor: 1, or: 1 };

// A node as an expression, so many levels deep. `stops` says where a name stands instead.
export function expression(nodes, id, depth = 8, stops = null) {
  return spelled(nodes, id, depth, stops)[0];
}

// The text, and how strongly its outermost sign binds. A chain of one sign is one level.
function spelled(nodes, id, depth, stops) {
  const node = nodes[id];
  const stop = stops?.get(id) ?? leafText(node);
  if (stop !== null) return [stop, 9];
  if (depth === 0) return ["…", 9];
  const op = opOf(node);
  const { sources } = node;
  const text = (at) => spelled(nodes, sources[at], depth - 1, stops)[0];
  if (op === "after") return [text(0), 9];
  if (op === "load") return [`${text(0)}[${sources.length > 1 ? text(1) : "0"}]${sources.length > 2 ? ` if ${text(2)}` : ""}`, 9];
  if (op === "where" && sources.length === 3) return [`${text(0)} ? ${text(1)} : ${text(2)}`, 0];
  if (SIGNS[op] && sources.length === 2) return binary(nodes, op, sources, depth, stops);
  if ((op === "not" || op === "neg") && sources.length === 1) return [`${op === "not" ? "!" : "-"}${within(nodes, sources[0], depth - 1, stops, 6)}`, 6];
  return [`${op}(${sources.map((_, at) => text(at)).join(", ")})`, 9];
}

function binary(nodes, op, [left, right], depth, stops) {
  const own = STRENGTH[op];
  const isChain = op === opOf(nodes[left]) && depth > 1;
  const one = within(nodes, left, isChain ? depth - 0.02 : depth - 1, stops, own);
  const other = within(nodes, right, depth - 1, stops, own + 1);
  if (op === "add" && other.startsWith("-")) return [`${one} - ${other.slice(1)}`, own];
  return [`${one} ${SIGNS[op]} ${other}`, own];
}

// An operand: in brackets if its sign binds less than the one around it.
function within(nodes, id, depth, stops, strength) {
  const [text, own] = spelled(nodes, id, Math.max(0, depth), stops);
  return own < strength ? `(${text})` : text;
}

// The same, not longer than people read.
export function formula(nodes, id, most = 600, stops = null) {
  return cut(expression(nodes, id, 9, stops), most);
}

// What the graph of `ids` looks like. Options: marks (id -> mark), folds (constants and indices inside of their users),
// groups (a name for a node, or null) with those that are open, twins (what a node was before: see `difference`).
export function picture(model, ids, { marks = new Map(), folds = true, group = null, open = new Set(), twins = new Map() } = {}) {
  const { nodes } = model;
  const keys = group ? groupKeys(nodes, ids, group, open) : null;
  // a graph of nothing else shows what others leave out
  const isSmall = (id) => !marks.has(id) && (isConstant(nodes[id]) || isIndex(nodes[id]));
  const isFolded = folds && !ids.every(isSmall) ? isSmall : () => false;
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
    if (isFolded(id)) continue;
    const user = place(id);
    for (const source of shownSources(nodes, id, isFolded, twins.get(id), marks)) {
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

// The sources of a node that are drawn; those of its twin too that are gone.
function shownSources(nodes, id, isFolded, twin, marks) {
  const shown = new Set();
  const lost = twin === undefined ? [] : nodes[twin].sources.filter((source) => marks.get(source) === "gone");
  const stack = [...nodes[id].sources, ...lost];
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
  let label = kind === "loop" && op === "range" ? `r${axisOf(node)} ${rest.replace(/^\S+ axis=\d+ ?/, "")}` : op;
  if (kind === "constant") label = node.label;
  if (op === "param" || op === "local") label = `${leafText(node) ?? op} ${rest.replace(/slot=\d+ |id=\d+ /, "")}`;
  if (op === "range") label = `${label} ${leafText(nodes[node.sources[0]] ?? node) ?? ""}`;
  else if (constants.length > 0 && constants.length < 4) label = `${label} ${constants.join(" ")}`;
  let sub = node.shape.length > 0 ? `${/^\S+/.exec(rest)?.[0] ?? ""} [${node.shape.join(", ")}]` : rest;
  if (folds && (op === "load" || op === "store") && node.sources[1] !== undefined) {
    sub = `[${cut(expression(nodes, node.sources[1], 6), 44)}]`;
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
  absorb(nodes, ids, keys);
  return keys;
}

// What nobody made, such as data, belongs to the group that uses it, if only one does.
function absorb(nodes, ids, keys) {
  const users = new Map();
  for (let at = ids.length - 1; at >= 0; at--) {
    const id = ids[at];
    const used = users.get(id);
    if (!keys.has(id) && used?.key && nodes[id].by === undefined) keys.set(id, used.key);
    const key = keys.get(id) ?? null;
    for (const source of nodes[id].sources) {
      const all = users.get(source);
      if (all === undefined) users.set(source, { key });
      else if (all.key !== key) all.key = null;
    }
  }
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

// What differs between two graphs: a node of the first alone is gone, one of the second alone is new. A new node that only
// has other sources than its twin that is gone is carried: one of them is drawn.
export function difference(model, before, after) {
  const [old, now] = [model.below(before), model.below(after)];
  const [inOld, inNow] = [new Set(old), new Set(now)];
  const gone = old.filter((id) => !inNow.has(id));
  const fresh = now.filter((id) => !inOld.has(id));
  const twins = twinsOf(model.nodes, gone, fresh, inOld, inNow);
  const lost = new Set(twins.values());
  const marks = new Map();
  for (const id of gone) if (!lost.has(id)) marks.set(id, "gone");
  for (const id of fresh) marks.set(id, twins.has(id) ? "carried" : "new");
  const all = Int32Array.from(new Set([...old.filter((id) => !lost.has(id)), ...now])).sort();
  return { old, now, marks, twins, all };
}

// New nodes with what they were: of the same label and shape, with the same sources where these did not change.
function twinsOf(nodes, gone, fresh, inOld, inNow) {
  const key = (id, isKept) => {
    const { label, shape, sources } = nodes[id];
    return `${label}|${shape}|${sources.map((source) => (isKept.has(source) ? source : "*"))}`;
  };
  const waiting = new Map();
  for (const id of gone) {
    if (nodes[id].sources.every((source) => inNow.has(source))) continue;
    const own = key(id, inNow);
    if (!waiting.has(own)) waiting.set(own, []);
    waiting.get(own).push(id);
  }
  const twins = new Map();
  for (const id of fresh) {
    const twin = waiting.get(key(id, inOld))?.shift();
    if (twin !== undefined) twins.set(id, twin);
  }
  return twins;
}
