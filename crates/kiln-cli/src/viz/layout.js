// Lays a graph out in layers, in a worker: the page stays usable meanwhile.
//
// Data flow downwards. A node is one layer below its lowest source; a node without sources stands right above its first
// use. Layers are ordered by the means of neighbours, and places in a layer are the nearest to these means that do not
// overlap. A long edge passes each layer that it crosses at a point of its own, unless there are too many of these.

const ROW = 62;
const GAP = 18;
const MOST_POINTS = 40000;

onmessage = ({ data }) => {
  const result = layout(data.widths, data.from, data.to);
  postMessage({ id: data.id, ...result }, [result.x.buffer, result.y.buffer, result.bends.buffer, result.starts.buffer]);
};

// widths of nodes, and edges; gives the middle of each node, and for each edge its points between.
function layout(widths, from, to) {
  const count = widths.length;
  const layer = layers(count, from, to);
  const graph = withPoints(widths, from, to, layer);
  const rows = ordered(graph);
  const x = placed(graph, rows);
  const wrap = wrapped(graph, rows, x);
  const bends = new Float32Array(graph.chain.length * 2);
  graph.chain.forEach((point, at) => bends.set([wrap.x[point], wrap.y[point]], at * 2));
  return { x: wrap.x.slice(0, count), y: wrap.y.slice(0, count), bends, starts: graph.starts };
}

// Neighbours as one array with starts: of node n they are all[starts[n] .. starts[n + 1]].
function neighbours(count, of, other) {
  const starts = new Int32Array(count + 1);
  for (const node of of) starts[node + 1]++;
  for (let n = 0; n < count; n++) starts[n + 1] += starts[n];
  const next = starts.slice();
  const all = new Int32Array(of.length);
  for (let e = 0; e < of.length; e++) all[next[of[e]]++] = other[e];
  return { starts, all };
}

function layers(count, from, to) {
  const users = neighbours(count, from, to);
  const waits = new Int32Array(count);
  for (const node of to) waits[node]++;
  const order = new Int32Array(count);
  let filled = 0;
  for (let n = 0; n < count; n++) if (waits[n] === 0) order[filled++] = n;
  const isSource = waits.map((w) => (w === 0 ? 1 : 0));
  const layer = new Int32Array(count);
  for (let at = 0; at < filled; at++) {
    const n = order[at];
    for (let e = users.starts[n]; e < users.starts[n + 1]; e++) {
      const user = users.all[e];
      layer[user] = Math.max(layer[user], layer[n] + 1);
      if (--waits[user] === 0) order[filled++] = user;
    }
  }
  for (let n = 0; n < count; n++) {
    if (!isSource[n] || users.starts[n] === users.starts[n + 1]) continue;
    let first = Infinity;
    for (let e = users.starts[n]; e < users.starts[n + 1]; e++) first = Math.min(first, layer[users.all[e]]);
    layer[n] = first - 1;
  }
  return layer;
}

// Adds points where edges cross layers. `chain` lists the points of all edges, `starts` where an edge's begin.
function withPoints(widths, from, to, layer) {
  let total = 0;
  for (let e = 0; e < from.length; e++) total += Math.max(0, layer[to[e]] - layer[from[e]] - 1);
  const isDrawn = total <= MOST_POINTS;
  const [wide, at] = [Array.from(widths), Array.from(layer)];
  const [above, below, chain] = [[], [], []];
  const starts = new Int32Array(from.length + 1);
  for (let e = 0; e < from.length; e++) {
    let last = from[e];
    for (let l = layer[from[e]] + 1; isDrawn && l < layer[to[e]]; l++) {
      above.push(last);
      last = wide.length;
      below.push(last);
      chain.push(last);
      wide.push(4);
      at.push(l);
    }
    above.push(last);
    below.push(to[e]);
    starts[e + 1] = chain.length;
  }
  const count = wide.length;
  return { count, wide, layer: at, chain: Int32Array.from(chain), starts, sources: neighbours(count, below, above),
    users: neighbours(count, above, below) };
}

// The nodes of each layer, in an order with few crossings.
function ordered(graph) {
  const rows = [];
  for (let n = 0; n < graph.count; n++) (rows[graph.layer[n]] ??= []).push(n);
  for (let r = 0; r < rows.length; r++) rows[r] ??= [];
  const at = new Float64Array(graph.count);
  const number = (row) => row.forEach((n, i) => (at[n] = i - row.length / 2));
  rows.forEach(number);
  const sweeps = graph.count > 30000 ? 2 : 8;
  const key = new Float64Array(graph.count);
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const isDown = sweep % 2 === 0;
    const side = isDown ? graph.sources : graph.users;
    for (let r = 0; r < rows.length; r++) {
      const row = rows[isDown ? r : rows.length - 1 - r];
      for (const n of row) key[n] = mean(side, n, at);
      row.sort((a, b) => key[a] - key[b] || a - b);
      number(row);
    }
  }
  return rows;
}

function mean({ starts, all }, n, at) {
  const [start, end] = [starts[n], starts[n + 1]];
  if (start === end) return at[n];
  let sum = 0;
  for (let e = start; e < end; e++) sum += at[all[e]];
  return sum / (end - start);
}

// Places along a layer. Each sweep takes the means of neighbours and the nearest places to them without overlap.
function placed(graph, rows) {
  const x = new Float64Array(graph.count);
  for (const row of rows) {
    let at = 0;
    for (const n of row) {
      x[n] = at + graph.wide[n] / 2;
      at += graph.wide[n] + GAP;
    }
    for (const n of row) x[n] -= at / 2;
  }
  const sweeps = graph.count > 30000 ? 2 : 6;
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const isDown = sweep % 2 === 0;
    for (let r = 0; r < rows.length; r++) {
      spread(graph, rows[isDown ? r : rows.length - 1 - r], isDown ? graph.sources : graph.users, x);
    }
  }
  return x;
}

// Moves a row's nodes to the means of their neighbours. Nodes that would overlap become one block at their mean.
function spread(graph, row, side, x) {
  const wanted = row.map((n) => mean(side, n, x));
  const blocks = [];
  let offset = 0;
  row.forEach((n, i) => {
    // as if every node had no width: an order that may not be left
    let block = { sum: wanted[i] - offset - graph.wide[n] / 2, count: 1, nodes: [[n, offset + graph.wide[n] / 2]] };
    offset += graph.wide[n] + GAP;
    while (blocks.length > 0 && blocks.at(-1).sum / blocks.at(-1).count >= block.sum / block.count) {
      const before = blocks.pop();
      for (const node of block.nodes) before.nodes.push(node);
      before.sum += block.sum;
      before.count += block.count;
      block = before;
    }
    blocks.push(block);
  });
  for (const block of blocks) {
    for (const [n, own] of block.nodes) x[n] = block.sum / block.count + own;
  }
}

// A graph that is much higher than wide stands in columns, like text.
function wrapped(graph, rows, x) {
  let [low, high] = [Infinity, -Infinity];
  for (let n = 0; n < graph.count; n++) {
    low = Math.min(low, x[n] - graph.wide[n] / 2);
    high = Math.max(high, x[n] + graph.wide[n] / 2);
  }
  const width = high - low + 4 * GAP;
  const height = rows.length * ROW;
  const columns = height > 12 * width ? Math.ceil(Math.sqrt((1.6 * height) / width)) : 1;
  const each = Math.ceil(rows.length / columns);
  const [left, top] = [new Float32Array(graph.count), new Float32Array(graph.count)];
  for (let n = 0; n < graph.count; n++) {
    left[n] = x[n] - low + width * Math.floor(graph.layer[n] / each);
    top[n] = (graph.layer[n] % each) * ROW;
  }
  return { x: left, y: top };
}
