// A schedule as a graph: kernels, and what flows between them with its bytes.

import { size } from "./format.js";

const MOST_INPUTS = 60;

export function scheduleGraph(model, schedule) {
  const [items, from, to, texts] = [[], [], [], []];
  const writers = new Map();
  const memory = new Map();
  const edge = (a, b, text) => {
    from.push(a);
    to.push(b);
    texts.push(text);
  };
  for (const place of schedule.places) {
    const { kernel } = place;
    items.push({ label: kernel.name, sub: methodsOf(place), kind: "kernel", kernel, place });
  }
  const inputs = new Set(schedule.places.flatMap((p) => p.arguments.map(([name]) => name).filter(isInput)));
  const showsInputs = inputs.size <= MOST_INPUTS;
  const copies = copiesFor(model, schedule);
  schedule.places.forEach((place, at) => {
    for (const [name, bytes] of place.arguments) {
      const writer = writers.get(name);
      if (writer !== undefined) edge(writer, at, size(bytes));
      else if (!isInput(name)) writers.set(name, at);
      else if (showsInputs) edge(inputItem(items, memory, copies, name, bytes), at, size(bytes));
    }
  });
  for (const [name, at] of writers) {
    if (!name.startsWith("output")) continue;
    const bytes = schedule.places[at].arguments.find(([other]) => other === name)[1];
    items.push({ label: name, sub: "", kind: "store" });
    edge(at, items.length - 1, size(bytes));
  }
  return { items, from, to, texts };
}

function isInput(name) {
  return name.startsWith("input");
}

function methodsOf(place) {
  const methods = [...new Set(place.methods.map((method) => method.split(" ")[0]))];
  return methods.join(", ");
}

// What was copied between the schedule before and this one's first kernel.
function copiesFor(model, schedule) {
  const before = model.schedules[schedule.at - 1]?.at_us ?? -Infinity;
  const until = schedule.launches[0]?.at ?? schedule.at_us;
  return model.record.copies.filter(([device, from, , at]) => from !== device && before < at && at < until);
}

// A box for an input. If exactly one copy has its bytes, it came by that copy.
function inputItem(items, memory, copies, name, bytes) {
  if (!memory.has(name)) {
    const of = copies.filter((copy) => copy[2] === bytes);
    memory.set(name, items.length);
    if (of.length === 1) items.push({ label: `copy ${of[0][1]} → ${of[0][0]}`, sub: `${name}, ${size(bytes)}`, kind: "copy" });
    else items.push({ label: name, sub: "", kind: "data" });
  }
  return memory.get(name);
}
