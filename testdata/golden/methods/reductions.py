"""Reductions, scans and orders, with ties, NaN and empty axes."""

import case as cases_of
from case import *

INF, NAN = math.inf, math.nan
TIES = [[3, 1, 2, 3, 1], [0, 0, 0, 0, 0], [5, 4, 3, 2, 1], [-1, 7, -1, 7, -1]]
HOLES = [[3.0, NAN, 2.0, -INF], [NAN, NAN, 1.0, INF], [0.0, -0.0, 0.0, -0.0], [1.0, 2.0, NAN, 0.5]]
WHOLE = [I8, I16, I32, I64, U8]


def case(method, inputs, f, args=(), grad=True, **rest):
    """Without gradients where nothing comes out, of which nothing is read."""
    result = f(*inputs) if grad and inputs[0].numel() < 2 or 0 in args else [data(1)]
    result = result if isinstance(result, (tuple, list)) else [result]
    cases_of.case(method, inputs, f, args, grad=grad and any(y.numel() for y in result), **rest)


def sort(x, axis, down=False):
    return torch.sort(x, dim=axis, descending=down, stable=True)


def argsort(x, axis, down=False):
    return torch.argsort(x, dim=axis, descending=down, stable=True)


def ints(pair):
    return pair[0], pair[1].int()


def inputs():
    for dtype in FLOATS:
        yield t(HOLES, dtype)
        yield t(TIES, dtype)
    for dtype in WHOLE:
        yield torch.tensor(TIES).abs().to(dtype) if dtype == U8 else torch.tensor(TIES).to(dtype)


def shapes():
    for shape in [(5,), (2, 3, 4), (1,), (3, 1, 2), (17,), (2, 33)]:
        yield data(*shape)


for x in [*inputs(), *shapes()]:
    for axis in {0, -1, x.ndim // 2}:
        for down in [False, True]:
            case("sort", [x], lambda x: ints(sort(x, axis, down)), [axis, down])
            case("argsort", [x], lambda x: argsort(x, axis, down).int(), [axis, down])
        n = x.shape[axis]
        for k in {1, n, n // 2}:
            for largest in [False, True]:
                # torch's topk is not stable
                case("topk", [x], lambda x: [y.narrow(axis, 0, k) for y in ints(sort(x, axis, largest))], [k, axis, largest])
        case("kthvalue", [x], lambda x: [y.select(axis, n // 2) for y in ints(sort(x, axis))], [n // 2 + 1, axis])
        case("median", [x], lambda x: torch.median(x, axis)[0], [axis], grad=len(set(x.reshape(-1).tolist())) == x.numel())
case("sort", [torch.tensor([True, False, True])], lambda x: ints(sort(x, 0)), [0, False])
case("sort", [torch.zeros(0, 3)], lambda x: ints(sort(x, 0)), [0, False])
case("sort", [torch.zeros(2, 0)], lambda x: ints(sort(x, -1)), [-1, True])
case("sort", [data(300)], lambda x: ints(sort(x, 0)), [0, False])
case("sort", [data(2, 100, dtype=I64)], lambda x: ints(sort(x, 1, True)), [1, True])
for dtype, info in [(I64, torch.iinfo(I64)), (I8, torch.iinfo(I8))]:
    x = torch.tensor([info.max, info.min, 0, info.max, info.min, -1, 1], dtype=dtype)
    for down in [False, True]:
        case("sort", [x], lambda x: ints(sort(x, 0, down)), [0, down])
for dtype in [torch.uint16, torch.uint32, torch.uint64]:
    top = np.iinfo(str(dtype)[6:]).max
    a = np.array([top, 0, 1, top, top - 1, 0, 7], str(dtype)[6:])
    order = np.argsort(a, kind="stable")
    case("sort", [torch.from_numpy(a)], lambda x: (torch.from_numpy(a[order]), torch.from_numpy(order).int()), [0, False])
refused("topk", [data(3)], [4, 0, True], "topk: axis 0 has 3 elements, not 4")
refused("kthvalue", [data(3)], [0, 0], "kthvalue: axis 0 has 3 elements and no number 0")
refused("median", [torch.zeros(2, 0)], [1], "axis 1 of [2, 0] is empty")
refused("sort", [data(3)], [1, False], "axis 1 is out of range")
for x in [data(7), data(2, 6), t(HOLES), data(3, 5, dtype=F64)]:
    case("median_all", [x], lambda x: x.median(), grad=not x.isnan().any())
    for q in [0.0, 0.25, 0.5, 0.9, 1.0]:
        case("quantile", [x], lambda x: torch.quantile(x, q, -1), [q, -1], tol=("abs", 8), grad=not x.isnan().any())
        case("quantile_all", [x], lambda x: torch.quantile(x, q), [q], tol=("abs", 8), grad=not x.isnan().any())
refused("quantile", [data(3, dtype=I32)], [0.5, 0], "wants floats")
refused("quantile", [data(3)], [1.5, 0], "a share from 0 to 1")

for x in [*inputs(), *shapes(), torch.zeros(0, 2), torch.zeros(2, 0)]:
    for axis in {0, -1}:
        case("cummax", [x], lambda x: ints(torch.cummax(x, axis)), [axis])
        case("cummin", [x], lambda x: ints(torch.cummin(x, axis)), [axis])
        if x.dtype.is_floating_point:
            case("cumprod", [x], lambda x: torch.cumprod(x, axis), [axis], tol=("abs", 64), grad=not x.isnan().any() and bool((x != 0).all()))
            case("logcumsumexp", [x], lambda x: torch.logcumsumexp(x, axis), [axis], tol=("abs", 32), grad=not x.isnan().any())
        elif x.dtype in (I32, I64):
            case("cumprod", [x], lambda x: torch.cumprod(x, axis, dtype=x.dtype), [axis])
case("cumprod", [t([2.0, 0.0, 3.0, 0.0])], lambda x: torch.cumprod(x, 0), [0], tol=("abs", 8))
case("logcumsumexp", [t([-INF, -INF, 1.0, 1000.0, -INF])], lambda x: torch.logcumsumexp(x, 0), [0], tol=("abs", 8), grad=False)

for dtype in FLOATS:
    for shape, axes in [((3, 4), [0]), ((3, 4), [1]), ((2, 3, 4), [0, 2]), ((5,), [0]), ((2, 1), [1])]:
        x = data(*shape, dtype=dtype)
        case("amax", [x], lambda x: x.amax(axes), [axes])
        case("amin", [x], lambda x: x.amin(axes), [axes])
        case("nansum", [t(HOLES, dtype)], lambda x: x.nansum(axes[0] % 2), [[axes[0] % 2]], tol=("abs", 8))
        case("nanmean", [t(HOLES, dtype)], lambda x: x.nanmean(axes[0] % 2), [[axes[0] % 2]], tol=("abs", 8), grad=False)
        case("nanmean", [x], lambda x: x.nanmean(axes), [axes], tol=("abs", 32))
        for correction in [0, 1]:
            if shape != (2, 1):
                case("var_mean", [x], lambda x: torch.var_mean(x, axes, correction=correction), [axes, correction], tol=("abs", 64), slope=("abs", 400))
                case("std_mean", [x], lambda x: torch.std_mean(x, axes, correction=correction), [axes, correction], tol=("abs", 64), slope=("abs", 400))
        for p in [0.0, 1.0, 2.0, 3.0, 0.5, INF, -INF]:
            case("norm", [x], lambda x: torch.linalg.vector_norm(x, p, axes), [str(p), axes], tol=("abs", 64), slope=("abs", 200), grad=p != 0.0)
            case("norm_keepdim", [x], lambda x: torch.linalg.vector_norm(x, p, axes, True), [str(p), axes], tol=("abs", 64), grad=False)
    case("count_nonzero", [t(HOLES, dtype)], lambda x: torch.count_nonzero(x, 1), [[1]])
    case("aminmax", [data(3, 4, dtype=dtype)], lambda x: torch.aminmax(x, dim=1), [[1]])
    case("trapezoid", [data(2, 5, dtype=dtype)], lambda x: torch.trapezoid(x, dx=0.5), [0.5, -1], tol=("abs", 32))
    case("trapezoid", [data(1, 3, dtype=dtype)], lambda x: torch.trapezoid(x, dx=2.0, dim=0), [2.0, 0], tol=("abs", 32))
    for shape in [(2, 5), (3, 4), (6,)]:
        case("cov", [data(*shape, dtype=dtype)], torch.cov, tol=("abs", 128), slope=("abs", 256))
        case("corrcoef", [data(*shape, dtype=dtype)], torch.corrcoef, tol=("abs", 128 if dtype in (F32, F64) else 4), grad=False)
for dtype in WHOLE + [BOOL]:
    x = data(3, 4, dtype=dtype)
    case("count_nonzero", [x], lambda x: torch.count_nonzero(x, 0), [[0]])
    case("amax", [x], lambda x: x.amax(1), [[1]])
    case("aminmax", [x], lambda x: torch.aminmax(x, dim=0), [[0]])
for dtype in FLOATS + [I32, I64, BOOL]:
    for shape, n, axis in [((5,), 1, 0), ((5,), 2, 0), ((2, 4), 1, 0), ((2, 4), 3, -1), ((2, 4), 0, 1), ((1,), 1, 0), ((3,), 5, 0)]:
        case("diff", [data(*shape, dtype=dtype)], lambda x: torch.diff(x, n, axis), [n, axis], tol=("abs", 8) if dtype.is_floating_point else ("ulp", 0))
edges = [[1.0, 2.0, 2.0, 3.5], [-1.0, 0.0, 5.0, INF], [0.0]]
for right in [False, True]:
    for e in edges:
        for dtype in FLOATS:
            values = t([[0.0, 2.0, 2.5], [9.0, -INF, INF], [1.0, 3.5, NAN]], dtype)
            case("searchsorted", [t(e, dtype), values], lambda e, v: torch.searchsorted(e, v, right=right).int(), [right])
            case("bucketize", [values, t(e, dtype)], lambda v, e: torch.bucketize(v, e, right=right).int(), [right])
    case("searchsorted", [torch.tensor([1, 3, 3, 7]), data(2, 4, dtype=I64)], lambda e, v: torch.searchsorted(e, v, right=right).int(), [right])
for x in [data(9, dtype=I32), data(2, 8, dtype=I8), t([0.5, 0.5, -1.0, 2.0]), torch.zeros(0), t([3.0]), data(12, dtype=BOOL)]:
    case("unique", [x], lambda x: torch.unique(x), grad=False)
for x in [torch.tensor([2, 0, 2, 5]), torch.zeros(0, dtype=I64), torch.tensor([3], dtype=I32), torch.tensor([1, 1, 0], dtype=U8)]:
    for least in [0, 4, 9]:
        case("bincount", [x], lambda x: torch.bincount(x, minlength=least), [least])
refused("bincount", [torch.tensor([-1, 2])], [0], "-1 is negative")
refused("bincount", [data(3)], [0], "wants integers along one axis")
for bins, low, high in [(4, -2.0, 2.0), (1, 0.0, 1.0), (7, -1.0, 3.0)]:
    for x in [data(20), data(3, 4, dtype=F64), t([0.0, 1.0, 2.0, -2.0, 3.0, -1.0]), torch.zeros(0)]:
        case("histc", [x], lambda x: torch.histc(x, bins, low, high), [bins, low, high], grad=False)
refused("histc", [data(3)], [0, 0.0, 1.0], "no 0 intervals")
for a, b in [([1.0, 2.0], [1.0, 2.0]), ([1.0], [2.0]), ([1.0, 2.0], [1.0]), ([NAN], [NAN])]:
    case("equal", [t(a), t(b)], lambda a, b: torch.tensor(torch.equal(a, b)))

for x in [*inputs(), data(2, 3, 5, dtype=I32), data(1, 4), torch.tensor([[2, 2, 1, 1, 3]])]:
    if not x.dtype.is_floating_point or not x.isnan().any():
        for axis in [0, -1]:
            case("mode", [x], lambda x: torch.mode(x, axis)[0], [axis], grad=False)
refused("mode", [torch.zeros(2, 0)], [1], "axis 1 of [2, 0] is empty")
for x in [data(3, 4), data(2, 3, 2, dtype=F64), data(5, dtype=I32)]:
    for axis in [0, -1]:
        case("argmax_keepdim", [x], lambda x: x.argmax(axis, True).int(), [axis])
        case("argmin_keepdim", [x], lambda x: x.argmin(axis, True).int(), [axis])
        if x.dtype.is_floating_point:
            for correction in [0, 1]:
                case("var_keepdim_with", [x], lambda x: x.var(axis, correction=correction, keepdim=True), [axis, correction], tol=("abs", 64), slope=("abs", 400))
refused("norm", [data(2)], ["2.0", [1]], "norm: axis 1 is out of range")
refused("norm", [data(2, 0)], ["inf", [1]], "norm: an empty axis of [2, 0] has no largest element")
for method, args in [("cummax", [2]), ("cumprod", [-3]), ("logcumsumexp", [2]), ("diff", [1, 2]), ("trapezoid", [1.0, 2]), ("argsort", [2, False]),
                     ("std_mean", [[2], 1]), ("count_nonzero", [[2]]), ("nanmean", [[-3]]), ("aminmax", [[2]]), ("argmax_keepdim", [2]), ("mode", [2])]:
    refused(method, [data(2, 3)], args, f"{method}: axis")
case("corrcoef", [data(3, 5, dtype=F16) * 200], torch.corrcoef, tol=("abs", 4), grad=False)
refused("cov", [data(2, 2, 2)], [], "cov: wants at most two axes")
refused("searchsorted", [data(2, 2), data(3)], [False], "searchsorted: rows [2, 2] do not belong to values [3]")
refused("searchsorted", [data(2, 2), data(3, 2)], [False], "searchsorted: rows [2, 2] do not belong to values [3, 2]")
refused("searchsorted", [t(1.0), data(3)], [False], "searchsorted: wants an axis of elements in order, not a scalar")
refused("bucketize", [data(2, 2), data(2, 2)], [False], "bucketize: wants edges of one axis, not [2, 2]")
refused("searchsorted_with", [data(3), data(2), torch.tensor([0, 1])], [False], "searchsorted_with: a sorter [2] is not of the shape [3]")
refused("searchsorted_with", [data(2), data(2), torch.tensor([0, 2])], [False], "searchsorted_with: index 2 is out of range for axis 0 of length 2")


def found(e, v, right):
    """NumPy's, for which NaN is the largest number."""
    side = "right" if right else "left"
    rows = zip(e.reshape(-1, e.shape[-1]).numpy(), v.reshape(-1, v.shape[-1]).numpy())
    return torch.tensor(np.stack([np.searchsorted(x, y, side) for x, y in rows]), dtype=I32).reshape(v.shape)


for right in [False, True]:
    # of few elements, and of more than are all compared
    for rows, n, m in [((2,), 5, 3), ((1, 2), 70, 4), ((2,), 129, 2), ((2,), 1, 2)]:
        for dtype in [F32, F64, BF16, F16, I32, I8] if n < 9 else [F32, I32]:
            x, v = data(*rows, n, dtype=dtype), data(*rows, m, dtype=dtype)
            case("searchsorted", [x.sort(-1)[0], v], lambda e, v: torch.searchsorted(e, v, right=right).int(), [right], grad=False)
        case("searchsorted_with", [x, v, x.argsort(-1)], lambda e, v, s: torch.searchsorted(e, v, right=right, sorter=s).int(), [right])
        x[..., -1] = 3
        x, v = x.to(F32) / 2, v.to(F32) / 2
        x[..., 0], v[..., -1] = NAN, NAN
        case("searchsorted", [x.sort(-1)[0], v], lambda e, v: found(e, v, right), [right], grad=False)
    case("searchsorted", [data(300).sort()[0], data(2, 3)], lambda e, v: torch.searchsorted(e, v, right=right).int(), [right], grad=False)
    case("searchsorted", [torch.zeros(0), data(2, 3)], lambda e, v: torch.searchsorted(e, v, right=right).int(), [right], grad=False)
    case("searchsorted", [torch.zeros(2, 3), torch.zeros(2, 0)], lambda e, v: torch.searchsorted(e, v, right=right).int(), [right], grad=False)
    case("bucketize", [data(2, 3), data(100).sort()[0]], lambda v, e: torch.bucketize(v, e, right=right).int(), [right], grad=False)
