"""Random expressions over the methods, judged step by step against PyTorch in f64.

    pip install -r requirements.txt
    python expressions.py 100000 [--seed 1] [--kiln COMMAND] [--keep 1000]

The methods, their arguments and shapes are those of the golden cases (methods/*.py) and of `basics` below; the numbers
are random: plain, of all magnitudes, special (NaN, infinity, -0.0, subnormal, equal ones). A step's results are inputs
of later steps. COMMAND computes the file that KILN_EXPRESSIONS names and writes it with `.out` after its name; the
default runs kiln's ignored test `expressions_of_a_file`.

A step is judged by itself, from the very numbers that kiln gave for its inputs, so errors do not add up. It may be off
by what its case allows, and by what rounding of its inputs changes: the largest difference that relative changes of the
inputs by one rounding error make in f64, 32 times over; where results are sums, also by four rounding errors of the
largest input. excuses.py has the causes for which an element may be another one; the elements are counted by cause. What is
left is printed and counted by method, and the exit status says whether there is any. `--keep N` writes N of the steps that
hold as methods/expressions.json.gz, for a test.
"""

import argparse
import collections
import importlib
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import types

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "methods")
sys.path[:0] = [FOLDER, os.path.dirname(FOLDER)]
import case as cases  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from case import BF16, BOOL, DTYPES, F16, F32, F64, FLOATS, I32, I64, NAMES, data, packed  # noqa: E402
from excuses import EPS, EXCUSES, LEAST, Step  # noqa: E402

SUBJECTS = ["activations", "attention", "elementwise", "linalg", "losses", "more", "movement", "products", "reductions", "sampling",
            "windows"]
# whose inputs must stay what they are: matrices that are regular, positions that are sorted or inside
STRICT = {"linalg"}
SORTED = {"searchsorted", "searchsorted_with", "bucketize"}
# whose results are no sums
ELEMENTWISE = {"activations", "elementwise"}
NO_SUMS = {"silu", "softplus", "gelu", "elu", "cumprod", "prod_with", "cdist", "lgamma", "digamma", "polygamma"}
# whose integers belong together
LABELLED = {"ctc_loss"}

# whose results have shapes that depend on numbers, and so are nobody's inputs
UNSHAPED = {"unique", "unique_consecutive"}
# whose cases compare with numbers that do not come from their inputs, or are of dtypes that PyTorch does not compare
FIXED = {"frexp", "isin", "nextafter", "float_power"}


Template = collections.namedtuple("Template", "subject method inputs f args tol out")
templates = []


def frozen(f, depth=0):
    """The function with what its free names mean now: loops go on to other values."""
    if not isinstance(f, types.FunctionType) or depth > 4:
        return f
    cells = None
    if f.__closure__:
        cells = tuple(types.CellType(frozen(c.cell_contents, depth + 1)) for c in f.__closure__)
    g = types.FunctionType(f.__code__, dict(f.__globals__), f.__name__, f.__defaults__, cells)
    g.__kwdefaults__ = f.__kwdefaults__
    return g


def harvest():
    for subject in SUBJECTS:
        def note(method, inputs, f, args=(), tol=("ulp", 0), slope=None, grad=True, out=None, only=None):
            wide = [torch.uint16, torch.uint32, torch.uint64]
            if inputs and method not in FIXED and all(x.numel() <= 4096 and x.dtype not in wide for x in inputs):
                templates.append(Template(subject, method, [x.clone() for x in inputs], frozen(f), list(args), tol, out))
        cases.case, cases.refused = note, lambda *a, **k: None
        importlib.import_module(subject)
        cases.rng.bit_generator.state = cases.START


def basics():
    """Methods without a file of cases."""
    def add(method, f, *inputs, args=(), tol=("ulp", 0), out=None):
        templates.append(Template("basics", method, list(inputs), f, list(args), tol, out))

    shapes = [(), (3,), (2, 3), (1, 4), (0, 3), (2, 3, 4), (2, 1, 4), (5, 1)]
    one = {"neg": (torch.neg, 0), "abs": (torch.abs, 0), "square": (torch.square, 1), "sqrt": (torch.sqrt, 1),
           "rsqrt": (torch.rsqrt, 2), "reciprocal": (torch.reciprocal, 1), "exp": (torch.exp, 3), "exp2": (torch.exp2, 3),
           "expm1": (torch.expm1, 4), "log": (torch.log, 3), "log2": (torch.log2, 3), "log10": (torch.log10, 4),
           "log1p": (torch.log1p, 4), "sin": (torch.sin, 3), "cos": (torch.cos, 3), "tanh": (torch.tanh, 4),
           "sigmoid": (torch.sigmoid, 4), "relu": (torch.relu, 0), "floor": (torch.floor, 0), "ceil": (torch.ceil, 0),
           "round": (torch.round, 0), "trunc": (torch.trunc, 0), "sign": (torch.sign, 0), "isnan": (torch.isnan, 0),
           "isinf": (torch.isinf, 0), "logical_not": (torch.logical_not, 0), "flatten": (torch.flatten, 0),
           "copy": (torch.clone, 0), "contiguous": (torch.clone, 0)}
    two = {"add": (torch.add, 1), "sub": (torch.sub, 1), "mul": (torch.mul, 1), "div": (torch.div, 1),
           "maximum": (torch.maximum, 0), "minimum": (torch.minimum, 0), "eq": (torch.eq, 0), "ne": (torch.ne, 0),
           "lt": (torch.lt, 0), "le": (torch.le, 0), "gt": (torch.gt, 0), "ge": (torch.ge, 0), "pow": (torch.pow, 4)}
    for dtype in FLOATS:
        for shape in shapes:
            x = data(*shape, dtype=dtype)
            for method, (f, ulp) in one.items():
                add(method, f, x, tol=("ulp", ulp))
            for method, f in [("silu", torch.nn.functional.silu), ("softplus", torch.nn.functional.softplus),
                              ("gelu", lambda x: torch.nn.functional.gelu(x, approximate="tanh"))]:
                add(method, f, x, tol=("abs", 8))
            for slope in [0.0, 0.01, 1.5]:
                add("leaky_relu", lambda x, s=slope: torch.nn.functional.leaky_relu(x, s), x, args=[slope], tol=("ulp", 2))
                add("elu", lambda x, s=slope: torch.nn.functional.elu(x, s), x, args=[slope], tol=("abs", 6))
            add("clamp", lambda x: torch.clamp(x, -0.5, 1.0), x, args=[-0.5, 1.0])
            for other in shapes:
                try:
                    torch.broadcast_shapes(shape, other)
                except RuntimeError:
                    continue
                y = data(*other, dtype=dtype)
                for method, (f, ulp) in two.items():
                    add(method, f, x, y, tol=("ulp", ulp))
                c = data(*other, dtype=BOOL)
                add("where_", torch.where, c, x, y)
            for axis in range(-1, len(shape)):
                if not shape:
                    continue
                a = axis % len(shape)
                for method, f in [("sum", torch.sum), ("mean", torch.mean)]:
                    add(method, lambda x, f=f, a=a: f(x, a), x, args=[[axis]], tol=("abs", 8))
                add("sum_keepdim", lambda x, a=a: torch.sum(x, a, keepdim=True), x, args=[[axis]], tol=("abs", 8))
                add("prod", lambda x, a=a: torch.prod(x, a), x, args=[[axis]], tol=("ulp", 6))
                add("cumsum", lambda x, a=a: torch.cumsum(x, a), x, args=[axis], tol=("abs", 8))
                add("flip", lambda x, a=a: torch.flip(x, [a]), x, args=[axis])
                add("unsqueeze", lambda x, a=a: torch.unsqueeze(x, a), x, args=[a])
                if shape[a]:
                    add("max", lambda x, a=a: torch.amax(x, a), x, args=[[axis]])
                    add("min", lambda x, a=a: torch.amin(x, a), x, args=[[axis]])
                    add("argmax", lambda x, a=a: torch.argmax(x, a).to(I32), x, args=[axis])
                    add("argmin", lambda x, a=a: torch.argmin(x, a).to(I32), x, args=[axis])
                    for method, f in [("softmax", torch.softmax), ("log_softmax", torch.log_softmax),
                                      ("logsumexp", torch.logsumexp)]:
                        add(method, lambda x, f=f, a=a: f(x, a), x, args=[axis], tol=("abs", 8))
                if shape[a] > 1:
                    add("var", lambda x, a=a: torch.var(x, a), x, args=[[axis]], tol=("abs", 8))
                    add("std", lambda x, a=a: torch.std(x, a), x, args=[[axis]], tol=("abs", 8))
                add("cat", lambda x, y, a=a: torch.cat([x, y], a), x, x, args=[axis])
                add("stack", lambda x, y, a=a: torch.stack([x, y], a), x, x, args=[a])
                for method, f in [("any", torch.any), ("all", torch.all)]:
                    add(method, lambda x, f=f, a=a: f(x, a), x, args=[[axis]])
            if len(shape) > 1:
                add("transpose", lambda x: torch.transpose(x, 0, 1), x, args=[0, 1])
                for k in [-1, 0, 1]:
                    add("tril", lambda x, k=k: torch.tril(x, k), x, args=[k])
                    add("triu", lambda x, k=k: torch.triu(x, k), x, args=[k])
                y = data(shape[-1], 2, dtype=dtype)
                add("matmul", torch.matmul, x, y, tol=("abs", 8))
            add("reshape", lambda x: x.reshape([-1] if x.numel() else [0]), x, args=[[-1] if x.numel() else [0]])
        for p in [0, 1]:
            add("conv2d", lambda x, w, p=p: torch.conv2d(x, w, padding=p), data(2, 2, 4, 5, dtype=dtype), data(3, 2, 3, 2, dtype=dtype),
                args=[p], tol=("abs", 16))
        add("max_pool2d", lambda x: torch.max_pool2d(x, 2), data(1, 2, 4, 6, dtype=dtype), args=[2])
        add("avg_pool2d", lambda x: torch.nn.functional.avg_pool2d(x, 2), data(1, 2, 4, 6, dtype=dtype), args=[2], tol=("abs", 8))
        for other in [F16, BF16, F32, F64]:
            add("cast", lambda x: x, data(4, dtype=dtype), args=[NAMES[other]], out=other)
    for dtype in [cases.I8, cases.I16, I32, I64, cases.U8]:
        x, y = data(2, 3, dtype=dtype), data(3, dtype=dtype)
        for method in ["neg", "abs", "square", "sign"]:
            if method != "neg" or dtype != cases.U8:
                add(method, one[method][0], x)
        for method in ["add", "sub", "mul", "maximum", "minimum", "eq", "lt", "ge"]:
            add(method, two[method][0], x, y)
        for method, f in [("bitwise_and", torch.bitwise_and), ("bitwise_or", torch.bitwise_or), ("bitwise_xor", torch.bitwise_xor)]:
            add(method, f, x, y)


class Numbers:
    """Random elements in the place of a template's."""

    def __init__(self, rng):
        self.rng = rng

    def like(self, x, template):
        if template.subject in STRICT or template.method in SORTED:
            return x
        if x.dtype == BOOL:
            return torch.tensor(self.rng.integers(0, 2, tuple(x.shape))).to(BOOL)
        if not x.dtype.is_floating_point:
            if template.method in LABELLED:
                return x
            order = torch.tensor(self.rng.permutation(x.numel()))
            return x.reshape(-1)[order].reshape(x.shape)
        low = float(x.min()) if x.numel() else 0.0
        signed = not low >= 0.0
        kind = self.rng.choice(["plain", "wide", "special", "ties", "own"], p=[0.35, 0.2, 0.2, 0.1, 0.15])
        return self.floats(kind, x, signed)

    def floats(self, kind, x, signed):
        n, shape = x.numel(), tuple(x.shape)
        plain = self.rng.uniform(-2.0 if signed else 0.0, 2.0, n)
        if kind == "own":
            return x
        if kind == "wide":
            top = 6 if x.dtype == F16 else 20
            plain = np.exp2(self.rng.uniform(-top, top, n)) * (self.rng.choice([-1.0, 1.0], n) if signed else 1.0)
        if kind == "ties":
            plain = np.round(plain)
        if kind == "special":
            strange = [math.nan, math.inf, 0.0, LEAST[x.dtype] * 3, 1.0] + ([-math.inf, -0.0, -1.0] if signed else [])
            plain = np.where(self.rng.random(n) < 0.3, self.rng.choice(strange, n), plain)
        return torch.tensor(plain.reshape(shape)).to(x.dtype)


class Programs:
    """Expressions of one to four steps; a step takes what fits from the values before it."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.numbers = Numbers(self.rng)
        by_method = collections.defaultdict(list)
        for t in templates:
            by_method[t.subject, t.method].append(t)
        self.methods = list(by_method.values())
        # by dtype and shape, the methods that take such a value
        self.taking = {}
        for t in templates:
            for key in {(x.dtype, tuple(x.shape)) for x in t.inputs if x.dtype.is_floating_point}:
                self.taking.setdefault(key, collections.defaultdict(list))[t.subject, t.method].append(t)
        self.taking = {key: list(methods.values()) for key, methods in self.taking.items()}

    def pick(self):
        own = self.methods[self.rng.integers(len(self.methods))]
        return own[self.rng.integers(len(own))]

    def following(self, known):
        """A template that takes a value of a known shape."""
        keys = [key for key in known if key in self.taking]
        if not keys:
            return None
        methods = self.taking[keys[self.rng.integers(len(keys))]]
        own = methods[self.rng.integers(len(methods))]
        return own[self.rng.integers(len(own))]

    def program(self):
        inputs, steps, known = [], [], {}
        for number in range(int(self.rng.integers(1, 5))):
            template = self.following(known) if number else self.pick()
            if template is None:
                break
            taken = []
            for x in template.inputs:
                before = known.get((x.dtype, tuple(x.shape)), [])
                if before and self.rng.random() < 0.8 and template.subject not in STRICT and template.method not in SORTED \
                        and x.dtype.is_floating_point:
                    taken.append(before[self.rng.integers(len(before))])
                    continue
                taken.append(("input", len(inputs)))
                inputs.append(self.numbers.like(x, template))
            outputs = reference(template, [x.to(F64) if x.dtype.is_floating_point else x for x in template.inputs])
            if outputs is None:
                break
            steps.append((template, taken))
            if template.method in UNSHAPED:
                break
            dtype = template.out or cases.meeting([x.dtype for x in template.inputs])
            for k, y in enumerate(outputs):
                key = (dtype if y.dtype == F64 else y.dtype, tuple(y.shape))
                known.setdefault(key, []).append(("step", number, k))
        return inputs, steps


def endless(template, inputs):
    """Whether PyTorch adds up a term for each integer from an input to 0."""
    return template.method == "polygamma" and ((inputs[0] < -1000) & torch.isfinite(inputs[0])).any()


def reference(template, inputs):
    if endless(template, inputs):
        return None
    try:
        result = template.f(*inputs)
    except Exception:  # what PyTorch refuses is not compared
        return None
    return list(result) if isinstance(result, (tuple, list)) else [result]


def array(packed_array):
    dtype, shape, values = packed_array
    dtype = DTYPES[dtype]
    if dtype.is_floating_point:
        return torch.tensor([float(v) for v in values], dtype=F64).reshape(shape).to(dtype)
    return torch.tensor([int(v) for v in values]).to(dtype).reshape(shape)


def unit(x, dtype):
    """The distance from each number to the next one towards 0."""
    least, bits = math.log2(LEAST[dtype]), -math.log2(EPS[dtype])
    exponent = torch.floor(torch.log2(x.abs().clamp(min=LEAST[dtype])))
    return torch.exp2(torch.clamp(exponent - bits + 1, min=least))


def moved(template, inputs, dtype):
    """How far results go when each input moves by a rounding error."""
    rng = np.random.default_rng(5)
    base, most = reference(template, inputs), None
    for k in range(6):
        def shake(x):
            if x.dtype != F64:
                return x
            signs = torch.tensor(rng.choice([-1.0, 1.0], tuple(x.shape)))
            return torch.where(x.isfinite(), x + x * (EPS[dtype] * signs), x)
        outputs = reference(template, [shake(x) for x in inputs])
        if outputs is None:
            return None
        gone = [(a - b).abs().nan_to_num(0.0, math.inf, math.inf) if a.dtype == F64 and a.shape == b.shape else None
                for a, b in zip(outputs, base)]
        most = gone if most is None else [torch.maximum(m, g) if m is not None and g is not None else m for m, g in zip(most, gone)]
    return most


def adds_up(template):
    return template.subject not in ELEMENTWISE and template.method not in NO_SUMS


def off(got, want, template, room, largest=0.0):
    """The elements that are off by more than the step allows."""
    if want.dtype != F64:
        return got.to(I64) != want.to(I64) if not got.dtype.is_floating_point else got != want
    dtype = got.dtype if got.dtype in EPS else F32
    kind, count = template.tol
    if template.method == "lgamma" and dtype == F64:
        count = 64  # docs/numerics.md
    rounded = want.to(dtype).to(F64)
    got = got.to(F64)
    finite = torch.finfo(dtype).max
    clamp = lambda x: x.clamp(-finite, finite)  # noqa: E731
    if kind == "ulp":
        allowed = unit(rounded.clamp(-finite, finite), dtype) * max(count, 0.5)
        if dtype in (F16, BF16):
            allowed = unit(rounded.clamp(-finite, finite), dtype) * (1 + count / 256)
    else:
        allowed = EPS[dtype] * want.abs().clamp(1.0, finite) * count
        if room is not None and adds_up(template):
            # what is added up inside is as large as the inputs, and cancels
            allowed = allowed + 4 * EPS[dtype] * largest
    if dtype == F64:
        allowed = 2 * allowed + 2 * unit(rounded.clamp(-finite, finite), dtype)
    if room is not None:
        allowed = allowed + 32 * room
    return ~((torch.isnan(got) & torch.isnan(rounded)) | (got == rounded) | ((clamp(got) - clamp(rounded)).abs() <= allowed))


def differs(got, want, where):
    """The first of the elements that are off."""
    if not where.any():
        return None
    at = int(where.reshape(-1).nonzero()[0])
    return f"element {at} is {got.reshape(-1)[at].item()!r}, not {want.reshape(-1)[at].item()!r}"


class Judge:
    """Judges the steps, and counts them by method and the elements that are excused by cause."""

    def __init__(self):
        self.count, self.excused, self.kept = collections.Counter(), collections.defaultdict(list), collections.defaultdict(list)

    def expression(self, program, answer):
        """What is wrong with each step."""
        inputs, steps = program
        if "e" in answer:
            return [(steps[-1][0], answer["e"], None)]
        results, wrong = [], []
        for number, (template, taken) in enumerate(steps):
            own = [inputs[i[1]] if i[0] == "input" else results[i[1]][i[2]] for i in taken]
            results.append([array(y) for y in answer["y"][number]])
            want = reference(template, widened(own))
            self.count[template.subject, template.method] += 1
            if want is None or len(want) != len(results[-1]):
                self.count["refused by PyTorch", ""] += want is None
                continue
            wrong += [(template, why, own) for why in filter(None, self.step(template, own, want, results[-1]))]
        whole = answer.get("w", {}).get("y")
        if whole and not any("nan" in str(y).lower() for y in whole):
            # from here template, own and want are those of the last step
            wrong += [(template, why, own) for why in self.whole(template, own, want, whole[0], answer["y"][-1])]
        return wrong

    def whole(self, template, own, want, got, alone):
        """What is wrong with the last step if it was computed with the others."""
        if all(a == b or close(a, b) for a, b in zip(got, alone)):
            return []
        if want is None:
            return [f"computed as a whole it is {got}, not {alone}"]
        return ["computed as a whole, " + why for why in filter(None, self.step(template, own, want, [array(y) for y in got]))]

    def step(self, template, own, want, got):
        """What is wrong with each result."""
        for g, w in zip(got, want):
            if g.shape != w.shape:
                return [f"the shape is {list(g.shape)}, not {list(w.shape)}"]
        left = [off(g, w, template, None) for g, w in zip(got, want)]
        if not any(where.any() for where in left):
            keep(template, own, want, got, self.kept)
            return []
        wide = widened(own)
        floats = [x.dtype for x in own if x.dtype.is_floating_point]
        room = moved(template, wide, cases.meeting(floats) if floats else F32) or [None] * len(want)
        finite = [torch.nan_to_num(x, 0.0, 0.0, 0.0).abs() for x in wide if x.dtype == F64 and x.numel()]
        room = (room, max((float(x.max()) for x in finite), default=0.0))
        left = [off(g, w, template, r, room[1]) for g, w, r in zip(got, want, room[0])]
        if any(where.any() for where in left):
            step = Step(template.method, own, wide, template.args, template.f, want, [g.to(F64) for g in got])
            left = self.unexcused(template, step, got, left, room)
        return [differs(g, w, where) for g, w, where in zip(got, want, left)]

    def unexcused(self, template, step, got, left, room):
        """The elements of each result that no cause excuses."""
        for cause, parts in EXCUSES[template.method]:
            for k, part in enumerate(parts(step)):
                if part is None or not left[k].any():
                    continue
                here = left[k] & part.where
                if part.value is not None:
                    here &= ~off(got[k], part.value, template, room[0][k], room[1])
                if here.any():
                    self.excused[template.method, cause] += zip(got[k][here].tolist(), step.want[k][here].tolist())
                left[k] = left[k] & ~here
        return left


def widened(own):
    return [x.to(F64) if x.dtype.is_floating_point else x for x in own]


def keep(template, own, want, got, kept):
    """Notes a step that holds, zeros with their signs, as a case; a few of each method."""
    same = all(g.dtype == w.dtype or w.dtype == F64 for g, w in zip(got, want))
    zeros = all(torch.equal(torch.signbit(w[w == 0]), torch.signbit(g[w == 0])) for g, w in zip(got, want) if w.dtype == F64)
    ours = kept[template.subject, template.method]
    if len(ours) < 8 and same and zeros and sum(x.numel() for x in own) < 100:
        ours.append({"m": template.method, "k": template.subject, "a": template.args, "x": [packed(x) for x in own],
                     "y": [packed(cases.rounded(w, g.dtype)) for g, w in zip(got, want)], "t": list(template.tol)})


def written(kept, most):
    """Some of the steps that hold, as a file of cases: one of each method, then a second, and so on."""
    turns = itertools.zip_longest(*(kept[key] for key in sorted(kept)))
    cases.cases[:] = [step for turn in turns for step in turn if step is not None][:most]
    cases.write(FOLDER, "expressions")


def close(a, b):
    """Sums may add up in another order in another kernel: a few roundings of the largest number that is there."""
    if a[:2] != b[:2]:
        return False
    a, b = array(a).to(F64), array(b).to(F64)
    dtype = DTYPES["f32"]
    largest = float(torch.nan_to_num(a.abs(), 0.0, 0.0).max()) if a.numel() else 0.0
    return bool((((a - b).abs() <= 64 * EPS[dtype] * max(largest, 1.0)) | (a == b)).all())


def run(programs, command):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "expressions")
        with open(path, "w") as f:
            for inputs, steps in programs:
                place = {}
                total = len(inputs)
                for number, (template, _) in enumerate(steps):
                    outputs = reference(template, [x.to(F64) if x.dtype.is_floating_point else x for x in template.inputs])
                    for k in range(len(outputs)):
                        place["step", number, k] = total + k
                    total += len(outputs)
                number_of = lambda i: i[1] if i[0] == "input" else place[i]  # noqa: E731
                line = {"x": [packed(x) for x in inputs],
                        "s": [{"k": t.subject, "m": t.method, "a": t.args, "i": [number_of(i) for i in taken]} for t, taken in steps]}
                f.write(json.dumps(line) + "\n")
        done = subprocess.run(command, shell=True, env=dict(os.environ, KILN_EXPRESSIONS=path), capture_output=True, text=True)
        if not os.path.exists(path + ".out"):
            sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
        with open(path + ".out") as f:
            return [json.loads(line) for line in f]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kiln", default="cargo test -q -p kiln --test it -- --ignored --exact golden::methods::expressions::expressions_of_a_file")
    parser.add_argument("--keep", type=int, default=0)
    parser.add_argument("--shown", type=int, default=3, help="differences of a method that are printed")
    parser.add_argument("--only", default="", help="methods, with commas between them; the others make no expressions")
    parser.add_argument("--width", type=int, default=400, help="letters of their inputs")
    options = parser.parse_args()
    harvest()
    basics()
    only = set(filter(None, options.only.split(",")))
    templates[:] = [t for t in templates if not only or t.method in only]
    makes, judge = Programs(options.seed), Judge()
    wrong, done = collections.defaultdict(list), 0
    while done < options.count:
        programs = [p for p in (makes.program() for _ in range(min(5000, options.count - done))) if p[1]]
        done += min(5000, options.count - done)
        for program, answer in zip(programs, run(programs, options.kiln)):
            for template, why, own in judge.expression(program, answer):
                wrong[template.subject, template.method].append((template, why, own))
        steps = sum(n for k, n in judge.count.items() if k[1])
        print(done, "expressions,", steps, "steps,", sum(map(len, wrong.values())), "differ", flush=True)
    said(judge, wrong, options)
    if options.keep:
        written(judge.kept, options.keep)
    sys.exit(bool(wrong))


def said(judge, wrong, options):
    """Prints what differs, and what is excused."""
    for (subject, method), all_of_it in sorted(wrong.items()):
        print(f"\n{subject} {method}: {len(all_of_it)} of {judge.count[subject, method]}")
        for template, why, own in all_of_it[:options.shown]:
            given = [packed(x) for x in own] if own else ""
            print("   ", template.args, why, str(given)[:options.width])
    print("\nmethods:", len([k for k in judge.count if k[1]]), "refused by PyTorch:", judge.count["refused by PyTorch", ""])
    print("elements that are excused:", sum(map(len, judge.excused.values())))
    for (method, cause), pairs in sorted(judge.excused.items()):
        some = ", ".join(f"{got:.6g} for {want:.6g}" for got, want in pairs[:options.shown])
        print(f"    {len(pairs)} of {method}: {cause}: {some}")


if __name__ == "__main__":
    main()
