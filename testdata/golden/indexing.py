"""Writes indexing.json: what NumPy and PyTorch give for indices that are arrays, masks and everything next to them.

    pip install -r requirements.txt && python indexing.py

A case is `{op, x, at, value, out}`, or `{op, x, args, out}`, in the notation of compact.py; `out` is what a read gives,
or the array after a write, or "error", or "outside": a position that is not there. NumPy decides `get` and `set`, PyTorch the rest.
"""

import numpy as np
import torch

from compact import DTYPES, counting, packed, spelled, write

rng = np.random.default_rng(11)
cases = []
I = np.s_
ROTATION = ["f32", "i32", "i64", "u8", "bool"]


def ints(*data, dtype="i64"):
    return np.array(data[0] if len(data) == 1 else data, DTYPES[dtype])


def mask(text):
    """Rows of 0 and 1, as a bool array."""
    rows = np.array([[c == "1" for c in row] for row in text.split()])
    return rows[0] if len(rows) == 1 else rows


def failure(error):
    return "outside" if "out of bounds" in str(error) or "out of range" in str(error) else "error"


def get(x, index):
    try:
        out = packed(x[index])
    except (IndexError, ValueError, TypeError) as error:
        out = failure(error)
    cases.append({"op": "get", "x": packed(x), "at": spelled(index), "out": out})


def set_(x, index, value, out=None):
    after = x.copy()
    try:
        after[index] = value
        out = out or packed(after)
    except (IndexError, ValueError, TypeError) as error:
        out = failure(error)
    value = packed(value) if isinstance(value, np.ndarray) else value
    cases.append({"op": "set", "x": packed(x), "at": spelled(index), "value": value, "out": out})


def values(shape, dtype):
    """Values that tell places apart and differ from what is counted."""
    k = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    whole = np.asarray(k % 2 == 0) if dtype == "bool" else np.asarray(k + 100, DTYPES[dtype])
    return np.asarray(whole + np.float32(0.5)) if dtype == "f32" else whole


def value(kind, target, dtype):
    """A scalar, all of the target's shape, its last axes, or the shape with a 1 in it."""
    if kind == 0:
        return {"f32": 2.5, "bool": True}.get(dtype, 77)
    shape = {1: target, 2: target[1:], 3: target[:-1] + (1,) if target else target}[kind]
    return values(shape, dtype)


def both(shape, index, turn=[0]):
    """Reads and writes with an index, going through the dtypes and the kinds of values."""
    turn[0] += 1
    n = turn[0]
    get(counting(ROTATION[n % 5], shape), index)
    x = counting(ROTATION[(n + 2) % 5], shape)
    set_(x, index, value((1, 0, 1, 2, 3)[n // 5 % 5], x[index].shape, ROTATION[(n + 2) % 5]))


# Views: no array among the indices.
for shape, index in [
    ((5,), I[2]), ((5,), I[-1]), ((5,), I[1:4]), ((5,), I[::-1]), ((7,), I[5:0:-2]), ((5,), I[-100:100]),
    ((5,), I[3:1]), ((5,), I[...]), ((5,), I[None]), ((3, 4), I[1]), ((3, 4), I[:, -2]), ((3, 4), I[1, 2]),
    ((3, 4), I[::2, 1::2]), ((3, 4), I[..., 0]), ((3, 4), I[::-1, ::-1]), ((3, 4), I[None, 1, :, None]),
    ((2, 3, 4), I[1, ..., ::-2]), ((2, 3, 4), I[..., None, 1:3]), ((2, 3, 4), I[:, -1, :2]), ((2, 3, 4), I[None, ..., None]),
    ((2, 1, 3), I[:, 0]), ((2, 1, 3), I[0, :, 2:0:-1]), ((0, 3), I[:, 1]), ((2, 3, 2, 2), I[1, ..., 0]), ((), I[...]),
    ((), I[None])]:
    both(shape, index)

# One array: every rank and every axis.
for shape, index in [
    ((6,), I[ints(4, 1, 1)]), ((6,), I[ints([[0, 5], [2, 2]])]), ((6,), I[ints(-1, -6, 3)]), ((6,), I[ints([])]),
    ((6,), I[ints(3)]), ((6,), I[ints(-2)]), ((6,), I[ints([[1]])]), ((6,), I[[5, 0, 5]]), ((6,), I[[[0, 1], [2, 3]]]),
    ((6,), I[ints(range(6))]), ((6,), I[ints(5, 4, 3, 2, 1, 0)]), ((6,), I[ints(2, 2, 2, 2)]), ((1,), I[ints(0, 0, -1)]),
    ((4, 3), I[ints(3, 0)]), ((4, 3), I[ints([[1, -1], [0, 1]])]), ((4, 3), I[ints(2)]), ((4, 3), I[ints([])]),
    ((4, 3), I[[1, 1]]), ((4, 3), I[:, ints(2, 0, 1, 0)]), ((4, 3), I[:, ints([[2, 0], [1, 0]])]), ((4, 3), I[..., ints(-1, 0)]),
    ((4, 3), I[:, ints([])]), ((4, 3), I[:, ints(1)]), ((4, 3), I[1:3, ints(0, 2)]), ((4, 3), I[::-1, ints(0, 2)]),
    ((4, 3), I[ints(3, 1), ::2]), ((4, 3), I[ints(3, 1), ::-1]), ((4, 3), I[ints(3, 1), 0:0]), ((4, 3), I[None, ints(3, 1)]),
    ((4, 3), I[ints(3, 1), None]), ((4, 3), I[ints(0, 3), ..., None]), ((4, 3), I[3:0:-2, ints([[0], [1]])]),
    ((2, 3, 4), I[:, ints(2, 0)]), ((2, 3, 4), I[..., ints([[3, 0, 1]])]), ((2, 3, 4), I[ints(1, 0, 1)]),
    ((2, 3, 4), I[1:, ints(2, 0, 0), ::2]), ((2, 3, 4), I[:, ints([[0, 1], [2, 0]]), 1:3]), ((2, 3, 4), I[:, None, ints(2, 1)]),
    ((2, 3, 4), I[ints(0, 0, 1), ..., -1:]), ((2, 0, 3), I[:, :, ints(2, 0)]), ((0, 3), I[ints([])]), ((3, 0), I[ints(1, 2)]),
    ((2, 2, 2, 2), I[:, ints(1, 0, 1), ..., ::-1])]:
    both(shape, index)

# Several arrays broadcast against each other. Next to each other their axes stay in place, else they go first; an
# integer counts as an array.
for shape, index in [
    ((4, 3), I[ints(0, 3), ints(1, 2)]), ((4, 3), I[ints(0, 0, 3, 0), ints(1, 1, 2, 1)]), ((4, 3), I[ints([[0], [3]]), ints(1, 2)]),
    ((4, 3), I[ints([[0], [3]]), ints([[2, 0, 1]])]), ((4, 3), I[ints(2), ints(1)]), ((4, 3), I[ints(2), ints(1, 0)]),
    ((4, 3), I[ints(-1, -4), [-1, -3]]), ((4, 3), I[[0, 1, 2], 1]), ((4, 3), I[2, [0, 1, 1]]), ((4, 3), I[-1, ints([[0, 2]])]),
    ((4, 3), I[ints([]), ints([])]), ((4, 3), I[ints([]), 1]), ((4, 3), I[ints([]), ints(1)]), ((4, 3), I[ints([0, 1]), ints([2])]),
    ((4, 3), I[ints(0, 1), None, ints(2, 0)]), ((4, 3), I[ints(0, 1), None, 2]), ((4, 3), I[None, ints(0, 1), ints(2, 0)]),
    ((4, 3), I[ints(0, 1), ..., ints(2, 0)]), ((2, 3, 4), I[ints(0, 1, 1), ints(2, 0, 0)]), ((2, 3, 4), I[:, ints(2, 0), ints(3, 1)]),
    ((2, 3, 4), I[ints(1, 0), :, ints(3, 1)]), ((2, 3, 4), I[ints(1, 0), ..., ints(3, 1)]), ((2, 3, 4), I[1, :, ints(3, 1)]),
    ((2, 3, 4), I[ints(1, 0), :, -1]), ((2, 3, 4), I[:, 1, ints(3, 1, 0)]), ((2, 3, 4), I[:, ints(1, 2), 0]), ((2, 3, 4), I[0, ints(2, 1)]),
    ((2, 3, 4), I[0, ints(2, 1), 1:3]), ((2, 3, 4), I[0, 1:, ints(2, 1, 3)]), ((2, 3, 4), I[0, ..., ints([[2, 1]])]),
    ((2, 3, 4), I[ints([[0], [1]]), ::2, ints(3, 1)]), ((2, 3, 4), I[ints([[0], [1]]), ints(2, 0), 1::2]),
    ((2, 3, 4), I[ints([[[0]], [[1]]]), ints([[0], [2]]), ints(3, 0)]), ((2, 3, 4), I[ints(0, 1), ints(0, 2), ints(3, 1)]),
    ((2, 3, 4), I[ints(1), :, ints(2)]), ((2, 3, 4), I[ints(1), :, ints(2, 0)]), ((2, 3, 4), I[1, None, ints(2, 0)]),
    ((2, 3, 4), I[:, ints(0, 1), None, ints(2, 0)]), ((2, 3, 4), I[None, :, ints(0, 1), ints(2, 0)]),
    ((2, 3, 4), I[ints([]), :, 1]), ((2, 3, 4), I[1, ::-1, ints(0, -1)]), ((2, 2, 3, 2), I[:, ints(0, 1), ints(2, 0), :]),
    ((2, 2, 3, 2), I[ints(0, 1), :, ints(2, 0), :]), ((2, 2, 3, 2), I[:, ints(0, 1), :, ints(1, 0)]),
    ((2, 2, 3, 2), I[:, 0, ints(2, 0), 1]), ((2, 2, 3, 2), I[0, ints(1, 0), :, 1]), ((2, 2, 3, 2), I[1, ..., ints(2, 1), 0]),
    ((2, 2, 3, 2), I[:, ints([[1], [0]]), ints(0, 2), ::-1]), ((2, 2, 3, 2), I[..., ints(0, 1, 1), None, ints(0, 0, 1)]),
    ((2, 2, 3, 2), I[1, :, 1:, ints(1, 0)]), ((2, 2, 3, 2), I[ints(0, 1), 1, None, 2])]:
    both(shape, index)

# Index dtypes.
for dtype in ["i8", "i16", "i32", "u8", "u16", "u32", "u64"]:
    both((5, 2), I[ints(4, 0, 2, dtype=dtype)])
both((5, 2), I[ints(4, -5, dtype="i32"), ints([[1], [0]], dtype="u8")])
both((5, 2), I[:, ints(-1, 0, -1, dtype="i8")])

# Masks.
for shape, index in [
    ((6,), I[mask("101001")]), ((6,), I[mask("000000")]), ((6,), I[mask("111111")]), ((1,), I[mask("1")]), ((0,), I[np.zeros(0, bool)]),
    ((4, 3), I[mask("0110")]), ((4, 3), I[:, mask("101")]), ((4, 3), I[..., mask("001")]), ((4, 3), I[mask("1001"), 1:]),
    ((4, 3), I[mask("1001"), ::-1]), ((4, 3), I[::-2, mask("011")]), ((4, 3), I[mask("101 010 000 111")]),
    ((4, 3), I[mask("000 000 000 000")]), ((4, 3), I[mask("1001"), 2]), ((4, 3), I[-1, mask("101")]),
    ((4, 3), I[mask("1001"), ints(0, 2)]), ((4, 3), I[mask("1001"), ints([[0], [2]])]), ((4, 3), I[mask("1001"), mask("110")]),
    ((4, 3), I[mask("1000"), mask("110")]), ((4, 3), I[None, mask("0110")]), ((4, 3), I[mask("0110"), None]),
    ((2, 3, 4), I[mask("110 001")]), ((2, 3, 4), I[:, mask("1001 0100 0010")]), ((2, 3, 4), I[mask("110 001"), 2]),
    ((2, 3, 4), I[mask("110 001"), 1:3]), ((2, 3, 4), I[1, mask("1001 0100 0010")]), ((2, 3, 4), I[1, mask("101")]),
    ((2, 3, 4), I[1, :, mask("1001")]), ((2, 3, 4), I[mask("01"), :, ints(3, 0)]), ((2, 3, 4), I[mask("11"), :, mask("0110")]),
    ((2, 3, 4), I[ints(0, 1), mask("101")]), ((2, 3, 4), I[mask("110 001"), ints(0, 1, 3)]), ((2, 3, 4), I[..., mask("1001 0100 0010")]),
    ((2, 2, 2, 2), I[:, mask("10 11")]), ((2, 2, 2, 2), I[0, ..., mask("10 11")])]:
    both(shape, index)
for dtype in ["f32", "i32", "u8"]:
    x = counting(dtype, (3, 4))
    get(x, x > 5)
    set_(x, x % 2 == 1, 7)
    set_(x, (x > 3) & (x < 9), values((5,), dtype))

# What equal positions leave: the last value.
for index in [I[ints(1, 1, 1)], I[ints([[0, 3], [3, 0]])], I[ints(-4, 0, -4)]]:
    for dtype in ["f32", "i64"]:
        x = counting(dtype, (4,))
        set_(x, index, values(index.shape, dtype))
x = counting("f32", (3, 4))
set_(x, I[ints(2, 0, 2)], values((3, 4), "f32"))
set_(x, I[:, ints(1, 1, 3, 1)], values((3, 4), "f32"))
set_(x, I[ints([[0], [0]]), ints(1, 1)], values((2, 2), "f32"))
set_(x, I[ints(0, 0), :, None], values((2, 4, 1), "f32"))
set_(x, I[ints(1, 1, 2, 1), ints(0, 0, 3, 0)], values((4,), "f32"))

# Values of lower types, and of other shapes.
for source, target in [("i32", "f32"), ("u8", "f32"), ("bool", "f32"), ("bool", "i32"), ("u8", "i32"), ("i32", "i64"), ("bool", "u8")]:
    set_(counting(target, (4, 3)), I[ints(3, 1)], values((2, 3), source))
    set_(counting(target, (4, 3)), I[1:, 0], values((3,), source))
set_(counting("i32", (4, 3)), I[ints(3, 1)], 2.75)
set_(counting("i32", (4, 3)), I[::2], 2.75)
set_(counting("bool", (4, 3)), I[ints(3, 1)], 2)
for shape in [(), (1,), (3,), (1, 3), (2, 1), (2, 3), (1, 1)]:
    set_(counting("f32", (4, 3)), I[ints(3, 1)], values(shape, "f32"))
for shape in [(), (1,), (3,), (2, 1, 3)]:
    set_(counting("i32", (2, 2, 3)), I[:, ints(1, 0)], values(shape, "i32"))
set_(counting("f32", (6,)), I[mask("011010")], values((1,), "f32"))
set_(counting("f32", (6,)), I[ints([])], values((0,), "f32"))

# Errors.
x, cube = counting("f32", (4, 3)), counting("i32", (2, 3, 4))
for a, index in [
    (x, I[ints(0, 4)]), (x, I[ints(-5)]), (x, I[ints([-5, 0])]), (x, I[:, ints(3, 0)]), (x, I[[0, 7]]), (x, I[ints(0, 1), 3]),
    (x, I[4, ints(0, 1)]), (x, I[ints(0, 1), ints(0, 3)]), (x, I[ints(0, 1), ints(0, 1, 2)]), (x, I[ints([[0, 1]]), ints([[0], [1], [2]]), 0]),
    (x, I[ints(0), ints(0), ints(0)]), (x, I[0, 0, 0]), (x, I[4]), (x, I[0, -4]), (x, I[..., ints(0), ...]), (x, I[..., ...]),
    (x, I[::0]), (x, I[::0, ints(0, 1)]), (x, I[mask("101")]), (x, I[:, mask("1010")]), (x, I[mask("11111")]), (x, I[mask("101 010")]),
    (x, I[mask("1010 0101 1111")]), (x, I[mask("1010 0101"), 0]), (x, I[mask("101 010 000 111"), 0]), (x, I[mask("1011"), ints(0, 1)]),
    (x, I[np.array([0.0, 1.0], np.float32)]), (cube, I[mask("1011"), :]), (cube, I[ints(0, 2), :, 1]), (cube, I[1, ints(0, 1), 9]),
    (counting("f32", (1,)).reshape(()), I[ints(0, 0)]), (counting("f32", (1,)).reshape(()), I[0]), (counting("f32", (0, 3)), I[ints(0, 0)]),
    (counting("f32", (0, 3)), I[0])]:
    get(a, index)
    set_(a, index, 1)
for a, index, shape in [
    (x, I[ints(0, 1)], (3, 3)), (x, I[ints(0, 1)], (2,)), (x, I[ints(0, 1)], (2, 2, 3)), (x, I[ints(0, 1), ints(0, 1)], (3,)),
    (x, I[mask("1010")], (3, 3)), (x, I[mask("101 010 000 111")], (5,)), (x, I[1:3], (3, 3)), (x, I[0], (4,)), (x, I[0, 0], (2,)),
    (cube, I[ints(1, 0), :, ints(3, 1)], (3, 2)), (cube, I[1, :, ints(3, 1)], (3, 2)), (x, I[ints([])], (2, 3))]:
    set_(a, index, values(shape, "f32" if a is x else "i32"))
# NumPy would round, or drop the imaginary part of what a higher type holds
for source, target in [("f32", "i32"), ("f32", "u8"), ("f32", "bool"), ("i64", "i32"), ("i32", "bool")]:
    set_(counting(target, (4, 3)), I[ints(3, 1)], values((2, 3), source), out="error")
    set_(counting(target, (4, 3)), I[1:3], values((2, 3), source), out="error")


def random_index(shape):
    """An index of some axes: positions, slices and arrays that broadcast, with new axes and dots between."""
    common = tuple(rng.integers(1, 4, rng.integers(1, 3)))
    index = []
    for n in shape[:rng.integers(1, len(shape) + 1)]:
        kind = rng.choice(["at", "slice", "array", "array"])
        if kind == "at":
            index.append(int(rng.integers(-n, n)))
        elif kind == "slice":
            ends = [None if rng.random() < 0.3 else int(rng.integers(-n - 1, n + 2)) for _ in range(2)]
            index.append(slice(*ends, int(rng.choice([-2, -1, 1, 1, 2]))))
        else:
            own = tuple(1 if rng.random() < 0.3 else m for m in common[rng.integers(0, len(common)):])
            index.append(rng.integers(-n, n, own).astype(DTYPES[rng.choice(["i32", "i64"])]))
    if len(index) < len(shape) and rng.random() < 0.6:
        # an ellipsis stands for all axes that are left, so what follows it has to fit from the end
        index = index[:1] + [Ellipsis] + [ints(0, -1) if isinstance(i, np.ndarray) else 0 if isinstance(i, int) else slice(None)
                                          for i in index[1:]]
    if rng.random() < 0.25:
        index.insert(rng.integers(0, len(index) + 1), None)
    return tuple(index)


made = 0
while made < 50:
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(2, 5)))
    index = random_index(shape)
    try:
        picked = np.zeros(shape)[index].size
    except IndexError:
        continue
    if np.prod(shape) <= 40 and 0 < picked <= 40 and any(isinstance(i, np.ndarray) for i in index):
        both(shape, index)
        made += 1


# The methods, by PyTorch.
def method(op, x, f, **rest):
    """`rest` are arguments: arrays become tensors in `f`, and what PyTorch wants as i64 may be any integer."""
    tensors = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in rest.items()}
    if "index" in tensors and tensors["index"].dtype != torch.float32:
        tensors["index"] = tensors["index"].long()
    try:
        out = packed(f(torch.tensor(x), **tensors).numpy())
    except (IndexError, RuntimeError) as error:
        out = failure(error)
    arguments = [packed(v) if isinstance(v, np.ndarray) else v for v in rest.values()]
    cases.append({"op": op, "x": packed(x), "args": arguments, "out": out})


def gather(x, axis, index):
    method("gather", x, lambda x, axis, index: x.gather(axis, index), axis=axis, index=index)


def scatter(x, axis, index, src):
    method("scatter", x, lambda x, axis, index, src: x.scatter(axis, index, src), axis=axis, index=index, src=src)


def scatter_reduce(x, axis, index, src, how, include_self):
    method("scatter_reduce", x, lambda x, axis, index, src, how, include_self:
           x.scatter_reduce(axis, index, src, how, include_self=include_self),
           axis=axis, index=index, src=src, how=how, include_self=include_self)


for dtype in ROTATION:
    gather(counting(dtype, (5,)), 0, ints(4, 0, 0, 2))
    gather(counting(dtype, (3, 4)), 0, ints([[2, 0, 1, 2]], dtype="i32"))
    gather(counting(dtype, (3, 4)), -1, ints([[3, 0], [1, 1], [2, 3]]))
gather(counting("f32", (3, 4)), 0, ints([[0, 2, 1, 0], [1, 1, 1, 1], [2, 2, 0, 0], [0, 0, 0, 0]]))
gather(counting("f32", (3, 4)), 1, ints([[3, 0, 3, 3, 1]]))
gather(counting("f32", (2, 3, 4)), 1, rng.integers(0, 3, (2, 5, 4)))
gather(counting("i32", (2, 3, 4)), 2, rng.integers(0, 4, (2, 2, 1)))
gather(counting("f32", (3, 4)), 0, np.zeros((0, 4), np.int64))
for index in [ints([[3]]), ints([[0, 0, 0, 0, 0]]), ints(0, 1), np.zeros((1, 1), np.float32)]:
    gather(counting("f32", (3, 4)), 0, index)
gather(counting("f32", (3, 4)), 2, ints([[0]]))

for dtype in ROTATION:
    scatter(counting(dtype, (5,)), 0, ints(4, 0, 2), values((3,), dtype))
    scatter(counting(dtype, (3, 4)), 0, ints([[2, 0, 1, 2]], dtype="i32"), values((1, 4), dtype))
    scatter(counting(dtype, (3, 4)), -1, ints([[3, 0], [1, 2]]), values((2, 2), dtype))
scatter(counting("f32", (3, 4)), 0, ints([[0, 2], [1, 0]]), values((3, 4), "f32"))
scatter(counting("f32", (3, 4)), 1, ints([[0, 2, 1, 3]]), values((2, 5), "f32"))
scatter(counting("f32", (2, 3, 4)), 1, np.argsort(rng.random((2, 3, 4)), axis=1), values((2, 3, 4), "f32"))
# equal positions: PyTorch goes through them in order too
scatter(counting("f32", (5,)), 0, ints(1, 3, 1, 1), values((4,), "f32"))
scatter(counting("i64", (3, 2)), 0, ints([[1, 0], [1, 2], [0, 2]]), values((3, 2), "i64"))
scatter(counting("f32", (3, 4)), 0, np.zeros((0, 4), np.int64), values((0, 4), "f32"))
for index, src in [(ints([[3]]), (1, 1)), (ints([[0, 1]]), (1, 1)), (ints([[0, 0, 0, 0, 0]]), (1, 5)), (ints(0), (1, 1))]:
    scatter(counting("f32", (3, 4)), 0, index, values(src, "f32"))

for how in ["sum", "prod", "mean", "amin", "amax"]:
    for include_self in [True, False]:
        small = rng.permutation(12).astype(np.float32).reshape(3, 4) / 4 - 1
        src = rng.permutation(12).astype(np.float32).reshape(3, 4) / 4 - 1.25
        scatter_reduce(np.float32([1, 2, 3, 4, 5]), 0, ints(0, 3, 0, 0, 4, 3), np.float32([3, -1, 2, 8, 0.5, 7]), how, include_self)
        scatter_reduce(small, 0, rng.integers(0, 3, (3, 4)), src, how, include_self)
        scatter_reduce(small, 1, rng.integers(0, 4, (2, 3)).astype(np.int32), src, how, include_self)
        if how != "mean":
            scatter_reduce(np.int32([1, 2, 3, 4, 5]), 0, ints(0, 3, 0, 0), np.int32([3, -1, 2, 8]), how, include_self)
        scatter_reduce(np.float32([1, 2]), 0, ints([]), np.zeros(0, np.float32), how, include_self)
scatter_reduce(np.float32([1, 2]), 0, ints(0, 2), np.float32([1, 2]), "sum", True)

for dtype in ROTATION:
    method("index_select", counting(dtype, (4, 3)), lambda x, axis, index: x.index_select(axis, index), axis=0, index=ints(3, 0, 3))
for shape, axis, index in [((4, 3), 1, ints(2, 0)), ((2, 3, 4), -2, ints(0, 2, 0, 1, dtype="i32")), ((2, 3), 0, ints([])), ((5,), 0, ints([4])),
                           ((4, 3), 0, ints([4])), ((4, 3), 0, ints([[0, 1]])), ((4, 3), 2, ints([0]))]:
    method("index_select", counting("f32", shape), lambda x, axis, index: x.index_select(axis, index), axis=axis, index=index)

for dtype in ROTATION:
    fill = value(0, (), dtype)
    method("masked_fill", counting(dtype, (2, 3)), lambda x, mask, value: x.masked_fill(mask, value), mask=mask("101 010"), value=fill)
for m in [mask("010"), mask("10").reshape(2, 1), np.array(True), np.array(False), mask("1010")]:
    method("masked_fill", counting("f32", (2, 3)), lambda x, mask, value: x.masked_fill(mask, value), mask=m, value=-1.5)

for dtype in ROTATION:
    method("masked_select", counting(dtype, (2, 3)), lambda x, mask: x.masked_select(mask), mask=mask("101 010"))
for m in [mask("000 000"), mask("111 111"), mask("011"), mask("10").reshape(2, 1), np.array(True), mask("1010")]:
    method("masked_select", counting("f32", (2, 3)), lambda x, mask: x.masked_select(mask), mask=m)

for x in [counting("bool", (2, 3)), np.float32([0, 1, -0.0, 2, 0]), np.int32([[0, 3], [4, 0]]), np.zeros((2, 2), np.uint8), np.ones((2, 1, 2), np.int64),
          np.zeros((0, 3), np.float32), rng.integers(0, 2, (2, 3, 4)).astype(np.float32)]:
    method("nonzero", x, lambda x: x.nonzero())

for dtype in ["f32", "i32"]:
    for index in [ints(5, 0, 11), ints([[3, -1], [0, 0]]), ints(7), ints(12)]:
        method("take", counting(dtype, (3, 4)), lambda x, index: x.take(index), index=index)

write("indexing.json", f"numpy {np.__version__} torch {torch.__version__}", cases)
