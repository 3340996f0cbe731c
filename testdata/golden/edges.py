"""Writes edges.f64 and edges.json: elementwise functions and their gradients at special values and at the ends of ranges.

    pip install -r requirements.txt && python edges.py

A point is a number (or a pair) that some float types hold: the first group all of them, then f16 (and what is wider),
bf16 (and f32, f64), f32 (and f64), f64 alone. For each function the file has, in f64, little endian: the value at each
point, then the derivative by each operand. These are PyTorch's in f64 wherever one of the numbers involved is 0, infinite
or NaN. Elsewhere its formulas lose places (of 1 - y * y few are left where y is nearly 1), so there they are mpmath's, and
this script stops where the two are further apart than that explains. Remainders and their quotients depend on the type
they are computed in: NumPy's, for f16, f32 and f64.
"""

import json
import math
import os
import warnings

import mpmath
import numpy as np
import torch
import torch.nn.functional as F
from mpmath import mp

warnings.simplefilter("ignore")
np.seterr(all="ignore")
mp.prec = 200
rng = np.random.default_rng(11)
inf, nan = math.inf, math.nan
HERE = os.path.dirname(os.path.abspath(__file__))


def brain(x):
    """The bf16 numbers next to some f32 ones."""
    return (np.asarray(x, np.float32).view(np.uint32) & 0xffff0000).view(np.float32).astype(np.float64)


def spread(n, low, high, bits):
    """Numbers of so many bits, of all exponents from `low` to `high`, half of them negative."""
    mantissas = 1 + rng.integers(0, 1 << (bits - 1), n) / float(1 << (bits - 1))
    return np.ldexp(mantissas, np.linspace(low, high, n).round().astype(int)) * rng.choice([-1.0, 1.0], n)


def both(values):
    return [s * float(v) for v in values for s in (1, -1)]


def groups_of_one():
    common = [nan] + both([inf, 0, 1, 0.5, 0.25, 1.5, 2, 2.5, 3, 3.5, 4.5, 5, 6, 7, 8, 8.5, 9, 10, 11, 12, 15.5, 16, 17, 20,
                           25, 30, 36, 40, 60, 64, 80, 87, 88, 89, 96, 100, 103, 104, 106, 120, 126, 128, 149, 151, 256, 1000, 1032, 4096, 32768,
                           2.0 ** -14, 2.0 ** -8, 2.0 ** -11, 1 - 2.0 ** -8, 1 + 2.0 ** -7, 0.75, 1.25, 0.69140625])
    common += list(spread(60, -13, 14, 8))
    f16 = both([65504, 2.0 ** -24, 2.0 ** -14 - 2.0 ** -24, 1 - 2.0 ** -11, 1 + 2.0 ** -10, 2047, 2049 - 1, 11.0859375,
                11.09375, 16.640625, 17.328125, 10.3984375]) + list(spread(50, -14, 15, 11))
    bf16 = both([2.0 ** -133, 2.0 ** -126, brain(np.finfo(np.float32).max), 2.0 ** -130, 88.5, 92.5]) + list(spread(60, -126, 127, 8))
    f32 = np.float32(both([2.0 ** -149, 2.0 ** -126, np.finfo(np.float32).max, 1 - 2.0 ** -24, 1 + 2.0 ** -23, 88.72283, 88.72284,
                           87.33654, 103.97208, 103.278, 16.635532, 17.3, 9.01, 126.99999, 148.99, 1e10, 0.1, 1e-4, 1.2784645]))
    f32 = list(f32.astype(np.float64)) + list(spread(60, -126, 127, 24))
    f64 = both([5e-324, np.finfo(np.float64).tiny, np.finfo(np.float64).max, 1 - 2.0 ** -53, 1 + 2.0 ** -52, 709.78, 709.79, 708.4,
                745.13, 745.14, 36.7, 37.5, 19.1, 1023.9999, 1074.5, 1e200, 1e-200, 1e155, 0.1]) + list(spread(80, -1022, 1023, 53))
    return [[float(x) for x in group] for group in (common, f16, bf16, f32, f64)]


def groups_of_two():
    special = [nan] + both([inf, 0, 1, 2, 3, 0.5, 2.5, 0.25, 2.0 ** -14, 30720])
    pairs = [(a, b) for a in special for b in special] + [(2.0, 10.0), (10.0, 2.0), (100.0, 2.0), (10.0, 3.0), (10.0, -1.0), (3.0, 5.0)]
    near = lambda n, bits: [(float(a), float(b)) for a, b in zip(abs(spread(n, -4, 4, bits)), spread(n, -2, 2, bits))]
    wide = lambda n, bits, low, high: list(zip(spread(n, low, high, bits).tolist(), rng.permutation(spread(n, low, high, bits)).tolist()))
    whole = lambda n, bits: [(float(a), float(b)) for a, b in zip(spread(n, -4, 4, bits), rng.integers(-9, 10, n))]
    # powers near the ends of the range of f32 and of f64
    ends = lambda n, size, bits: [(x, float(brain(y) if bits == 8 else np.float32(y) if bits == 24 else y)) for x, y in
                                  ((x, rng.uniform(-size, size) / math.log2(x)) for x in abs(spread(n, -8, 8, bits)) if abs(math.log2(x)) > 0.01)]
    f16 = near(20, 11) + whole(20, 11) + wide(20, 11, -14, 15)
    bf16 = near(20, 8) + whole(20, 8) + wide(20, 8, -126, 127) + ends(20, 130, 8)
    tiny = [(2.0 ** -149, 2.0), (3.4028234663852886e38, 0.5), (2.0 ** -149, -1.0), (1 + 2.0 ** -23, 1e9), (1 - 2.0 ** -24, -1e9), (10.0, 38.0), (1e23, 1.0)]
    f32 = near(20, 24) + whole(20, 24) + wide(20, 24, -126, 127) + ends(60, 150, 24) + [tuple(np.float32(p).astype(float).tolist()) for p in tiny]
    f64 = near(20, 53) + whole(20, 53) + wide(40, 53, -1022, 1023) + ends(60, 1075, 53) + [(5e-324, 0.5), (1 + 2.0 ** -52, 1e18), (0.1, 300.0)]
    f32 += [(float(np.float32(a)), float(np.float32(b))) for a, b in [(987767.94, 3.06), (1e9, 3), (5, inf), (-1, inf), (1, 0.1), (3e38, 1e-45), (-3e38, 7e-40)]]
    f64 += [(1.7e308, 5e-324), (1.7e308, 3.1e-310), (-1.7e308, 3.3), (2.0 ** 1000, 3.0), (1e22, 0.7), (5e-324, -1.7e308), (1.0, 0.1)]
    # a slope has the exponent less 1, which is whole in some types and not in others
    same = lambda a, b: a >= 0 or b == 0 or not 2.0 ** -54 < abs(b) < 2.0 ** -23
    return [[(float(a), float(b)) for a, b in group if same(a, b)] for group in (pairs, f16, bf16, f32, f64)]


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def gelu_inner(x):
    return 2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x ** 3)


def gelu_slope(x):
    s = sigmoid(gelu_inner(x))
    return s + x * s * sigmoid(-gelu_inner(x)) * 2 * mp.sqrt(2 / mp.pi) * (1 + 3 * mp.mpf(0.044715) * x ** 2)


def silu_slope(x):
    return sigmoid(x) * (1 + x * sigmoid(-x))


positive = lambda f: lambda x: f(x) if x > 0 else None
EXACT = [
    ("neg", torch.neg), ("abs", torch.abs), ("square", torch.square), ("trunc", torch.trunc), ("floor", torch.floor),
    ("ceil", torch.ceil), ("round", torch.round), ("relu", torch.relu), ("sign", lambda x: torch.where(x.isnan(), x.detach(), torch.sign(x))),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.25)), ("clamp", lambda x: torch.clamp(x, -1.5, 2.0)),
    ("pow_0", lambda x: x ** 0), ("pow_1", lambda x: x ** 1), ("pow_2", lambda x: x ** 2),
]
ONE = [
    ("sqrt", torch.sqrt, positive(mp.sqrt), positive(lambda x: 1 / (2 * mp.sqrt(x)))),
    ("rsqrt", torch.rsqrt, positive(lambda x: 1 / mp.sqrt(x)), positive(lambda x: -1 / (2 * x * mp.sqrt(x)))),
    ("reciprocal", torch.reciprocal, lambda x: 1 / x, lambda x: -1 / x ** 2),
    ("exp", torch.exp, mp.exp, mp.exp),
    ("exp2", torch.exp2, lambda x: mp.mpf(2) ** x, lambda x: mp.mpf(2) ** x * mp.log(2)),
    ("exp10", lambda x: torch.pow(10.0, x), lambda x: mp.mpf(10) ** x, lambda x: mp.mpf(10) ** x * mp.log(10)),
    ("expm1", torch.expm1, mp.expm1, mp.exp),
    ("log", torch.log, positive(mp.log), lambda x: 1 / x),
    ("log2", torch.log2, positive(lambda x: mp.log(x) / mp.log(2)), lambda x: 1 / (x * mp.log(2))),
    ("log10", torch.log10, positive(mp.log10), lambda x: 1 / (x * mp.log(10))),
    ("log1p", torch.log1p, lambda x: mp.log1p(x) if x > -1 else None, lambda x: 1 / (1 + x) if x != -1 else None),
    ("sin", torch.sin, mp.sin, mp.cos), ("cos", torch.cos, mp.cos, lambda x: -mp.sin(x)),
    ("tan", torch.tan, mp.tan, lambda x: 1 + mp.tan(x) ** 2),
    ("tanh", torch.tanh, mp.tanh, lambda x: mp.sech(x) ** 2),
    ("sigmoid", torch.sigmoid, sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    ("silu", F.silu, lambda x: x * sigmoid(x), silu_slope),
    ("gelu", lambda x: F.gelu(x, approximate="tanh"), lambda x: x * sigmoid(gelu_inner(x)), gelu_slope),
    ("elu", lambda x: F.elu(x, 0.75), lambda x: x if x > 0 else mp.mpf(0.75) * mp.expm1(x), lambda x: mp.mpf(1) if x > 0 else mp.mpf(0.75) * mp.exp(x)),
    ("softplus", lambda x: torch.logaddexp(x, torch.zeros_like(x)), lambda x: max(x, 0) + mp.log1p(mp.exp(-abs(x))), sigmoid),
]
for e in [3, 4, 5, 0.5, -1, -2, -3, 1.5, 0.296875, -0.296875, 2.5, 17]:
    ok = lambda f, e=e: (lambda x: f(x) if x > 0 or e == int(e) else None)
    ONE.append((f"pow_{e}", lambda x, e=e: x ** e, ok(lambda x, e=e: x ** mp.mpf(e)), ok(lambda x, e=e: mp.mpf(e) * x ** (mp.mpf(e) - 1))))

power = lambda f: lambda a, b: f(a, b) if a > 0 or b == mp.floor(b) else None
TWO = [
    ("add", torch.add, None), ("sub", torch.sub, None), ("mul", torch.mul, None),
    ("div", torch.div, (lambda a, b: a / b, lambda a, b: 1 / b, lambda a, b: -a / b ** 2)),
    ("maximum", torch.maximum, None), ("minimum", torch.minimum, None),
    ("pow", torch.pow, (power(lambda a, b: a ** b), power(lambda a, b: b * a ** (b - 1)), lambda a, b: a ** b * mp.log(a) if a > 0 else None)),
]


def nearest(x):
    """The f64 nearest to what mpmath gives; None where it gives nothing."""
    return None if x is None or isinstance(x, mpmath.mpc) else float(x)


def torch_slope(name):
    """PyTorch's own formulas lose places where they subtract: these are the functions whose gradients do."""
    return name in ("expm1", "tanh", "sigmoid", "silu", "gelu", "tan", "softplus")


def refined(name, theirs, points, exactly):
    """`theirs` with mpmath's in place of what is a plain number, at plain numbers."""
    out = np.array(theirs, np.float64)
    for i, point in enumerate(points):
        if exactly is None or any(x == 0 or not math.isfinite(x) for x in point) or math.isinf(out[i]):
            continue
        # the cube in gelu overflows, which is nobody's limit
        if math.isnan(out[i]) and name != "gelu":
            continue
        right = nearest(exactly(*[mp.mpf(x) for x in point]))
        if right is None:
            continue
        same = right == out[i] or abs(right - out[i]) <= 1e-12 * max(abs(right), 1e-300) or abs(right - out[i]) < 1e-14 and torch_slope(name)
        if not same:
            print(f"note: {name} at {point}: PyTorch {out[i]!r}, mpmath {right!r}")
        out[i] = right
    return out


def function(name, f, points, exactly):
    """The value and each derivative."""
    operands = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in zip(*points)]
    y = f(*operands)
    y.sum().backward()
    columns = [y.detach().numpy()] + [t.grad.numpy() for t in operands]
    exactly = exactly or [None] * len(columns)
    return [refined(name, theirs, points, right) for theirs, right in zip(columns, exactly)]


def remainders(points):
    """NumPy's, each in the type of its own."""
    a, b = np.array(points).T
    columns = []
    for dtype in (np.float16, np.float32, np.float64):
        for f in (np.mod, np.floor_divide):
            columns.append(f(a.astype(dtype), b.astype(dtype)).astype(np.float64))
    return columns


data, one, two = [], groups_of_one(), groups_of_two()
ones, twos = [(x,) for g in one for x in g], [p for g in two for p in g]
data += [np.array(ones).ravel(), *np.array(twos).T]
for name, f in EXACT:
    data += function(name, f, ones, None)
for name, f, value, slope in ONE:
    data += function(name, f, ones, (value, slope))
for name, f, exactly in TWO:
    data += function(name, f, twos, exactly)
data += remainders(twos)
names = {"one": [e[0] for e in EXACT + ONE], "two": [e[0] for e in TWO], "of_type": ["modulo", "floor_div"]}
with open(os.path.join(HERE, "edges.f64"), "wb") as file:
    file.write(np.concatenate(data).astype("<f8").tobytes())
with open(os.path.join(HERE, "edges.json"), "w") as file:
    made_with = f"torch {torch.__version__} numpy {np.__version__} mpmath {mpmath.__version__}"
    json.dump({"made_with": made_with, "points": [len(g) for g in one], "pairs": [len(g) for g in two], **names}, file)
    file.write("\n")
print(len(ones), "points,", len(twos), "pairs,", sum(len(d) for d in data) * 8, "bytes")
