"""New tensors, and matrices made of diagonals."""

from case import *

for args in [[5], [0], [2, 7], [7, 2], [-3, 4], [2, 11, 3], [0, 10, 2], [9, 0, -4], [5, 5, 1], [1, 2, 5], [-7, 20, 9]]:
    for dtype in [I32, I64, F32, F64, F16, BF16, I8, U8, I16]:
        if dtype != U8 or all(a >= 0 for a in np.arange(*args)):
            case("arange", [], lambda: t(np.arange(*args), dtype), [NAMES[dtype], *args])
for args in [[0.0, 1.0, 0.25], [1.0, -1.0, -0.5], [0.0, 2.0, 0.3], [2.5, 2.5, 1.0], [-1.5, 3.25, 1.0], [5.0, 1.0, 1.0]]:
    for dtype in [F32, F64]:
        case("arange_float", [], lambda: t(args[0] + np.arange(max(0, math.ceil((args[1] - args[0]) / args[2]))) * args[2], dtype),
             [NAMES[dtype], *args], tol=("abs", 3))
for args, why in [([0, 5, 0], "a step of 0"), ([-3], "there are no -3 numbers")]:
    refused("arange", [], ["i32", *args], why)
refused("arange", [], ["i8", 0, 129], "i8 does not hold all of 0 to 128")
refused("arange", [], ["u8", -1, 3], "u8 does not hold all of -1 to 2")
for start, stop, n in [(0, 1, 3), (-2.5, 7, 11), (3, 3, 4), (5, -5, 2), (1, 2, 1), (0, 1, 0), (0, 1, 50)]:
    for dtype in FLOATS:
        # the distance of two neighbours is rounded, and added up to half the numbers
        tol = ("abs", 3 * max(1, abs(start), abs(stop)))
        case("linspace", [], lambda: t(np.linspace(start, stop, n), dtype), [NAMES[dtype], start, stop, n], tol=tol)
for start, stop, n, base in [(0, 2, 3, 10), (-3, 3, 7, 10), (0, 10, 11, 2), (1, 4, 5, 0.5), (0, 1, 4, math.e), (0, 0, 0, 10)]:
    for dtype in FLOATS:
        # in f64 the rounding of exponents up to 10 is magnified by the base's logarithm
        tol = ("ulp", 1) if dtype != F64 else ("ulp", 20)
        case("logspace", [], lambda: t(np.logspace(start, stop, n, base=base), dtype), [NAMES[dtype], start, stop, n, base], tol=tol)
for n, m in [(3, 3), (2, 4), (4, 2), (0, 3), (1, 1), (3, 0)]:
    for dtype in [F32, I64, BOOL, BF16]:
        case("eye", [], lambda: torch.eye(n, m).to(dtype), [NAMES[dtype], n, m])
for dtype in [F32, I32, BOOL]:
    for to in [F64, U8, BF16]:
        x = data(2, 3, dtype=dtype)
        case("zeros_like", [x], lambda x: torch.zeros(2, 3).to(to), [NAMES[to]], grad=False, out=to)
        case("ones_like", [x], lambda x: torch.ones(2, 3).to(to), [NAMES[to]], grad=False, out=to)
        case("full_like", [x], lambda x: torch.full((2, 3), 7).to(to), [NAMES[to]], grad=False, out=to)
for rows, columns in [(3, 3), (2, 5), (5, 2), (0, 3), (3, 0), (1, 1)]:
    for k in [-7, -1, 0, 1, 2, 9]:
        case("tril_indices", [], lambda: torch.tensor(np.array(np.tril_indices(rows, k, columns))), [rows, columns, k])
        case("triu_indices", [], lambda: torch.tensor(np.array(np.triu_indices(rows, k, columns))), [rows, columns, k])
for lengths in [(3,), (2, 3), (2, 1, 4), (2, 0), (1, 1)]:
    for dtype in [F32, I64]:
        xs = [data(n, dtype=dtype) for n in lengths]
        case("meshgrid", xs, lambda *x: torch.meshgrid(*x, indexing="ij"))
        case("meshgrid_xy", xs, lambda *x: torch.meshgrid(*x, indexing="xy"))
        case("cartesian_prod", xs, lambda *x: torch.cartesian_prod(*x))
case("meshgrid", [data(), data(2)], lambda *x: torch.meshgrid(*x, indexing="ij"))
refused("meshgrid", [data(2, 2), data(3)], [], "wants tensors of one axis")
refused("cartesian_prod", [data(2), data(3, 1)], [], "wants tensors of one axis")
for k in [-4, -1, 0, 1, 3]:
    for dtype in [F32, I32, BOOL, F64]:
        case("diag", [data(3, dtype=dtype)], lambda x: torch.diag(x, k), [k])
        for shape in [(3, 3), (2, 4), (5, 2), (1, 3)]:
            if -shape[0] <= k <= shape[1]:
                case("diag", [data(*shape, dtype=dtype)], lambda x: torch.diag(x, k), [k])
    for shape, a, b in [((3, 4), 0, 1), ((3, 4), 1, 0), ((2, 3, 4), 0, 2), ((2, 3, 4), -1, -2), ((2, 3, 4), 1, 0), ((3, 1, 3), 0, 2)]:
        lengths = (shape[a], shape[b])
        if -lengths[0] <= k <= lengths[1]:
            case("diagonal", [data(*shape)], lambda x: x.diagonal(k, a, b), [k, a, b])
    for shape, a, b in [((3,), 0, 1), ((2, 3), -2, -1), ((2, 3), 0, -1), ((2, 3), 2, 0), ((2, 2, 1), 1, -1), ((0,), 0, 1), ((2, 0), 0, 1)]:
        case("diag_embed", [data(*shape)], lambda x: torch.diag_embed(x, k, a, b), [k, a, b])
special = t([math.nan, math.inf, -0.0, -math.inf])
case("diag", [special], torch.diag, [0])
case("diag_embed", [special], torch.diag_embed, [0, 0, 1])
refused("diag", [data(2, 2, 2)], [0], "wants one or two axes, not [2, 2, 2]")
refused("diagonal", [data(2, 2)], [0, 0, 2], "axis 2 is out of range for 2 axes")
refused("diagonal", [data(2, 2)], [0, 0, -2], "axis 0 is named twice")
refused("diag_embed", [data()], [0, 0, 1], "wants at least one axis")
for shapes in [[(2, 2), (3, 1)], [(3,), (2, 1), ()], [(1, 1)], [(0, 2), (2, 2)], [(2, 0), (1, 2)], [(2,), (2,), (2,)]]:
    for dtype in [F32, I64]:
        case("block_diag", [data(*s, dtype=dtype) for s in shapes], lambda *x: torch.block_diag(*x))
