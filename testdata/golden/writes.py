"""Writes writes.json: the gradients that PyTorch gives programs that write to parts of tensors.

    pip install -r requirements.txt && python writes.py

A program is written down once, as Python. It runs on tensors that are a storage and a map of positions, whose versions
PyTorch computes and differentiates in f64, and that note each step for the test. Where PyTorch itself can do all of a
program in place, it must agree. A case is `{name, leaves, steps, y, weights, grads}` in the notation of compact.py: the
gradients are those of the sum of `y * weights`.
"""

import math

import numpy as np
import torch

from compact import packed, spelled, write

rng = np.random.default_rng(13)
cases = []


class Program:
    """What the program that runs noted, and whether PyTorch could do all of it in place so far."""
    steps, native = [], True


def step(op, *arguments):
    def noted(a):
        return a.name if isinstance(a, T) else packed(a) if isinstance(a, np.ndarray) else a
    Program.steps.append([op, *map(noted, arguments)])


def plain(a):
    """What PyTorch takes for an operand of its own."""
    if isinstance(a, T):
        return a.native
    return torch.tensor(a) if isinstance(a, np.ndarray) else a


def value(a):
    return a.value() if isinstance(a, T) else torch.tensor(a) if isinstance(a, np.ndarray) else a


class T:
    """A view: positions in a storage, whose current version is a flat tensor. `native` is the same in PyTorch."""

    def __init__(self, storage, positions, native, name=None):
        self.storage, self.positions, self.native = storage, positions, native
        self.name = name or f"t{len(Program.steps)}"

    @staticmethod
    def holding(value, native, name=None):
        positions = np.arange(value.numel()).reshape(tuple(value.shape))
        return T([value.reshape(-1)], positions, native, name)

    def value(self):
        return self.storage[0][torch.tensor(self.positions.copy())]

    def view(self, op, argument, map, native):
        out = T(self.storage, map(self.positions), None)
        try:
            out.native = native(self.native) if Program.native else None
        except (ValueError, NotImplementedError):
            Program.native = False
        step(op, out, self, argument)
        return out

    def compute(self, op, f, *arguments):
        native = f(self.native, *map(plain, arguments)) if Program.native else None
        out = T.holding(f(self.value(), *map(value, arguments)), native)
        step(op, out, self, *arguments)
        return out

    def write(self, positions, new):
        """The version with `new` there: of equal positions the last counts, for gradients too."""
        flat = positions.reshape(-1)
        last = len(flat) - 1 - np.unique(flat[::-1], return_index=True)[1]
        Program.native &= len(last) == len(flat)
        new = torch.as_tensor(new, dtype=torch.float64).expand(positions.shape).reshape(-1)
        self.storage[0] = self.storage[0].index_put((torch.tensor(flat[last]),), new[torch.tensor(last)])

    def in_place(self, op, f, other):
        self.write(self.positions, f(self.value(), value(other)))
        try:
            if Program.native:
                getattr(self.native, {"add": "add_", "mul": "mul_"}[op])(plain(other))
        except RuntimeError:  # an overlap
            Program.native = False
        step(op + "_assign", self, other)
        return self

    def __getitem__(self, index):
        arrays = any(isinstance(i, np.ndarray) for i in (index if isinstance(index, tuple) else (index,)))
        if not arrays:
            return self.view("get", spelled(index), lambda p: p[index], lambda t: t[index])
        out = self.compute("get", lambda t: t[tuple(map(plain, index)) if isinstance(index, tuple) else plain(index)])
        assert tuple(out.value().shape) == self.positions[index].shape, "PyTorch puts axes elsewhere"
        Program.steps[-1].append(spelled(index))
        return out

    def __setitem__(self, index, new):
        self.write(self.positions[index], value(new))
        try:
            if Program.native:
                self.native[tuple(map(plain, index)) if isinstance(index, tuple) else plain(index)] = plain(new)
        except ValueError:  # a negative step
            Program.native = False
        step("set", self, spelled(index), new)

    def copy(self):
        return self.compute("copy", lambda t: t.clone())

    def detach(self):
        out = T.holding(self.value().detach(), self.native.detach().clone() if Program.native else None)
        Program.native = False  # a detached alias would refuse writes
        step("detach", out, self)
        return out

    def permute(self, *axes):
        return self.view("permute", list(axes), lambda p: p.transpose(axes), lambda t: t.permute(axes))

    def reshape(self, *shape):
        return self.view("reshape", list(shape), lambda p: p.reshape(shape), lambda t: t.view(shape))

    def expand(self, *shape):
        return self.view("expand", list(shape), lambda p: np.broadcast_to(p, shape), lambda t: t.expand(shape))

    def flip(self, *axes):
        def refuse(_):
            raise NotImplementedError("flips copy")
        return self.view("flip", list(axes), lambda p: np.flip(p, axes), refuse)

    def assign(self, new):
        self.write(self.positions, value(new))
        if Program.native:
            self.native.copy_(torch.as_tensor(plain(new)))
        step("assign", self, new)

    def add_(self, other):
        return self.in_place("add", torch.add, other)

    def mul_(self, other):
        return self.in_place("mul", torch.mul, other)

    def __add__(self, other):
        return self.compute("add", lambda a, b: a + b, other)

    def __sub__(self, other):
        return self.compute("sub", lambda a, b: a - b, other)

    def __mul__(self, other):
        return self.compute("mul", lambda a, b: a * b, other)

    def square(self):
        return self.compute("square", torch.square)

    def sin(self):
        return self.compute("sin", torch.sin)

    def sum(self, axis):
        out = self.compute("sum", lambda t: t.sum(axis))
        Program.steps[-1].append([axis])
        return out

    def masked_fill(self, mask, new):
        return self.compute("masked_fill", lambda t, m, v: t.masked_fill(m, v), mask, new)

    def masked_select(self, mask):
        return self.compute("masked_select", lambda t, m: t.masked_select(m), mask)

    def gather(self, axis, index):
        return self.compute("gather", lambda t, axis, i: t.gather(axis, i), axis, index)

    def index_select(self, axis, index):
        return self.compute("index_select", lambda t, axis, i: t.index_select(axis, i), axis, index)

    def scatter(self, axis, index, src):
        return self.compute("scatter", lambda t, axis, i, s: t.scatter(axis, i, s), axis, index, src)

    def scatter_reduce(self, axis, index, src, how, include_self):
        f = lambda t, axis, i, s, how, own: t.scatter_reduce(axis, i, s, how, include_self=own)
        return self.compute("scatter_reduce", f, axis, index, src, how, include_self)


def numbers(shape, salt):
    """Different numbers, none of them 0, and others for another salt."""
    n = math.prod(shape)
    return ((rng.permutation(n) - n // 2) / 4 + 0.125 + salt / 32).astype(np.float32).reshape(shape)


def gradients(y, weights, leaves):
    grads = torch.autograd.grad((y * torch.tensor(weights, dtype=torch.float64)).sum(), leaves, allow_unused=True)
    return [np.zeros(t.shape, np.float32) if g is None else g.numpy().astype(np.float32) for g, t in zip(grads, leaves)]


def ints(*data):
    return np.array(data[0] if len(data) == 1 else data, np.int64)


def mask(text):
    rows = np.array([[c == "1" for c in row] for row in text.split()])
    return rows[0] if len(rows) == 1 else rows


def case(name, text, **shapes):
    Program.steps, Program.native = [], True
    data = {k: numbers(shape, i) for i, (k, shape) in enumerate(shapes.items())}
    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in data.values()]
    scope = {k: T.holding(leaf, leaf, k) for k, leaf in zip(data, leaves)}
    scope |= {"ints": ints, "mask": mask, "new": None}
    exec(text, scope)
    y = scope["y"].value()
    weights = numbers(tuple(y.shape), len(data))
    grads = gradients(y, weights, leaves)
    agrees = None
    if Program.native:
        assert torch.equal(scope["y"].native, y), name
        try:
            for a, b in zip(gradients(scope["y"].native, weights, leaves), grads):
                np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=name)
            agrees = True
        except RuntimeError as e:
            assert "modified by an inplace operation" in str(e), e
    seen.append(agrees)
    cases.append({"name": name, "leaves": {k: packed(a) for k, a in data.items()}, "steps": Program.steps,
                  "out": scope["y"].name, "y": packed(y.detach().numpy().astype(np.float32)), "weights": packed(weights),
                  "grads": {k: packed(g) for k, g in zip(data, grads)}})


seen = []

# One write of a region.
for name, shape, target in [
    ("slice", (6,), "1:4"), ("every other", (6,), "::2"), ("offset step", (7,), "1:6:3"), ("backward", (6,), "::-1"),
    ("backward in part", (7,), "5:1:-2"), ("one element", (6,), "2"), ("last element", (6,), "-1"), ("all", (6,), "..."),
    ("nothing", (6,), "3:3"), ("row", (3, 4), "1"), ("column", (3, 4), ":, 2"), ("block", (3, 4), "1:, :2"),
    ("block of steps", (4, 5), "::2, 3::-2"), ("element of a matrix", (3, 4), "-1, 2"), ("new axis", (3, 4), "1:, new, 0"),
    ("last axis", (2, 3, 4), "..., 1:3"), ("middle axis", (2, 3, 4), ":, 1"), ("corner", (2, 3, 4), "0, ::-2, -1")]:
    picked = np.zeros(shape)[eval(f"np.s_[{target}]", {"np": np, "new": None})].shape
    case(f"write of {name}", f"y = x.copy(); y[{target}] = v", x=shape, v=picked)
    if math.prod(picked) > 1:
        case(f"number into {name}", f"y = x.copy(); y[{target}] = 1.5; y = y.square()", x=shape)
case("value that is broadcast", "y = x.copy(); y[1:3] = v; y = y * y", x=(4, 3), v=(3,))
case("value with an axis of one", "y = x.copy(); y[:, ::2] = v", x=(4, 3), v=(4, 1))
case("value of one element", "y = x.copy(); y[1:, 1:] = v", x=(4, 3), v=())
case("value that is computed", "y = x.copy(); y[1:3] = v.sin() * v", x=(4,), v=(2,))
case("value from the same base", "y = x.copy(); y[:2] = x[2:] * x[:2]", x=(4,))
case("value from the target's old version", "y = x.square(); y[:3] = y[3:] * y[:3]", x=(6,))
case("value that overlaps the target", "y = x.copy(); y[1:] = y[:-1] * 2", x=(5,))
case("value is the target backward", "y = x.copy(); y[...] = y[::-1] * y", x=(5,))
case("value is a transposed base", "y = x.copy(); y[...] = x.permute(1, 0).square()", x=(3, 3))
case("value is an expanded row", "y = x.copy(); y[...] = v.expand(3, 4) * x", x=(3, 4), v=(4,))
case("value of which a part is used", "y = x.copy(); y[1:3] = v[::2, 1]", x=(4,), v=(4, 2))

# Several writes.
case("second write over the first", "y = x.copy(); y[0:4] = v; y[2:6] = w", x=(6,), v=(4,), w=(4,))
case("second write hides the first", "y = x.copy(); y[1:3] = v; y[0:4] = w", x=(6,), v=(2,), w=(4,))
case("second write inside the first", "y = x.copy(); y[0:5] = v; y[1:4] = w", x=(6,), v=(5,), w=(3,))
case("writes side by side", "y = x.copy(); y[:3] = v; y[3:] = w", x=(6,), v=(3,), w=(3,))
case("interleaved steps", "y = x.copy(); y[::2] = v; y[1::3] = w", x=(6,), v=(3,), w=(2,))
case("rows then columns", "y = x.copy(); y[1] = v; y[:, 1] = w", x=(3, 3), v=(3,), w=(3,))
case("elements one by one", "y = x.copy()\nfor i in range(4): y[i] = v[3 - i] * (i + 1)", x=(5,), v=(4,))
case("recurrence", "y = x.copy()\nfor i in range(1, 5): y[i] = y[i - 1] * v[i]", x=(5,), v=(5,))
case("recurrence backward", "y = x.copy()\nfor i in range(3, -1, -1): y[i] = y[i + 1] * 0.5 + y[i]", x=(5,))
case("recurrence over rows", "y = x.copy()\nfor i in range(1, 3): y[i] = y[i - 1] * y[i]", x=(3, 2))
case("old versions live on", "a = x.copy(); b = a * a; a[1:3] = v; y = b + a * a", x=(4,), v=(2,))
case("copies between writes", "a = x.copy(); a[0] = v[0]; b = a.copy(); a[0] = v[1]; y = a * b", x=(3,), v=(2,))
case("swapped halves", "y = x.square(); a = y[:2].copy(); y[:2] = y[2:]; y[2:] = a", x=(4,))
case("number over a written value", "y = x.copy(); y[1:4] = v; y[2] = 0.5", x=(5,), v=(3,))
case("write to a write's value", "a = v.copy(); a[1] = w; y = x.copy(); y[1:4] = a; a[0] = 9; y = y * y", x=(5,), v=(3,), w=())
case("the same value twice", "y = x.copy(); y[:2] = v; y[2:4] = v * v", x=(5,), v=(2,))

# Through views.
case("through a transposed view", "y = x.copy(); y.permute(1, 0)[1] = v", x=(3, 4), v=(3,))
case("through a permuted view", "y = x.copy(); y.permute(2, 0, 1)[1:3, 1] = v", x=(2, 3, 4), v=(2, 3))
case("through a flipped view", "y = x.copy(); y.flip(0)[1:3] = v; y = y * x", x=(5,), v=(2,))
case("through a view flipped twice", "y = x.copy(); y.flip(0, 1).flip(1)[0] = v", x=(3, 4), v=(4,))
case("through a reshaped view", "y = x.copy(); y.reshape(6)[1:5] = v", x=(2, 3), v=(4,))
case("through a view of a view", "y = x.copy(); y[1:][::2][1] = v", x=(6, 2), v=(2,))
case("through a backward slice of a slice", "y = x.copy(); y[1:6][::-2][0:2] = v", x=(7,), v=(2,))
case("view read after its base is written", "y = x.copy(); a = y[1:4]; y[2] = v; y = a * a", x=(5,), v=())
case("base read after its view is written", "b = x.copy(); a = b[:, 1]; a.assign(v); y = b * b", x=(3, 2), v=(3,))
case("whole by a transposed view", "y = x.copy(); y.permute(1, 0).assign(v)", x=(2, 3), v=(3, 2))
case("assigned to itself, computed", "y = x.copy(); y.assign(y * y + v)", x=(3,), v=(3,))
case("added to a slice", "y = x.copy(); y[1:3].add_(v)", x=(4,), v=(2,))
case("multiplied in a slice", "y = x.copy(); y[1:3].mul_(v)", x=(4,), v=(2,))
case("multiplied in a flipped column", "y = x.copy(); y.flip(0)[1:, 0].mul_(v)", x=(3, 2), v=(2,))
case("added by itself shifted", "y = x.copy(); y[1:].add_(y[:-1])", x=(4,))
case("detached value", "y = x.copy(); y[1:3] = (v * v).detach() * v", x=(4,), v=(2,))
case("one row of an expanded view", "y = v.copy(); y.expand(3, 2)[1] = w; y = y * y", v=(2,), w=(2,))

# Positions that arrays hold.
for name, shape, target in [
    ("positions", (6,), "ints(4, 1, 3)"), ("a matrix of positions", (6,), "ints([[0, 5], [2, 3]])"), ("one position", (6,), "ints(2)"),
    ("no positions", (6,), "ints([])"), ("negative positions", (6,), "ints(-1, -4)"), ("rows", (4, 3), "ints(3, 0)"),
    ("columns", (4, 3), ":, ints(2, 0)"), ("pairs", (4, 3), "ints(3, 1, 0), ints(0, 2, 2)"), ("a grid", (4, 3), "ints([[0], [3]]), ints(2, 0)"),
    ("rows, every other column", (4, 3), "ints(3, 0), ::2"), ("arrays apart", (2, 3, 4), "ints(1, 0), :, ints(3, 1)"),
    ("arrays after an axis", (2, 3, 4), ":, ints(1, 0), ints(3, 1)"), ("a row and positions", (2, 3, 4), "1, ints(2, 0)"),
    ("a mask", (6,), 'mask("011010")'), ("a mask of all axes", (2, 3), 'mask("101 010")'), ("a mask of rows", (4, 2), 'mask("0101")'),
    ("an empty mask", (4,), 'mask("0000")')]:
    at = eval(f"np.s_[{target}]", {"np": np, "ints": ints, "mask": mask})
    picked = np.zeros(shape)[at].shape
    case(f"read of {name}", f"y = (x * x)[{target}] * x[{target}]", x=shape)
    case(f"write at {name}", f"y = x.square(); y[{target}] = v; y = y * y", x=shape, v=picked)
case("read at equal positions", "y = x[ints(1, 1, 3, 1)] * v", x=(4,), v=(4,))
case("read of equal rows", "y = x[ints([[1, 1], [0, 1]])]", x=(2, 3))
case("value broadcast to positions", "y = x.copy(); y[ints(3, 0)] = v", x=(4, 3), v=(3,))
case("number at positions", "y = x.copy(); y[ints(3, 0)] = 2; y = y * x", x=(4, 3))
case("number under a mask", 'y = x.copy(); y[mask("0110")] = 2; y = y * x', x=(4,))
case("value under a mask is broadcast", 'y = x.copy(); y[mask("0110")] = v', x=(4, 2), v=(2,))
case("positions over a slice over positions", "y = x.copy(); y[ints(4, 1)] = v; y[1:3] = w; y[ints(2, 0)] = u", x=(5,), v=(2,), w=(2,), u=(2,))
case("positions of a view", "y = x.copy(); y.permute(1, 0)[ints(2, 0)] = v", x=(2, 3), v=(2, 2))
case("positions of a backward slice", "y = x.copy(); y[::-2][ints(2, 0)] = v", x=(5,), v=(2,))
case("recurrence over positions", "y = x.copy()\nfor i in range(2): y[ints(i + 1, i + 2)] = y[ints(i, 0)] * y[ints(3, i)]", x=(4,))
case("last of equal positions", "y = x.copy(); y[ints(1, 3, 1)] = v", x=(4,), v=(3,))
case("last of equal rows", "y = x.copy(); y[ints(0, 0)] = v; y = y * y", x=(2, 2), v=(2, 2))
case("last of equal positions, broadcast", "y = x.copy(); y[ints([[1, 2], [2, 1]])] = v", x=(4,), v=(2,))

# The methods.
case("gather", "y = x.gather(1, ints([[0, 2], [1, 1], [2, 0]])) * v", x=(3, 3), v=(3, 2))
case("gather from part of the rows", "y = x.square().gather(0, ints([[2, 0, 2]]))", x=(3, 4))
case("gather of what was written", "a = x.copy(); a[1] = v; y = a.gather(0, ints([[1, 1, 0], [1, 2, 1]]))", x=(3, 3), v=(3,))
case("index_select", "y = x.index_select(1, ints(2, 0, 2)).square()", x=(2, 3))
case("masked_select", 'y = x.square().masked_select(mask("101 010"))', x=(2, 3))
case("masked_fill", 'y = x.masked_fill(mask("101 010"), 3).square()', x=(2, 3))
case("masked_fill by rows", 'y = x.masked_fill(mask("101"), 3) * x', x=(2, 3))
case("scatter", "y = x.scatter(1, ints([[0, 2], [1, 0]]), v).square()", x=(2, 3), v=(2, 2))
case("scatter of part of a value", "y = x.scatter(0, ints([[2, 0]]), v[:1, 1:])", x=(3, 3), v=(2, 3))
case("scatter_add", 'y = x.scatter_reduce(0, ints(0, 3, 0, 0), v, "sum", True).square()', x=(4,), v=(4,))
case("scatter_add along columns", 'y = x.scatter_reduce(1, ints([[0, 0], [2, 1]]), v.square(), "sum", True) * x', x=(2, 3), v=(2, 2))
for how in ["sum", "prod", "mean", "amin", "amax"]:
    for own in [True, False]:
        case(f"scatter_reduce {how}, {'with' if own else 'without'} itself",
             f'y = x.scatter_reduce(0, ints(0, 3, 0, 3, 0, 1), v, "{how}", {own})', x=(5,), v=(6,))
case("embedding", "y = x[ints([[1, 0], [2, 1]])].sum(1) * v", x=(3, 2), v=(2,))
case("write into a gathered value", "y = x[ints(2, 0, 2)]; y[1:] = v; y = y * y", x=(3, 2), v=(2,))

write("writes.json", f"torch {torch.__version__} numpy {np.__version__}", cases)
print(sum(s is True for s in seen), "agree with PyTorch in place,", seen.count(None), "it cannot do")
