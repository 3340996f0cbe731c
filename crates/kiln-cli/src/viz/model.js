// The record, with what belongs together found: lines of the program, their nodes, their kernels, their launches.

// "sum src/main.rs:12" is a method and a place. A method of kiln's own has no place.
export function maker(text) {
  const space = text.indexOf(" ");
  if (space < 0) return { method: text, place: null };
  const place = text.slice(space + 1);
  const colon = place.lastIndexOf(":");
  return { method: text.slice(0, space), place, file: place.slice(0, colon), line: Number(place.slice(colon + 1)) };
}

// The schedule with most kernels; if some have their steps recorded, one of these.
export function largest(schedules) {
  const told = schedules.filter((schedule) => schedule.steps.length > 0);
  return (told.length > 0 ? told : schedules).reduce((a, b) => (b.kernels.length > (a?.kernels.length ?? -1) ? b : a), null);
}

// The middle one of some times, of two the larger, as `kiln explain` has it; null of none. On a busy machine some launches
// take long, so that a mean says little.
export function median(times) {
  return times.length > 0 ? [...times].sort((a, b) => a - b)[times.length >> 1] : null;
}

// What each option did to a kernel that was compiled: [{option, nest, without, decided}]. The server applies them again.
export async function afterOptions(kernel) {
  kernel.applied ??= fetch(`/options?kernel=${kernel.compiled.number}`).then((answer) => (answer.ok ? answer.json() : []));
  const all = await kernel.applied;
  return all.map((applied) => ({ ...applied, decided: applied.decided.map(step) }));
}

// A step of the compiler as {kind, ...}: the record says {Pass: {..}}.
function step(entry) {
  const [kind, fields] = Object.entries(entry)[0];
  return { kind: kind.toLowerCase(), ...fields };
}

export class Model {
  // passes: [stage, name, what it leaves] of each pass of the compiler
  constructor(record, passes) {
    this.record = record;
    this.leaves = new Map(passes.map(([stage, name, leaves]) => [`${stage} ${name}`, leaves]));
    this.nodes = record.nodes;
    this.schedules = record.schedules.map((schedule, at) => ({ ...schedule, at_us: schedule.at, at,
      steps: (schedule.steps ?? []).map(step) }));
    this.kernels = [];
    this.byHash = new Map();
    record.kernels.forEach((kernel, at) => this.compiled({ ...kernel, number: at }));
    for (const { scheduled, optimized } of record.found) {
      const known = this.byHash.get(optimized);
      if (known) known.found++;
      if (known && !this.byHash.has(scheduled)) this.byHash.set(scheduled, known);
    }
    this.launches = record.launches.map((launch, at) => this.launched({ ...launch, ...record.sites[launch.site] }, at));
    for (const kernel of this.kernels) kernel.median = median(kernel.launches.map((launch) => launch.took));
    this.plan();
    this.lines = this.linesOf();
    this.rules = this.rulesOf();
    this.total = this.launches.reduce((sum, launch) => sum + launch.took, 0);
  }

  // A kernel of the page: what was compiled, or what ran without being compiled in this run.
  kernel(hash, name) {
    let kernel = this.byHash.get(hash);
    if (!kernel) {
      kernel = { at: this.kernels.length, name, hash, steps: [], launches: [], took: 0, found: 0, makers: new Set(),
        schedules: new Set(), work: null, compiled: null };
      this.kernels.push(kernel);
      this.byHash.set(hash, kernel);
    }
    return kernel;
  }

  compiled(from) {
    const kernel = this.kernel(from.optimized, from.name);
    this.byHash.set(from.scheduled, kernel);
    Object.assign(kernel, { compiled: from, name: from.name, work: from.work, steps: (from.steps ?? []).map(step) });
  }

  launched(from, at) {
    const kernel = this.kernel(from.kernel, from.name);
    const launch = { ...from, index: at, kernel };
    kernel.launches.push(launch);
    kernel.took += from.took;
    // of a kernel for all lengths, each launch has its own
    kernel.work = from.work;
    from.methods.forEach((method) => kernel.makers.add(method));
    return launch;
  }

  // Which kernel does each place of a schedule? By the hash of its graph; a kernel of another form (a general one) by
  // the launches that follow, if there are as many as the schedule has kernels.
  plan() {
    const known = new Map();
    let next = 0;
    this.schedules.forEach((schedule, s) => {
      const end = this.schedules[s + 1]?.at_us ?? Infinity;
      while (next < this.launches.length && this.launches[next].at < schedule.at_us) next++;
      const first = next;
      while (next < this.launches.length && this.launches[next].at < end) next++;
      schedule.launches = this.launches.slice(first, next);
      const plan = schedule.kernels.length > 0 ? schedule.kernels : known.get(schedule.key)?.kernels ?? [];
      if (schedule.kernels.length > 0) known.set(schedule.key, schedule);
      schedule.places = plan.map((place, at) => this.place(schedule, plan.length, place, at));
      schedule.same = known.get(schedule.key)?.at;
    });
  }

  place(schedule, count, place, at) {
    let kernel = this.byHash.get(place.kernel);
    if (schedule.launches.length === count && (!kernel || kernel.launches.length === 0)) {
      kernel = schedule.launches[at].kernel;
    }
    kernel ??= this.kernel(place.kernel, "not compiled here");
    kernel.schedules.add(schedule.at);
    place.methods.forEach((method) => kernel.makers.add(method));
    return { ...place, kernel, at };
  }

  linesOf() {
    const lines = new Map();
    const line = (text) => {
      const { method, place, file, line: number } = maker(text);
      const key = place ?? `kiln: ${method}`;
      if (!lines.has(key)) {
        lines.set(key, { key, place, file, line: number, methods: new Set(), nodes: [], kernels: new Set(), took: 0,
          schedules: new Set() });
      }
      const found = lines.get(key);
      found.methods.add(method);
      return found;
    };
    for (const node of this.nodes) if (node.by) line(node.by).nodes.push(node.id);
    for (const kernel of this.kernels) {
      for (const text of kernel.makers) {
        const found = line(text);
        if (found.kernels.has(kernel)) continue;
        found.kernels.add(kernel);
        found.took += kernel.took;
        kernel.schedules.forEach((at) => found.schedules.add(at));
      }
    }
    const order = (a, b) => (a.place === null) - (b.place === null) || a.key.localeCompare(b.key, "en", { numeric: true });
    return [...lines.values()].sort(order);
  }

  // The places of a kernel in the program.
  placesOf(kernel) {
    return this.lines.filter((line) => line.kernels.has(kernel));
  }

  rulesOf() {
    const rules = new Map();
    const add = (owner, steps) => steps.forEach((s, at) => {
      if (s.kind !== "rewrite") return;
      const key = `${s.rule} ${s.file}:${s.line}`;
      if (!rules.has(key)) rules.set(key, { key, rule: s.rule, file: s.file, line: s.line, fired: [] });
      rules.get(key).fired.push({ ...owner, step: at });
    });
    this.kernels.forEach((kernel) => add({ kernel }, kernel.steps));
    this.schedules.forEach((schedule) => add({ schedule }, schedule.steps));
    for (const all of this.record.rules) this.countRule(rules, all);
    return [...rules.values()].sort((a, b) => b.fired.length - a.fired.length || (b.tried ?? 0) - (a.tried ?? 0));
  }

  // Counts of a run that came to its end: how often a rule was tried, and the time that it took.
  countRule(rules, { rule, file, line, tried, fired, took }) {
    const key = `${rule} ${file}:${line}`;
    if (!rules.has(key)) rules.set(key, { key, rule, file, line, fired: [] });
    Object.assign(rules.get(key), { tried, took, total: fired });
  }

  // The nodes below roots. Numbers are in an order in which sources come first.
  below(roots) {
    const seen = new Set();
    const stack = [...roots];
    while (stack.length > 0) {
      const id = stack.pop();
      if (seen.has(id)) continue;
      seen.add(id);
      stack.push(...this.nodes[id].sources);
    }
    return Int32Array.from(seen).sort();
  }

  // How fast a device is: as measured, else as its description says; null if neither is known.
  speed(device) {
    const told = this.record.devices.find((open) => open.name === device)?.speed;
    if (!told) return null;
    const measured = this.record.measured.find((m) => m.threads === told.threads);
    return { gflops: (measured ?? told).flops / 1e9, gbps: (measured ?? told).bytes / 1e9, threads: told.threads, isMeasured: !!measured };
  }

  // Who holds memory of a device at a time: [holder, bytes, blocks], most first.
  holders(device, at) {
    const all = new Map();
    for (const block of this.record.blocks) {
      if (block.device !== device || block.at > at || (block.freed !== null && block.freed <= at)) continue;
      const held = all.get(block.holder) ?? [block.holder, 0, 0];
      all.set(block.holder, [block.holder, held[1] + block.bytes, held[2] + 1]);
    }
    return [...all.values()].sort((a, b) => b[1] - a[1]);
  }

  // The value behind an argument of a schedule's kernels: the node that pass `assign` is given, or null.
  valueOf(schedule, argument) {
    const [kind, number] = argument.split(" ");
    const plan = this.schedules[schedule.same ?? schedule.at];
    if (kind === "temporary") return plan.temporaries[Number(number)]?.value ?? null;
    const placed = plan.steps.find((s) => s.kind === "pass" && s.pass === "assign")?.before ?? [];
    return kind === "output" ? placed[Number(number)] ?? null : null;
  }

  // The values that the kernel at a place stores: of its memory what no earlier kernel of the schedule has.
  storedBy(schedule, place) {
    const isNew = ([name]) => !schedule.places.some((p) => p.at < place.at && p.arguments.some(([other]) => other === name));
    return place.arguments.filter(isNew).map(([name]) => this.valueOf(schedule, name)).filter((value) => value !== null);
  }

  // Why was it scheduled anew? The earlier schedule whose graph is equal but for numbers, and the first node that
  // differs: {earlier, was, is}, or null.
  differs(schedule) {
    if (schedule.took == null) return null;
    this.forms ??= new Map();
    const form = (s) => {
      if (!this.forms.has(s)) this.forms.set(s, [...this.below(s.roots)].map((id) => this.nodes[id].label.replace(/\d+/g, "#")).join());
      return this.forms.get(s);
    };
    const own = form(schedule);
    const earlier = this.schedules.slice(0, schedule.at).findLast((s) => s.took != null && form(s) === own);
    if (!earlier) return null;
    const [old, now] = [this.below(earlier.roots), this.below(schedule.roots)];
    const at = now.findIndex((id, i) => this.nodes[id].label !== this.nodes[old[i]].label);
    return { earlier, was: at < 0 ? null : this.nodes[old[at]], is: at < 0 ? null : this.nodes[now[at]] };
  }

  // The numbers of an earlier schedule of the same key that this one does not have, and those that it has instead.
  constantsThatDiffer(earlier, schedule) {
    const named = ({ label }) => (label.startsWith("var ") ? "an argument" : label);
    const leaves = (s) => new Set([...this.below(s.roots)].filter((id) => this.nodes[id].sources.length === 0).map((id) => named(this.nodes[id])));
    const [old, now] = [leaves(earlier), leaves(schedule)];
    return { was: [...old].filter((label) => !now.has(label)), is: [...now].filter((label) => !old.has(label)) };
  }

  // The decisions among steps, with their places.
  decisions(steps) {
    return steps.map((s, at) => ({ ...s, step: at })).filter((s) => s.kind === "decision");
  }
}
