"""Writes golden.json: what PyTorch and NumPy give for every operation.

    pip install -r requirements.txt && python make.py

A case is an operation, its arguments and inputs, and the outputs. Float results are computed in f64 from the very f32
inputs and rounded once, so that they are the exact results and the tolerances are kiln's own: `ulp` units in the last
place, or `abs`, a bound on the distance. `weights` make a scalar of the outputs, whose gradients are `grads`.
"""

import json
import math
import os
import warnings

import numpy as np
import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")
np.seterr(all="ignore")
rng = np.random.default_rng(7)
cases = []
NAMES = {"bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
         "uint16": "u16", "uint32": "u32", "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64"}
EPS = 2.0 ** -24


def number(x):
    if isinstance(x, (float, np.floating)):
        x = float(str(x))  # as few digits as tell numbers of its type apart
        return x if math.isfinite(x) else str(x)
    return int(x)


def packed(a):
    a = np.asarray(a)
    return {"dtype": NAMES[a.dtype.name], "shape": list(a.shape), "data": [number(x) for x in a.ravel()]}


def data(*shape, low=-2.0, high=2.0):
    return rng.uniform(low, high, shape).astype(np.float32)


def add(op, args, inputs, output, **rest):
    cases.append({"op": op, "args": args, "inputs": [packed(x) for x in inputs], "output": packed(output), **rest})


def case(op, inputs, f, args=(), ulp=None, abs=None, grad=True):
    """An operation of torch, in f64; `abs` is in units of f32's rounding error."""
    ts = [torch.tensor(np.asarray(x, np.float64) if x.dtype == np.float32 else x) for x in inputs]
    floats = [t.requires_grad_(grad) for t in ts if t.dtype == torch.float64]
    out = f(*ts)
    rest = {"ulp": ulp} if ulp is not None else {"abs": (abs or 0) * EPS}
    if grad and out.dtype == torch.float64:
        weights = data(*out.shape)
        (out * torch.tensor(weights, dtype=torch.float64)).sum().backward()
        rest["weights"] = packed(weights)
        rest["grads"] = [packed(t.grad.numpy().astype(np.float32)) for t in floats]
    result = out.detach().numpy()
    result = result.astype(np.float32) if result.dtype == np.float64 else result
    add(op, list(args), inputs, result, **rest)


# Functions of one number: at edges, and inside with gradients.
edges = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.75, 1e-30, -1e-30,
                  88.0, -87.0, 100.0, -103.5, 127.5, 1e5, -12345.678, 3e38, 2.0 ** -140], np.float32)
UNARY = {
    "sqrt": (torch.sqrt, 1), "exp": (torch.exp, 4), "exp2": (torch.exp2, 2), "log": (torch.log, 4),
    "log2": (torch.log2, 2), "log10": (torch.log10, 4), "sin": (torch.sin, 2), "cos": (torch.cos, 4),
    "tanh": (torch.tanh, 4), "tan": (torch.tan, 8), "rsqrt": (torch.rsqrt, 2), "reciprocal": (torch.reciprocal, 1),
    "neg": (torch.neg, 0), "abs": (torch.abs, 0), "square": (torch.square, 1), "trunc": (torch.trunc, 0),
    "floor": (torch.floor, 0), "ceil": (torch.ceil, 0), "round": (torch.round, 0), "relu": (torch.relu, 0),
}
ROUND = {"trunc", "floor", "ceil", "round"}
for name, (f, ulp) in UNARY.items():
    case(name, [edges], f, ulp=ulp, grad=False)
    positive = name in ("sqrt", "log", "log2", "log10", "rsqrt", "reciprocal")
    case(name, [data(12, low=0.2 if positive else -2.0)], f, ulp=ulp, grad=name not in ROUND)
inside = np.array([-9.0, -4.5, -1.0, -0.3, -1e-4, 0.0, 1e-4, 0.7, 1.0, 2.5, 8.0], np.float32)
for name, f, args in [
    ("sigmoid", torch.sigmoid, []), ("silu", F.silu, []), ("gelu", lambda x: F.gelu(x, approximate="tanh"), []),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.25), [0.25]), ("elu", lambda x: F.elu(x, 0.5), [0.5]),
    ("softplus", F.softplus, []), ("exp10", lambda x: torch.pow(10.0, x / 4), [])]:
    x = inside * (0.25 if name == "exp10" else 1)
    f2 = (lambda x: torch.pow(10.0, x)) if name == "exp10" else f
    case(name, [x.astype(np.float32)], f2, args, abs=800 if name == "exp10" else 40)
for name, f in [("sigmoid", torch.sigmoid), ("softplus", F.softplus)]:
    case(name, [np.array([np.nan, np.inf, -np.inf, 80.0, -80.0], np.float32)], f, abs=2, grad=False)
for name in ["isnan", "isinf", "logical_not", "sign"]:
    add(name, [], [edges], getattr(np, name)(edges), ulp=0)
for n in [0, 1, 2, 3, 5, -1, -2]:
    # nothing of x is left in x^0
    case("pow_const", [data(8) + np.float32(0.01)], lambda x: x ** n, [n], ulp=4, grad=n != 0)
case("pow_const", [data(8, low=0.1)], lambda x: x ** 0.5, [0.5], ulp=2)
case("pow_const", [data(8, low=0.1)], lambda x: x ** 1.7, [1.7], ulp=40)

# Functions of two, which broadcast.
BINARY = {"add": (torch.add, 1), "sub": (torch.sub, 1), "mul": (torch.mul, 1), "div": (torch.div, 1),
          "maximum": (torch.maximum, 0), "minimum": (torch.minimum, 0), "pow": (torch.pow, 40)}
for name, (f, ulp) in BINARY.items():
    low = 0.3 if name in ("div", "pow") else -2.0
    for a, b in [((3, 4), (3, 4)), ((3, 1), (4,)), ((2, 1, 3), (5, 1)), ((), (3,)), ((0, 2), (2,))]:
        case(name, [data(*a, low=low), data(*b, low=low)], f, ulp=ulp)
special = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -2.0, 0.5, 3.0], np.float32)
table = np.meshgrid(special, special)
for name in ["add", "sub", "mul", "div", "maximum", "minimum"]:
    case(name, [table[0], table[1]], BINARY[name][0], ulp=1, grad=False)
case("pow", [table[0], table[1]], torch.pow, ulp=4, grad=False)
tie = np.array([1.0, 2.0, 3.0], np.float32)
case("maximum", [tie, tie.copy()], torch.maximum, ulp=0)
case("minimum", [tie, tie.copy()], torch.minimum, ulp=0)
for name, f in [("lt", np.less), ("gt", np.greater), ("le", np.less_equal), ("ge", np.greater_equal),
                ("eq", np.equal), ("ne", np.not_equal)]:
    add(name, [], table, f(*table), ulp=0)
finite = np.array([0.0, 1.0, -2.0, 0.5, 3.0, -7.25], np.float32)
a, b = np.meshgrid(finite, finite)
add("floor_div", [], [a, b], np.floor_divide(a, b), ulp=0)
add("modulo", [], [a, b], np.mod(a, b), ulp=0)

# Integers: wrapping, division that rounds down, division by 0.
for dtype in [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]:
    info = np.iinfo(dtype)
    ints = np.array([0, 1, 2, 3, 5, 7, 100, info.max, info.max - 1, info.min, info.min + 1,
                     *([-1, -2, -3, -7, -100] if info.min else [])], dtype)
    a, b = np.meshgrid(ints, ints)
    for name, f in [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("floor_div", np.floor_divide),
                    ("modulo", np.remainder), ("maximum", np.maximum), ("minimum", np.minimum),
                    ("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor),
                    ("lt", np.less), ("eq", np.equal)]:
        add(name, [], [a, b], f(a, b), ulp=0)
    for name, f in [("neg", np.negative), ("abs", np.abs), ("sign", np.sign), ("bitwise_not", np.invert),
                    ("square", np.square), ("logical_not", np.logical_not)]:
        add(name, [], [ints], f(ints), ulp=0)
    shifts = np.array([0, 1, 3, info.bits - 1], dtype)
    a, b = np.meshgrid(ints, shifts)
    add("lshift", [], [a, b], np.left_shift(a, b), ulp=0)
    add("rshift", [], [a, b], np.right_shift(a, b), ulp=0)
    small = ints[:6]
    add("sum", [[0]], [small], small.sum(dtype={1: np.int32, 2: np.int32}.get(info.bits // 8, dtype) if info.min else
                                         {1: np.uint32, 2: np.uint32}.get(info.bits // 8, dtype)), ulp=0)
    add("max", [[0]], [ints], ints.max(), ulp=0)
    add("min", [[0]], [ints], ints.min(), ulp=0)

# Casts.
values = {"bool": np.array([False, True]), "f32": np.array([0.0, -0.0, 1.9, -1.9, 100.5, 0.3, np.nan], np.float32)}
for dtype in [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]:
    info = np.iinfo(dtype)
    values[NAMES[np.dtype(dtype).name]] = np.array([0, 1, 77, info.max, info.min, info.max // 3], dtype)
NUMPY = {v: k for k, v in NAMES.items()}
for source, x in values.items():
    for target in ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64"]:
        x2 = np.abs(x[:6]) if source == "f32" and target != "bool" and target[0] != "f" else x
        add("cast", [target], [x2], x2.astype(NUMPY[target]), ulp=0)
halves = np.array([65504, 65519, 65520, 1e-8, 6e-8, 2049, 2051, 1 / 3, -1 / 3, np.inf, np.nan], np.float32)
add("cast", ["f16"], [halves], halves.astype(np.float16), ulp=0)
brains = np.array([1 / 3, 257, 259, 3.4e38, 1e-40, -1.00390625, np.inf, np.nan], np.float32)
add("cast_bf16", [], [brains], torch.tensor(brains).bfloat16().float().numpy(), ulp=0)

# Reductions.
x = data(3, 4, 5)
for axes in [[0], [1], [2], [0, 2], [0, 1, 2], [-1]]:
    case("sum", [x], lambda x: x.sum(axes), [axes], abs=60 * 60)
    case("mean", [x], lambda x: x.mean(axes), [axes], abs=60)
    case("max", [x], lambda x: x.amax(axes), [axes], ulp=0)
    case("min", [x], lambda x: x.amin(axes), [axes], ulp=0)
    case("var", [x], lambda x: x.var(axes), [axes], abs=240)
    case("std", [x], lambda x: x.std(axes), [axes], abs=240)
    case("softmax", [x], lambda x: torch.exp(x - x.logsumexp(axes, True)), [axes], abs=60)
    case("log_softmax", [x], lambda x: x - x.logsumexp(axes, True), [axes], abs=240)
    case("logsumexp", [x], lambda x: x.logsumexp(axes), [axes], abs=240)
for axis in [0, 1, 2]:
    case("prod", [x], lambda x: x.prod(axis), [[axis]], ulp=10)
    case("cumsum", [x], lambda x: x.cumsum(axis), [axis], abs=100)
    case("argmax", [x], lambda x: x.argmax(axis).int(), [axis], ulp=0)
    case("argmin", [x], lambda x: x.argmin(axis).int(), [axis], ulp=0)
ties = np.array([[1, 3, 3], [2, 2, 0], [np.nan, 5, np.nan]], np.float32)
add("argmax", [1], [ties], ties.argmax(1).astype(np.int32), ulp=0)
add("argmin", [1], [ties], ties.argmin(1).astype(np.int32), ulp=0)
case("max", [ties[:2]], lambda x: x.amax(1), [[1]], ulp=0)
add("max", [[1]], [ties], ties.max(1), ulp=0)
add("min", [[1]], [ties], ties.min(1), ulp=0)
for name, f in [("any", np.any), ("all", np.all)]:
    some = np.array([[0.0, -0.0], [0.0, 2.0], [np.nan, 1.0]], np.float32)
    add(name, [[1]], [some], f(some, axis=1), ulp=0)
empty = np.zeros((2, 0), np.float32)
for name, f in [("sum", np.sum), ("prod", np.prod), ("mean", np.mean)]:
    add(name, [[1]], [empty], f(empty, axis=1), ulp=0)
extreme = np.array([[1000.0, 0.0, -1000.0], [-np.inf, 0.0, 1.0], [-1e30, -1e30, -1e30]], np.float32)
case("softmax", [extreme], lambda x: x.softmax(1), [[1]], abs=60, grad=False)
case("log_softmax", [extreme], lambda x: x.log_softmax(1), [[1]], abs=60, grad=False)
minus = np.array([[-np.inf, -np.inf], [np.inf, 1.0]], np.float32)
case("logsumexp", [minus], lambda x: x.logsumexp(1), [[1]], abs=60, grad=False)

# Products.
for a, b in [((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
             ((2, 1, 3, 4), (5, 4, 2)), ((1, 1), (1, 1)), ((17, 33), (33, 19)), ((3, 0), (0, 2))]:
    case("matmul", [data(*a), data(*b)], torch.matmul, abs=4 * a[-1] ** 2)
ints = rng.integers(-9, 9, (3, 4)).astype(np.int32)
add("matmul", [], [ints, ints.T.copy()], ints @ ints.T, ulp=0)
for n, groups, cin, cout, size, kernel, stride, dilation, padding in [
    (2, 1, 3, 4, (6, 7), (3, 3), 1, 1, 0), (1, 1, 2, 3, (7, 7), (3, 2), 2, 1, 1), (1, 2, 4, 6, (6, 6), (3, 3), 1, 1, 1),
    (1, 4, 4, 4, (5, 6), (2, 2), 1, 2, 0), (2, 1, 1, 2, (9, 8), (3, 3), 2, 2, 2), (1, 1, 3, 2, (4, 4), (1, 1), 1, 1, 0),
    (1, 1, 2, 2, (5, 5), (2, 3), 3, 1, 0)]:
    case("conv2d", [data(n, cin, *size), data(cout, cin // groups, *kernel), data(cout)],
         lambda x, w, b: F.conv2d(x, w, b, stride, padding, dilation, groups),
         [groups, stride, dilation, padding], abs=3000)
for kernel, stride, dilation, padding in [(2, 2, 1, 0), (3, 2, 1, 1), (2, 1, 2, 0), (3, 3, 1, 0), (3, 1, 1, 1)]:
    x = data(2, 3, 7, 8)
    case("max_pool2d", [x], lambda x: F.max_pool2d(x, kernel, stride, padding, dilation),
         [kernel, stride, dilation, padding], ulp=0)
    if dilation == 1:
        case("avg_pool2d", [x], lambda x: F.avg_pool2d(x, kernel, stride, padding), [kernel, stride, padding], abs=60)
case("layernorm", [data(3, 8)], lambda x: F.layer_norm(x, (8,), eps=1e-5), [[-1]], abs=400)
case("layernorm", [data(2, 3, 4)], lambda x: F.layer_norm(x, (3, 4), eps=1e-5), [[1, 2]], abs=400)
mean, std = data(3), data(3, low=0.5)
case("batchnorm", [data(2, 3, 2, 2), data(3), data(3), mean, std],
     lambda x, w, b, m, s: (x - m.view(1, 3, 1, 1)) * s.view(1, 3, 1, 1) * w.view(1, 3, 1, 1) + b.view(1, 3, 1, 1), abs=200)
labels = np.array([1, 0, 4], np.int64)
case("cross_entropy", [data(3, 5), labels], F.cross_entropy, abs=100)
case("cross_entropy", [data(2, 5, 3), np.array([[1, 0, 4], [2, 2, 3]], np.int64)], F.cross_entropy, abs=100)
q, k, v = data(2, 5, 4), data(2, 5, 4), data(2, 5, 4)
case("attention", [q, k, v], F.scaled_dot_product_attention, [0], abs=300)
case("attention", [q, k, v], lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [1], abs=300)

# Movement and choice.
x, y = data(3, 4), data(2, 4)
case("cat", [x, y], lambda a, b: torch.cat([a, b], 0), [0], ulp=0)
case("cat", [x, data(3, 1)], lambda a, b: torch.cat([a, b], 1), [1], ulp=0)
case("stack", [x, data(3, 4)], lambda a, b: torch.stack([a, b], 1), [1], ulp=0)
case("where", [np.array([True, False, True]), data(2, 3), data(3)], torch.where, ulp=0)
case("clamp", [data(9)], lambda x: x.clamp(-0.5, 1.0), [-0.5, 1.0], ulp=0)
case("masked_fill", [data(2, 3), np.array([True, False, True])], lambda x, m: x.masked_fill(m, 2.5), [2.5], ulp=0)
case("pad", [data(2, 3)], lambda x: F.pad(x, (1, 2, 3, 0), value=1.5), [[[3, 0], [1, 2]], 1.5], ulp=0)
case("pad", [data(2, 3)], lambda x: F.pad(x, (0, 2, 1, 1)), [[[1, 1], [0, 2]], 0], ulp=0)
case("flip", [data(2, 3)], lambda x: x.flip([0, 1]), [[0, 1]], ulp=0)
case("permute", [data(2, 3, 4)], lambda x: x.permute(2, 0, 1), [[2, 0, 1]], ulp=0)
case("reshape", [data(2, 6)], lambda x: x.reshape(3, -1), [[3, -1]], ulp=0)
case("expand", [data(3, 1)], lambda x: x.expand(2, 3, 4), [[2, 3, 4]], ulp=0)
case("repeat", [data(2, 3)], lambda x: x.repeat(2, 1, 3), [[2, 1, 3]], ulp=0)
case("slice", [data(7)], lambda x: x[1:6:2], [1, 6, 2], ulp=0)
add("slice", [5, 0, -2], [x[:, 0].copy().repeat(3)[:7]], x[:, 0].copy().repeat(3)[:7][5:0:-2], ulp=0)
for k in [-1, 0, 1]:
    case("tril", [data(3, 4)], lambda x: x.tril(k), [k], ulp=0)
    case("triu", [data(3, 4)], lambda x: x.triu(k), [k], ulp=0)
case("rmsnorm", [data(3, 8)], lambda x: F.rms_norm(x, (8,), eps=1e-6), [[-1]], abs=40)
case("rmsnorm", [data(2, 3, 4)], lambda x: F.rms_norm(x, (3, 4), eps=1e-6), [[1, 2]], abs=40)

# Which dtype two operands meet in.
kinds = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
short = lambda d: {"bfloat16": "bf16"}.get(d) or NAMES[d]
promotions = [[short(a), short(b), short(str(torch.promote_types(getattr(torch, a), getattr(torch, b)))[6:])]
              for a in kinds for b in kinds]
unsigned = ["uint16", "uint32", "uint64"]
promotions += [[short(a), short(b), short(np.promote_types(a, b).name)] for a in unsigned
               for b in ["bool", "uint8", "int8", "int16", "int32", "int64", *unsigned]
               if np.promote_types(a, b).name != "float64"]

# What printing looks like.
arrays = [np.float32(1.5), np.array([1.0, 2.5, -3.25], np.float32), np.arange(6, dtype=np.int32).reshape(2, 3),
          np.array([True, False]), np.array([1e10, 1.0, 1e-5], np.float32), np.array([np.nan, np.inf, -np.inf, 1], np.float32),
          np.array([[0.1, 0.25], [100.0, -3.0]], np.float64), np.zeros((2, 2, 2), np.float32), np.arange(1200, dtype=np.int32),
          np.array([], np.float32), np.array([1e-8, 1.0], np.float64), np.array([1 / 3, 2 / 3], np.float32),
          np.array([123456.789, 0.001], np.float64), np.arange(60, dtype=np.float32), np.array([[-1]], np.int8),
          np.array([255, 0], np.uint8), np.array([1 / 3], np.float16), np.array([2**63], np.uint64)]
printed = [{"array": packed(a), "text": str(np.asarray(a))} for a in arrays]

out = {"made_with": f"torch {torch.__version__} numpy {np.__version__}", "cases": cases, "promotions": promotions,
       "printed": printed}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden.json")
with open(path, "w") as f:
    f.write(json.dumps(out, separators=(",", ":")).replace('{"op"', '\n{"op"') + "\n")
print(len(cases), "cases", os.path.getsize(path), "bytes")
