// Where nodes come from and where they go: what a node of one pass's graph is in the next, and which rules made it so.
//
// A pass that rewrites is followed rule by rule: a node over normal sources, then what a rule made of it, and so on. Other
// passes say nothing of single nodes. There a node is what has its label and its kept sources, or what stands in its place
// below a node that is known.

import { difference, opOf } from "./nodes.js";

const MOST = 12;

// What a node becomes from the pass of this row on: [{pass, step, how, rules, to}], a change each.
export function becomes(model, rows, at, id) {
  const changes = [];
  for (const pass of passesOf(model, rows).filter((each) => each.row >= at)) {
    const is = pass.image(id);
    if (is.to === id) continue;
    changes.push({ ...is, from: id, pass: pass.name, step: pass.step });
    if (is.to === null || changes.length === MOST) break;
    id = is.to;
  }
  return changes;
}

// What it was, from the pass of this row back.
export function comesFrom(model, rows, at, id) {
  const changes = [];
  for (const pass of passesOf(model, rows).filter((each) => each.row <= at).reverse()) {
    const was = pass.origin(id);
    if (was === null || was.to === id) continue;
    changes.push({ ...was, pass: pass.name, step: pass.step });
    if (was.to === null || changes.length === MOST) break;
    id = was.to;
  }
  return changes;
}

const known = new WeakMap();

function passesOf(model, rows) {
  if (!known.has(rows)) {
    const all = [];
    rows.forEach((row, at) => {
      if (row.kind === "pass") all.push(new Pass(model, row, at));
      else if (row.kind === "rewrite") all.at(-1)?.rewrites.push({ ...row.of, step: row.step });
    });
    known.set(rows, all);
  }
  return known.get(rows);
}

// A pass, as a map from its graph before to its graph after.
class Pass {
  constructor(model, { of, step }, row) {
    Object.assign(this, { model, of, step, row, rewrites: [], name: `${of.stage} / ${of.pass}`, normal: new Map() });
  }

  // What is known once somebody asks: which nodes there are, and the rewrites of a node, in order.
  open() {
    if (this.before) return;
    const { model, of } = this;
    this.change = difference(model, of.before, of.after);
    [this.before, this.after] = [new Set(this.change.old), new Set(this.change.now)];
    this.rules = new Map();
    for (const rewrite of this.rewrites) {
      if (!this.rules.has(rewrite.before)) this.rules.set(rewrite.before, []);
      this.rules.get(rewrite.before).push(rewrite);
    }
  }

  // What a node of the graph before is in the graph after: {to, how, rules}, where `to` is null if it is gone.
  image(id) {
    this.open();
    if (this.after.has(id)) return { to: id, how: "same", rules: [] };
    const { to, rules } = this.normalized(id);
    if (to !== null && this.after.has(to)) return { to, how: rules.length > 0 ? "rule" : "sources", rules };
    this.aligned ??= this.align();
    return this.aligned.get(id) ?? { to: null, how: "gone", rules };
  }

  // What a node of the graph after was: the same, null if nobody knows. The node before whose image it is, and where there
  // is none, the node that the rule which made it was given.
  origin(id) {
    this.open();
    if (!this.after.has(id)) return null;
    if (this.before.has(id)) return { to: id, how: "same", rules: [] };
    if (!this.origins) {
      this.origins = new Map();
      for (const old of this.before) {
        const is = this.image(old);
        if (is.to !== null && is.to !== old && !this.origins.has(is.to)) this.origins.set(is.to, { ...is, to: old });
      }
    }
    return this.origins.get(id) ?? this.maker(id);
  }

  maker(id) {
    const { nodes } = this.model;
    const makes = ({ before, after }) => after === id || (nodes[after].sources.includes(id) && !nodes[before].sources.includes(id));
    const made = this.rewrites.find(makes);
    return made ? { to: made.before, how: "made", rules: [made] } : null;
  }

  // The normal form of a node, as far as the record tells: {to, rules}. Sources first, without recursion.
  normalized(root) {
    const { normal } = this;
    const open = new Set();
    const stack = [root];
    while (stack.length > 0) {
      const id = stack.at(-1);
      if (normal.has(id)) {
        stack.pop();
        continue;
      }
      open.add(id);
      const missing = this.model.nodes[id].sources.filter((source) => !normal.has(source) && !open.has(source));
      if (missing.length > 0) {
        stack.push(...missing);
        continue;
      }
      const over = this.over(id);
      const rewrite = over === null ? null : this.rules.get(over)?.[0] ?? null;
      if (rewrite && !normal.has(rewrite.after) && !open.has(rewrite.after)) {
        stack.push(rewrite.after);
        continue;
      }
      const next = rewrite ? normal.get(rewrite.after) ?? { to: rewrite.after, rules: [] } : { to: over, rules: [] };
      normal.set(id, { to: next.to, rules: rewrite ? [rewrite, ...next.rules].slice(0, 6) : [] });
      stack.pop();
    }
    return normal.get(root);
  }

  // The same node over normal sources; null if the record has none.
  over(id) {
    const { sources } = this.model.nodes[id];
    const now = sources.map((source) => this.normal.get(source)?.to ?? source);
    return now.every((each, at) => each === sources[at]) ? id : this.model.nodeOver(id, now);
  }

  // Nodes with their images by what is around them: twins, and what stands in the same place below.
  align() {
    const { nodes } = this.model;
    const found = new Map();
    const { before, after } = this.of;
    if (before.length === after.length) before.forEach((id, at) => this.pair(found, id, after[at], "place"));
    for (const [now, old] of this.change.twins) found.set(old, { to: now, how: "sources", rules: [] });
    const old = [...this.change.old].reverse();
    for (const id of old) {
      const to = this.after.has(id) ? id : found.get(id)?.to;
      if (to === undefined || opOf(nodes[to]) !== opOf(nodes[id])) continue;
      // an op over loops may have lost some of them, which come last
      const count = Math.min(nodes[to].sources.length, nodes[id].sources.length);
      nodes[id].sources.slice(0, count).forEach((source, at) => this.pair(found, source, nodes[to].sources[at], "place"));
    }
    return found;
  }

  pair(found, old, now, how) {
    const { nodes } = this.model;
    // a scalar that every lane gets is seen below the vector of it
    if (opOf(nodes[now]) === "splat" && opOf(nodes[old]) !== "splat" && nodes[now].sources.length > 0) now = nodes[now].sources[0];
    if (!found.has(old) && !this.after.has(old) && !this.before.has(now)) found.set(old, { to: now, how, rules: [] });
  }
}
