// The memory plan of a schedule: which temporaries lie where, and while which kernels run.

import { h, svg } from "./dom.js";
import { cut, share, size } from "./format.js";

const [WIDE, HIGH, LEFT, TOP] = [660, 420, 70, 20];

export function memoryPlan(model, schedule, app) {
  const plan = model.schedules[schedule.same ?? schedule.at];
  const { temporaries } = plan;
  if (temporaries.length === 0) return h("p.empty", {}, "no value is stored between the kernels of this schedule");
  const [arena, all] = plan.memory;
  const count = plan.places.length;
  const [wide, high] = [(WIDE - LEFT) / count, (HIGH - TOP) / Math.max(1, arena)];
  const boxes = temporaries.map((temporary, at) => {
    const [first, last] = temporary.used;
    const node = temporary.value === null ? null : model.nodes[temporary.value];
    const open = () => node && app.go("program", { s: schedule.at, mode: "schedule", k: plan.places[first]?.kernel.at });
    const [x, y] = [LEFT + first * wide, TOP + temporary.offset * high];
    const area = [(last - first + 1) * wide - 1, Math.max(2, temporary.bytes * high - 1)];
    const name = `temporary ${at}: ${size(temporary.bytes)}, kernels ${first + 1} to ${last + 1}${node ? `, ${node.label} ${node.by ?? ""}` : ""}`;
    const text = area[1] > 12 ? svg("text", { x: x + 4, y: y + 13 }, cut(`${at}: ${size(temporary.bytes)}`, Math.floor(area[0] / 6.5))) : null;
    return svg("g", { class: "held", onclick: open }, svg("title", {}, name),
      svg("rect", { x, y, width: area[0], height: area[1], rx: 2 }), text);
  });
  const ticks = plan.places.map((place) => svg("text", { class: "dimmed", x: LEFT + (place.at + 0.5) * wide, y: 12, "text-anchor": "middle" },
    count > 40 && place.at % 10 > 0 ? "" : String(place.at + 1)));
  return h("div", {}, h("p", {}, `${temporaries.length} temporaries of ${size(all)} share ${size(arena)} (${share(arena, all)}). ` +
    "To the right: the kernels in their order. Down: places in the memory that they share."),
  svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, width: WIDE, height: HIGH, role: "img", "aria-label": "Memory plan" },
    svg("text", { class: "dimmed", x: 4, y: 12 }, "kernel"), svg("text", { class: "dimmed", x: 4, y: TOP + 12 }, "0"),
    svg("text", { class: "dimmed", x: 4, y: HIGH - 4 }, size(arena)), ...ticks, ...boxes));
}
