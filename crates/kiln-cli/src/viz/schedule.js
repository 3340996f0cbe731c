// A schedule as a graph: kernels, and what flows between them with its bytes.

import { cut, size, time } from "./format.js";

// Items and edges. What comes from outside and what goes there are boxes of their own only if asked for; else a kernel
// says how much of it there is.
export function scheduleGraph(model, schedule, { isWhole = false } = {}) {
  const graph = { items: [], from: [], to: [], bytes: [], texts: [], known: new Map() };
  const writers = new Map();
  const outside = new Map();
  const copies = copiesFor(model, schedule);
  for (const place of schedule.places) graph.items.push(kernelItem(place));
  for (const place of schedule.places) {
    for (const [name, bytes] of place.arguments) {
      const writer = writers.get(name);
      const copy = isInput(name) ? copies.filter((each) => each.bytes === bytes) : [];
      if (writer !== undefined) edge(graph, writer, place.at, bytes);
      else if (!isInput(name)) writers.set(name, place.at);
      else if (copy.length === 1) edge(graph, box(graph, outside, `${name}`, `copy ${copy[0].from} → ${copy[0].device}`, "copy"), place.at, bytes);
      else if (isWhole) edge(graph, box(graph, outside, name, name, "data"), place.at, bytes);
    }
  }
  if (isWhole) for (const [name, at] of writers) if (isOutput(name)) outputBox(graph, schedule, name, at);
  return graph;
}

// Values that flow the same way are one edge, with the bytes of all.
function edge({ from, to, bytes: flows, texts, known }, a, b, bytes) {
  const key = `${a} ${b}`;
  const at = known.get(key) ?? from.length;
  known.set(key, at);
  [from[at], to[at], flows[at]] = [a, b, (flows[at] ?? 0) + bytes];
  texts[at] = size(flows[at]);
}

function box({ items }, known, name, label, kind) {
  if (!known.has(name)) {
    known.set(name, items.length);
    items.push({ label, sub: label === name ? "" : name, kind });
  }
  return known.get(name);
}

function outputBox(graph, schedule, name, at) {
  const bytes = schedule.places[at].arguments.find(([other]) => other === name)[1];
  graph.items.push({ label: name, sub: "", kind: "store" });
  edge(graph, at, graph.items.length - 1, bytes);
}

function kernelItem(place) {
  const methods = [...new Set(place.methods.map((method) => method.split(" ")[0]))].join(", ");
  const { kernel } = place;
  const took = kernel.median != null ? ` · ${time(kernel.median)}` : "";
  return { label: `${place.at + 1}: ${cut(methods || kernel.name, 26)}`, sub: `${cut(kernel.name, 16)}${took}`, kind: "kernel", kernel, place };
}

function isInput(name) {
  return name.startsWith("input");
}

function isOutput(name) {
  return name.startsWith("output");
}

// What was copied between the schedule before and this one's first kernel.
function copiesFor(model, schedule) {
  const before = model.schedules[schedule.at - 1]?.at_us ?? -Infinity;
  const until = schedule.launches[0]?.at ?? schedule.at_us;
  return model.record.copies.filter(({ device, from, at }) => from !== device && before < at && at < until);
}
