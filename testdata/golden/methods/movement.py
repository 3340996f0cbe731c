"""Views, and elements moved, repeated and put around a tensor."""

import torch.nn.functional as F

from case import *

SHAPES = [(2, 3, 4), (5,), (3, 1), (1, 1, 2, 2), (0, 3), ()]
SPECIAL = t([[math.nan, math.inf, -math.inf], [-0.0, 0.0, 1e-40]])


def each(method, f, args=(), shapes=SHAPES, dtypes=(F32, I64), **rest):
    """Of every shape in the first dtype, of the first shape in all."""
    for i, shape in enumerate(shapes):
        for dtype in dtypes if i == 0 else dtypes[:1]:
            case(method, [data(*shape, dtype=dtype)], f, args, **rest)


case("view", [data(2, 6)], lambda x: x.view(3, -1), [[3, -1]])
refused("view", [data(2, 6)], [[5, -1]], "cannot hold")
each("t", torch.t, shapes=[(2, 3), (4,), (), (0, 2), (1, 1)], dtypes=FLOATS + [BOOL, U8])
refused("t", [data(2, 2, 2)], [], "wants at most two axes")
for first, last in [(0, -1), (1, 2), (0, 0), (-2, -1), (2, 2)]:
    each("flatten_axes", lambda x: x.flatten(first, last), [first, last], [(2, 3, 4), (1, 0, 3), (2, 1, 1)])
case("flatten_axes", [data()], lambda x: x.flatten(0, -1), [0, -1])
refused("flatten_axes", [data(2, 2)], [1, 0], "axis 0 is before axis 1")
for a, b in [(0, 1), (0, -1), (1, 1), (-1, -3)]:
    case("swapaxes", [data(2, 3, 4)], lambda x: x.swapaxes(a, b), [a, b])
for a, b in [([0], [2]), ([0, 1], [1, 2]), ([-1], [0]), ([2, 0], [0, 1]), ([0, 1, 2], [2, 0, 1]), ([], [])]:
    for method in ["movedim", "moveaxis"]:
        case(method, [data(2, 3, 4)], lambda x: x.movedim(a, b), [a, b])
refused("movedim", [data(2, 3)], [[0], [0, 1]], "1 axes do not move to 2 places")
refused("movedim", [data(2, 3)], [[0, 0], [0, 1]], "axis 0 is named twice")
refused("movedim", [data(2, 3)], [[2], [0]], "axis 2 is out of range")
each("fliplr", torch.fliplr, shapes=[(2, 3, 4), (1, 3), (0, 2), (2, 0)])
each("flipud", torch.flipud, shapes=[(2, 3, 4), (4,), (0, 2)])
refused("fliplr", [data(3)], [], "fliplr: axis 1 is out of range")
for k in [-5, -1, 0, 1, 2, 3, 4, 6]:
    for a, b in [(0, 1), (1, 0), (-1, 0), (1, 2)]:
        case("rot90", [data(2, 3, 4)], lambda x: torch.rot90(x, k, (a, b)), [k, a, b])
refused("rot90", [data(2, 2)], [1, 0, -2], "axis 0 is named twice")
refused("rot90", [data(2, 2)], [2, 1, 1], "axis 1 is named twice")
refused("rot90", [data(2, 2)], [0, 0, 3], "axis 3 is out of range")
for shifts, axes in [([1], [0]), ([-1], [-1]), ([7], [1]), ([1, -2], [0, 2]), ([0], [1]), ([3, 3, 3], [2, 1, 0]), ([-100], [2])]:
    each("roll", lambda x: torch.roll(x, shifts, axes), [shifts, axes], [(2, 3, 4), (1, 3, 1)], [F32, I32, BOOL])
for shift in [0, 1, -3, 25]:
    each("roll_all", lambda x: torch.roll(x, shift), [shift], [(2, 3), (4,), (0, 2), (1,)])
refused("roll", [data(2, 2)], [[1, 2], [0]], "2 shifts for 1 axes")

for n in [1, 2, 3, 7]:
    for axis in [0, 1, -1]:
        each("split", lambda x: torch.split(x, n, axis), [n, axis], [(5, 3), (1, 4), (4, 0)])
        each("chunk", lambda x: torch.chunk(x, n, axis), [n, axis], [(5, 3), (1, 4)])
        each("tensor_split", lambda x: torch.tensor_split(x, n, axis), [n, axis], [(5, 3), (1, 4), (4, 0)])
for sizes in [[2, 3], [5], [0, 5, 0], [1, 1, 1, 1, 1]]:
    each("split_sizes", lambda x: torch.split(x, sizes, 0), [sizes, 0], [(5, 3), (5,)])
for cuts in [[1, 3], [2], [], [0], [5], [9, 2], [-1], [-2, 4], [3, 1], [-9]]:
    each("tensor_split_at", lambda x: torch.tensor_split(x, cuts, 0), [cuts, 0], [(5, 2), (5,)])
refused("split", [data(5)], [0, 0], "pieces of 0 elements")
refused("split_sizes", [data(5)], [[2, 2], 0], "do not add up to 5")
refused("tensor_split", [data(5)], [0, 0], "into no parts")
refused("unbind", [data(5)], [1], "axis 1 is out of range")
for axis in [0, 1, -1]:
    each("unbind", lambda x: torch.unbind(x, axis), [axis], [(2, 3, 4), (1, 2), (3, 1)], FLOATS + [I8, BOOL])
for axis, start, n in [(0, 0, 2), (1, 1, 2), (-1, -2, 1), (2, 3, 0), (0, 2, 0), (1, -3, 3)]:
    case("narrow", [data(2, 3, 4)], lambda x: torch.narrow(x, axis, start, n), [axis, start, n])
for axis, start, n in [(0, 1, 2), (1, -4, 1), (0, 3, 0)]:
    refused("narrow", [data(2, 3)], [axis, start, n], f"{n} elements from {start} on are not in axis {axis}")
for axis, i in [(0, 1), (1, -1), (-1, 0), (2, -4)]:
    case("select", [data(2, 3, 4)], lambda x: torch.select(x, axis, i), [axis, i])
refused("select", [data(2, 3)], [0, 2], "index 2 is out of range for axis 0 of length 2")
refused("select", [data(2, 3)], [1, -4], "index -4 is out of range for axis 1 of length 3")

for pads in [[[1, 2]], [[0, 0]], [[-1, 2]], [[-2, -2]], [[3, -4]], [[-5, 0]], [[0, -5]]]:
    flat = [n for p in reversed(pads) for n in p]
    for value in [0, 1.5, -math.inf]:
        for dtype in FLOATS:
            case("pad", [data(5, dtype=dtype)], lambda x: F.pad(x, flat, value=value), [pads, value if math.isfinite(value) else str(value)])
for pads in [[[1, 0], [0, 2]], [[-1, 1], [2, -2]], [[0, 0], [-1, -1]], [[2, 1], [0, 0]]]:
    flat = [n for p in reversed(pads) for n in p]
    for shape in [(2, 3), (1, 4)]:
        case("pad", [data(*shape)], lambda x: F.pad(x, flat), [pads, 0])
    case("pad", [data(2, 3, dtype=I32)], lambda x: F.pad(x, flat, value=7), [pads, 7])
refused("pad", [data(2, 3)], [[[1, 1]], 0], "1 pairs for 2 axes")
refused("pad", [data(2)], [[[-1, -2]], 0], "cannot take 3 elements off")
MODES = {"reflect": "Reflect", "replicate": "Replicate", "circular": "Circular"}
for mode in MODES:
    for pads in [[[1, 2]], [[0, 3]], [[3, 0]], [[0, 0]], [[2, 2]], [[-1, 1]], [[2, -2]], [[-1, -1]]]:
        for dtype in FLOATS:
            case("pad_mode", [data(1, 2, 5, dtype=dtype)], lambda x: F.pad(x, pads[0], mode), [[[0, 0], [0, 0], *pads], mode])
    for pads in [[[1, 1], [2, 0]], [[0, 2], [1, 2]]]:
        flat = [n for p in reversed(pads) for n in p]
        case("pad_mode", [data(1, 2, 3, 4)], lambda x: F.pad(x, flat, mode), [[[0, 0], [0, 0], *pads], mode])
        case("pad_mode", [data(1, 2, 3, 3, dtype=I64)], lambda x: F.pad(x.to(F64), flat, mode).long(), [[[0, 0], [0, 0], *pads], mode])
case("pad_mode", [data(1, 1, 1)], lambda x: F.pad(x, [4, 3], "replicate"), [[[0, 0], [0, 0], [4, 3]], "replicate"])
refused("pad_mode", [data(3)], [[[3, 0]], "reflect"], "(3, 0) Reflect elements are more than axis 0")
refused("pad_mode", [data(3)], [[[0, 4]], "circular"], "(0, 4) Circular elements are more than axis 0")
refused("pad_mode", [data(0)], [[[1, 0]], "replicate"], "(1, 0) Replicate elements are more than axis 0")
for to in [[4, 5], [-1, 4], [2, 3], [2, -1]]:
    want = [n if w == -1 else w for w, n in zip(to, (2, 3))]
    each("pad_to", lambda x: F.pad(x, [0, want[1] - 3, 0, want[0] - 2]), [to], [(2, 3)], FLOATS + [I32, BOOL])
for to in [[1, 2], [-1, 0], [2, 3], [1, -1]]:
    want = [n if w == -1 else w for w, n in zip(to, (2, 3))]
    each("shrink_to", lambda x: x[:want[0], :want[1]], [to], [(2, 3)], FLOATS + [I32, BOOL])
refused("pad_to", [data(2, 3)], [[1, 3]], "[2, 3] does not grow to [1, 3]")
refused("pad_to", [data(2, 3)], [[4]], "does not grow")
refused("shrink_to", [data(2, 3)], [[3, 3]], "[2, 3] does not shrink to")

for n in [0, 1, 3]:
    for axis in [0, 1, -1]:
        each("repeat_interleave", lambda x: x.repeat_interleave(n, axis), [n, axis], [(2, 3), (1, 4), (0, 2)])
    each("repeat_interleave_all", lambda x: x.repeat_interleave(n), [n], [(2, 3), (4,), ()])
for counts in [[2], [1, 3], [2, 1, 2], [0, 1], []]:
    each("tile", lambda x: torch.tile(x, tuple(counts)), [counts], [(2, 3), (4,), ()])
for axis, size, step in [(0, 2, 1), (-1, 3, 2), (1, 1, 1), (1, 3, 3), (0, 5, 1), (0, 2, 4), (1, 4, 1)]:
    each("unfold", lambda x: x.unfold(axis, size, step), [axis, size, step], [(5, 7), (6, 4)], FLOATS + [I32])
refused("unfold", [data(5)], [0, 6, 1], "no windows of 6 elements, 1 apart, along axis 0 of [5]")
refused("unfold", [data(5)], [0, 2, 0], "no windows")
for r in [1, 2, 3]:
    each("pixel_shuffle", lambda x: F.pixel_shuffle(x, r), [r], [(2, 36, 2, 3), (36, 1, 2)])
    each("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, r), [r], [(2, 2, 6, 12), (1, 6, 6)])
for groups in [1, 2, 3, 6]:
    each("channel_shuffle", lambda x: F.channel_shuffle(x, groups), [groups], [(2, 6, 2, 1), (1, 6, 3)])
refused("pixel_shuffle", [data(3, 2, 2)], [2], "3 channels do not make blocks of 2 by 2")
refused("pixel_unshuffle", [data(1, 3, 2)], [2], "3 by 2 pixels do not make blocks of 2 by 2")
refused("pixel_shuffle", [data(4, 2)], [2], "wants at least three axes")
refused("channel_shuffle", [data(1, 6)], [4], "6 channels do not make 4 groups")

for method, f in [("atleast_1d", torch.atleast_1d), ("atleast_2d", torch.atleast_2d), ("atleast_3d", torch.atleast_3d)]:
    each(method, f, shapes=[(), (3,), (2, 3), (2, 1, 3), (0,), (1, 2, 1, 2)], dtypes=[F32, I64, BOOL, BF16])
case("broadcast_to", [data(3, 1)], lambda x: x.broadcast_to(2, 3, 4), [[2, 3, 4]])
refused("broadcast_to", [data(3)], [[2]], "broadcast_to: [3] does not expand to [2]")
for method, f in [("hstack", torch.hstack), ("vstack", torch.vstack), ("dstack", torch.dstack)]:
    for shapes in [[(3,), (3,)], [(2, 3), (2, 3)], [(), ()], [(1, 2, 2)] * 3, [(2, 1, 1)]]:
        case(method, [data(*s) for s in shapes], lambda *x: f(x))
        case(method, [data(*s, dtype=I64) for s in shapes], lambda *x: f(x))
case("hstack", [data(2), data(5)], lambda *x: torch.hstack(x))
case("vstack", [data(2, 3), data(3)], lambda *x: torch.vstack(x))
refused("hstack", [data(2, 1), data(3, 1)], [], "hstack: shapes differ")

for pattern, shape, sizes, f in [
        ("a b -> b a", (2, 3), {}, lambda x: x.t()),
        ("b (h w) c -> b c h w", (2, 12, 3), {"w": 4}, lambda x: x.view(2, 3, 4, 3).permute(0, 3, 1, 2)),
        ("b c h w -> b (c h w)", (2, 3, 2, 2), {}, lambda x: x.reshape(2, 12)),
        ("... c -> c (...)", (2, 3, 4), {}, lambda x: x.permute(2, 0, 1).reshape(4, 6)),
        ("... c -> c ...", (2, 3, 4), {}, lambda x: x.permute(2, 0, 1)),
        ("a ... -> ... a", (2,), {}, lambda x: x),
        ("a 1 b -> b 1 1 a", (2, 1, 3), {}, lambda x: x.permute(2, 1, 0).unsqueeze(1)),
        ("a () b -> (a b)", (2, 1, 3), {}, lambda x: x.reshape(6)),
        ("(a b c) -> c (a b)", (24,), {"a": 2, "c": 4}, lambda x: x.view(2, 3, 4).permute(2, 0, 1).reshape(4, 6)),
        ("b (h p) (w q) -> b (h w) (p q)", (1, 4, 6), {"p": 2, "q": 3}, lambda x: x.view(1, 2, 2, 2, 3).permute(0, 1, 3, 2, 4).reshape(1, 4, 6)),
        ("x y -> (y x)", (0, 3), {}, lambda x: x.t().reshape(0)),
        ("... a b -> ... b a", (2, 2, 3, 1), {}, lambda x: x.transpose(-1, -2)),
        (" -> 1", (), {}, lambda x: x.reshape(1))]:
    for dtype in [F32, I64, BF16]:
        case("rearrange", [data(*shape, dtype=dtype)], f, [pattern, [[k, v] for k, v in sizes.items()]])
for pattern, shape, sizes, why in [
        ("a b", (2, 3), [], "no ->"), ("a b -> a", (2, 3), [], "must name the same axes"), ("a a -> a a", (2, 2), [], "twice on one side"),
        ("(a b -> a b", (2, 3), [], "a bracket is open"), ("a) b -> a b", (2, 3), [], "brackets do not match"),
        ("a b c -> c b a", (2, 3), [], "3 axes are named, but [2, 3] has 2"), ("(a b) -> a b", (6,), [], "does not say how long"),
        ("(a b) -> a b", (6,), [["a", 4]], "an axis of 6 cannot be"), ("a b -> b a", (2, 3), [["c", 4]], "\"c\" is no axis"),
        ("a b -> b a", (2, 3), [["a", 4]], "an axis of 2 cannot be"), ("a-b -> a", (2, 3), [], "is no name of an axis"),
        ("1 b -> b", (2, 3), [], "an axis of 2 cannot be")]:
    refused("rearrange", [data(*shape)], [pattern, sizes], why)
for method, f, args in [("t", torch.t, []), ("fliplr", torch.fliplr, []), ("roll_all", lambda x: torch.roll(x, 1), [1]),
                        ("repeat_interleave_all", lambda x: x.repeat_interleave(2), [2]), ("unbind", torch.unbind, [0]),
                        ("atleast_3d", torch.atleast_3d, [])]:
    case(method, [SPECIAL], f, args)
