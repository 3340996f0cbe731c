// Why two kernels of a schedule are not one: what flows between them, and what each would need.

import { h, link } from "./dom.js";
import { size } from "./format.js";
import { nestOf } from "./nest.js";
import { axisOf, expression } from "./nodes.js";
import { decisionElement } from "./steps.js";

// Paragraphs for two places of a schedule.
export function explainPair(model, schedule, first, second, app) {
  const [a, b] = [Math.min(first, second), Math.max(first, second)].map((at) => schedule.places[at]);
  if (!a || !b || a === b) return [h("p.dim", {}, "Choose two kernels.")];
  const flow = flowOf(schedule, a, b);
  const parts = [h("p", {}, ...kernelLinks(app, [a, b])), ...told(model, schedule, a, b, flow, app)];
  return [...parts, h("h3", {}, "Their loops"), h("p.mono", {}, `${a.at + 1}: ${loopsOf(model, a)}`),
    h("p.mono", {}, `${b.at + 1}: ${loopsOf(model, b)}`)];
}

function kernelLinks(app, places) {
  return places.flatMap((p, at) => [at > 0 ? " and " : "", link(`${p.at + 1}: ${p.kernel.name}`, () => app.go("kernel", { k: p.kernel.at }))]);
}

// Who writes what: the first kernel that names a temporary or an output. Then what b reads of a, directly or through others.
function flowOf(schedule, a, b) {
  const writer = new Map();
  const needs = schedule.places.map(() => new Map());
  for (const place of schedule.places) {
    for (const [name, bytes] of place.arguments) {
      if (name.startsWith("input")) continue;
      if (!writer.has(name)) writer.set(name, place.at);
      else if (writer.get(name) !== place.at) needs[place.at].set(name, bytes);
    }
  }
  const direct = [...needs[b.at]].filter(([name]) => writer.get(name) === a.at);
  const between = new Set();
  for (let at = a.at + 1; at <= b.at; at++) {
    const uses = [...needs[at].keys()].map((name) => writer.get(name));
    if (uses.some((from) => from === a.at || between.has(from))) between.add(at);
  }
  const isReached = between.delete(b.at);
  const through = [...between].filter((at) => [...needs[b.at].keys()].some((name) => writer.get(name) === at));
  const inputs = (place) => new Set(place.arguments.map(([name]) => name));
  const shared = [...inputs(a)].filter((name) => inputs(b).has(name) && writer.get(name) !== a.at);
  return { direct, through: isReached ? through : [], shared };
}

function told(model, schedule, a, b, flow, app) {
  if (flow.direct.length > 0) return stored(model, schedule, a, b, flow.direct, app);
  if (flow.through.length > 0) {
    const names = flow.through.map((at) => `${at + 1}: ${schedule.places[at].kernel.name}`).join(", ");
    return [h("p", {}, `${b.at + 1} needs what ${a.at + 1} computes only through ${names}. One kernel would have to hold these too.`),
      ...apart(model, schedule, [a, b], ["merge", "chain"])];
  }
  const [one, other] = [loopsOf(model, a), loopsOf(model, b)];
  const loops = one === other ? "Their loops are the same." : "Their loops differ, and kernels side by side are merged only over the same loops.";
  const shared = flow.shared.length > 0 ? `Both read ${flow.shared.join(", ")}.`
    : "They read nothing in common, and merging is for kernels that share what they read.";
  return [h("p", {}, `Nothing flows from ${a.at + 1} to ${b.at + 1}: each could run without the other. ${shared} ${loops}`),
    h("p.dim", {}, "Pass merge makes one kernel of several side by side, batch of small ones that are equal but for their arguments."),
    ...apart(model, schedule, [a, b], ["merge", "batch"])];
}

// What passes decided about the kernels at these places, with the reasons.
function apart(model, schedule, places, passes) {
  const plan = model.schedules[schedule.same ?? schedule.at];
  const decisions = model.decisions(plan.steps);
  return places.flatMap((place) => {
    const stored = new Set(model.storedBy(schedule, place));
    const own = decisions.filter((d) => d.node !== null && stored.has(d.node) && passes.includes(d.about.split(": ")[0]));
    return own.map((d) => h("p", {}, h("b", {}, `${place.at + 1}, ${d.about.split(": ")[0]}: `), `${d.alternatives[d.chosen][0]}`,
      h("span.dim", {}, d.note ? `: ${d.note}` : "")));
  });
}

// The values that a stores for b, with what was decided about them.
function stored(model, schedule, a, b, direct, app) {
  const bytes = direct.map(([name, count]) => `${name} (${size(count)})`).join(", ");
  const plan = model.schedules[schedule.same ?? schedule.at];
  const values = new Set(direct.map(([name]) => model.valueOf(schedule, name)));
  const about = model.decisions(plan.steps).filter((d) => d.node !== null && values.has(d.node));
  const [joins, taken] = [about.filter(isOfPass), about.filter((d) => !isOfPass(d))];
  const said = [h("p", {}, `${b.at + 1} reads ${bytes}, which ${a.at + 1} stores.`)];
  if (direct.some(([name]) => name.startsWith("output"))) {
    said.push(h("p", {}, "An output: the program holds this value, so that it has to be in memory in any case."));
  }
  if (taken.length > 0) said.push(h("p", {}, "Storing was cheaper than computing it again where it is used:"));
  for (const d of taken) {
    said.push(h("div.sample", {}, h("div.body", {}, decisionElement(d),
      link("where it was decided →", () => app.go("decisions", { s: plan.at, d: d.step, a: a.at, b: b.at })))));
  }
  if (taken.length === 0) {
    said.push(h("p", {}, "No price was asked: such a value is always stored. It is a root, a write, a sum that was split for threads, " +
      "what a write would overwrite, or the kernel that needs it is full (must_store in schedule/assign.rs)."));
  }
  const chained = joins.filter((d) => d.about.startsWith("chain: "));
  if (chained.length > 0) said.push(h("p", {}, "Two loop nests in one kernel, with the value in scratch, instead of two kernels?"));
  for (const d of chained) said.push(h("div.sample", {}, h("div.body", {}, decisionElement(d))));
  return said;
}

// Whether a decision is about kernels that could be one, and not about a value.
function isOfPass(decision) {
  return /^(merge|chain|batch): /.test(decision.about);
}

// The loops of a kernel as it was scheduled: "r0 16, r1 32, reduce r4 9".
function loopsOf(model, place) {
  const { compiled } = place.kernel;
  if (!compiled) return "not recorded";
  const loops = [];
  const walk = (parts) => parts.forEach((part) => {
    if (part.range === undefined) return;
    const node = model.nodes[part.range];
    const kind = /axis=\d+ reduce/.test(node.label) ? "reduce " : "";
    loops.push(`${kind}r${axisOf(node)} ${expression(model.nodes, node.sources[0], 3)}`);
    walk(part.inner);
  });
  walk(nestOf(model, [compiled.graphs[0]]));
  return loops.join(", ") || "no loops";
}
