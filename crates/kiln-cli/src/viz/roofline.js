// The roofline: what the machine can do by arithmetic a byte, and where kernels stand under it.

import { h, svg } from "./dom.js";
import { count, share, time } from "./format.js";

const [WIDE, HIGH, LEFT, BOTTOM] = [720, 400, 64, 40];

// The ceilings of the kernel's device in GFLOPS and GB/s: measured, else told, else the best that was seen in the record.
function ceilings(model, points, chosen) {
  const speed = model.speed(chosen?.launches[0]?.device ?? model.record.devices[0]?.name);
  if (speed) return speed;
  const best = (of) => points.reduce((most, point) => Math.max(most, of(point)), 1e-3);
  return { gflops: best((p) => p.gflops), gbps: best((p) => p.gbps) };
}

function pointsOf(model) {
  const all = model.kernels.filter((kernel) => kernel.launches.length > 0 && kernel.work && kernel.work[1] > 0 && kernel.median > 0);
  return all.map((kernel) => {
    const { median } = kernel;
    const [flops, bytes] = kernel.work;
    return { kernel, median, gflops: flops / (median * 1e3), gbps: bytes / (median * 1e3), by: Math.max(flops, 1) / bytes };
  });
}

export function roofline(model, chosen, open) {
  const points = pointsOf(model);
  if (points.length === 0) return h("p.empty", {}, "no kernel ran");
  const roof = ceilings(model, points, chosen);
  const few = points.map((p) => p.by);
  const [low, high] = [Math.max(0.01, Math.min(0.05, ...few)), Math.max(64, ...few)];
  const top = Math.max(roof.gflops, ...points.map((p) => p.gflops)) * 1.6;
  const least = Math.min(top / 1e4, roof.gbps * low);
  const scale = (value, from, to, length) => (Math.log(Math.max(value, from) / from) / Math.log(to / from)) * length;
  const x = (by) => LEFT + scale(by, low, high, WIDE - LEFT - 20);
  const y = (gflops) => HIGH - BOTTOM - scale(gflops, least, top, HIGH - BOTTOM - 20);
  const ridge = roof.gflops / roof.gbps;
  const line = [[low, Math.max(least, low * roof.gbps)], [ridge, roof.gflops], [high, roof.gflops]];
  const path = line.map(([a, b], at) => `${at === 0 ? "M" : "L"}${x(a)} ${y(b)}`).join("");
  const dots = points.map((point) => svg("circle", { class: point.kernel === chosen ? "kernel here" : "kernel", cx: x(point.by),
    cy: y(point.gflops), r: point.kernel === chosen ? 7 : 4.5, onclick: () => open(point.kernel) },
  svg("title", {}, `${point.kernel.name}: median ${time(point.median)}, ${point.gflops.toFixed(2)} GFLOPS, ${point.gbps.toFixed(2)} GB/s`)));
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, width: WIDE, height: HIGH, role: "img", "aria-label": "Roofline" },
    ...axes(x, y, low, high, least, top), svg("path", { class: "roof", d: path }),
    svg("text", { x: x(high) - 4, y: y(roof.gflops) - 6, "text-anchor": "end" }, `${roof.gflops.toFixed(1)} GFLOPS`),
    svg("text", { x: x(low) + 8, y: y(Math.max(least, low * roof.gbps)) - 14 }, `${roof.gbps.toFixed(1)} GB/s`), ...dots);
  return h("div", {}, told(points.find((p) => p.kernel === chosen), roof), picture, h("p.dim", {}, origin(roof)));
}

function origin({ isMeasured, threads }) {
  if (isMeasured === undefined) return "The roof is the best that a kernel reached in this record: nobody told how fast the device is.";
  const how = isMeasured ? "was measured when the program ended" : "the description of the device says; it was not measured: the program did not come to its end, or was built without optimization";
  return `The roof is what ${how}, with ${threads} thread${threads === 1 ? "" : "s"}, from memory. What lies in a cache can be faster than its slope.`;
}

// Where the kernel stands, in words.
function told(point, roof) {
  if (!point) return h("p", {}, "This kernel did not run.");
  const [flops, bytes] = point.kernel.work;
  const [math, memory] = [flops / (roof.gflops * 1e3), bytes / (roof.gbps * 1e3)];
  const floor = Math.max(math, memory);
  const what = math > memory ? "arithmetic" : "memory";
  const reached = floor <= point.median ? `${share(floor, point.median)} of the roof.` : "faster than memory: its data were in a cache.";
  return h("p", {}, `${(flops / bytes).toFixed(2)} flops a byte (${count(flops)} flops): ${what} is the limit. The floor is `,
    h("b", {}, time(floor)), `, its median launch took `, h("b", {}, time(point.median)), `: ${reached}`);
}

function axes(x, y, low, high, least, top) {
  const marks = [];
  for (let power = -3; power <= 6; power++) {
    const value = 10 ** power;
    if (value > low && value < high) {
      marks.push(svg("line", { class: "axis", x1: x(value), x2: x(value), y1: 16, y2: HIGH - BOTTOM }),
        svg("text", { class: "dimmed", x: x(value), y: HIGH - BOTTOM + 14, "text-anchor": "middle" }, String(value)));
    }
    if (value > least && value < top) {
      marks.push(svg("line", { class: "axis", x1: LEFT, x2: WIDE - 20, y1: y(value), y2: y(value) }),
        svg("text", { class: "dimmed", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)));
    }
  }
  return [...marks, svg("text", { class: "dimmed", x: WIDE / 2, y: HIGH - 8, "text-anchor": "middle" }, "flops a byte"),
    svg("text", { class: "dimmed", x: 4, y: 12 }, "GFLOPS")];
}
