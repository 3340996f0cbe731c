// What people call things: the ops that a method's name stands for, so that search finds what it became.

import { opOf } from "./nodes.js";

const SUM = "reduce:add";
const LARGEST = "reduce:max";
const PRODUCTS = [SUM, "mul", "muladd", "dot", "mma"];
const WINDOWS = ["window", "pad", "unwindow"];

// By word: ops, or a reduction with what it combines by.
const BECOMES = {
  arange: ["iota", "range"], linspace: ["iota", "range"], iota: ["range"], loop: ["range"], for: ["range"], eye: ["iota", "cmpeq"],
  sum: [SUM], mean: [SUM], cumsum: [SUM, "window"], var: [SUM, "sqrt"], std: [SUM, "sqrt"], norm: [SUM, "sqrt"], prod: ["reduce:mul"],
  max: [LARGEST], amax: [LARGEST], min: ["reduce:min"], amin: ["reduce:min"], argmax: [LARGEST, "reduce:min"], argmin: ["reduce:min"],
  any: ["reduce:or", LARGEST], all: ["reduce:and", "reduce:min"],
  softmax: [LARGEST, "exp", SUM, "div"], log_softmax: [LARGEST, "exp", SUM, "log"], logsumexp: [LARGEST, "exp", SUM, "log"],
  cross_entropy: [LARGEST, "exp", SUM, "log", "gather"], attention: [...PRODUCTS, LARGEST, "exp", "div"],
  matmul: PRODUCTS, mm: PRODUCTS, bmm: PRODUCTS, einsum: PRODUCTS, linear: PRODUCTS, gemm: PRODUCTS,
  conv1d: [...PRODUCTS, ...WINDOWS], conv2d: [...PRODUCTS, ...WINDOWS], conv: [...PRODUCTS, ...WINDOWS],
  max_pool2d: [LARGEST, ...WINDOWS], avg_pool2d: [SUM, ...WINDOWS], pool: [LARGEST, SUM, ...WINDOWS], unfold: ["window"], fold: ["unwindow"],
  layernorm: [SUM, "sqrt", "div"], batchnorm: [SUM, "sqrt", "div"], layer_norm: [SUM, "sqrt", "div"], rms_norm: [SUM, "sqrt", "div"],
  transpose: ["permute"], t: ["permute"], view: ["reshape", "permute", "slice", "expand"], flatten: ["reshape"], squeeze: ["reshape"],
  unsqueeze: ["reshape"], broadcast: ["expand"], broadcast_to: ["expand"], repeat: ["expand"], flip: ["slice"], shrink: ["slice"],
  get: ["slice", "gather"], getitem: ["slice", "gather"], __getitem__: ["slice", "gather"], index_select: ["gather"], take: ["gather"],
  embedding: ["gather"], lookup: ["gather", "load"], set: ["update", "store"], setitem: ["update", "store"],
  __setitem__: ["update", "store"], assign: ["update", "store"], scatter: ["update", "store"], scatter_add: ["update", "store"],
  cat: ["pad", "where"], stack: ["pad", "where"], concat: ["pad", "where"], relu: ["where", "max"], clamp: ["max", "min"],
  select: ["where"], if: ["where"], gelu: ["tanh", "exp", "mul"], silu: ["sigmoid"], sigmoid: ["exp"], tanh: ["exp"],
  rand: ["xor", "shl", "shr"], randn: ["xor", "sqrt", "log"], dropout: ["xor", "where"], threefry: ["xor", "shl", "shr"],
  to: ["copy"], copy: ["load", "store"], realize: ["contiguous", "store"], fma: ["muladd"], vector: ["stack", "splat", "lane"],
  argument: ["param"], input: ["param"], scratch: ["local"], barrier: ["barrier"], tensor_core: ["mma"], amx: ["mma"],
};

// Whether a node's op is one that the word stands for.
function stands(node, word) {
  const ops = Object.hasOwn(BECOMES, word) ? BECOMES[word] : [];
  const op = opOf(node);
  return ops.some((each) => {
    const [name, how] = each.split(":");
    return name === op && (how === undefined || node.label.split(" ").includes(how));
  });
}

// How well a node fits a word: 0 the method that made it, or the op itself, 1 what its label or its line contains, 2 what
// the word stands for, null not at all.
export function fit(node, word) {
  const method = node.by?.split(" ")[0].toLowerCase();
  if (method === word || opOf(node) === word || `%${node.id}` === word) return 0;
  if (node.label.toLowerCase().includes(word) || node.by?.toLowerCase().includes(word)) return 1;
  return stands(node, word) ? 2 : null;
}

// How well it fits all words: as the worst; null if one does not fit.
export function fitAll(node, words) {
  let worst = 0;
  for (const word of words) {
    const one = fit(node, word);
    if (one === null) return null;
    worst = Math.max(worst, one);
  }
  return worst;
}
