"""Special functions, parts of floats, copies that differ at places, sets of values, margins."""

import itertools

import torch.nn.functional as F

from case import *

INF, NAN = math.inf, math.nan
WIDE = [F32, F64]


def points(values, dtype):
    """Those that the dtype holds as numbers."""
    x = t(values, dtype)
    return x[[i for i, v in enumerate(values) if math.isinf(v) or not torch.isinf(x[i])]]


def special(method, f, values, ulp, slope, args=(), tol=None, exact=True):
    for dtype in FLOATS:
        case(method, [points(values, dtype)], f, args, tol=tol or ("ulp", ulp), slope=slope, grad=exact or dtype != F64)
    for shape in [(), (0, 2), (2, 1, 3)]:
        case(method, [data(*shape, low=0.1, high=0.9)], f, args, tol=tol or ("ulp", ulp), slope=slope)
    for dtype in [I8, I32, U8, BOOL]:
        case(method, [data(4, dtype=dtype)], lambda x: f(x.to(F64)), args, tol=tol or ("ulp", ulp), slope=slope, out=F32)


special("erfinv", torch.erfinv, [NAN, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-20, -1e-3, 0.1, -0.9, 0.99, -0.999, 0.9999999, 1.5, -2.0, INF], 4, ("abs", 64))
POSITIVE = [1.0, 2.0, 0.5, 1.5, 3.0, 0.1, 1e-3, 1e-10, 4.25, 7.0, 9.75, 10.0, 10.5, 33.0, 171.5, 1e4, 1e10]
NEGATIVE = [-0.5, -1.5, -0.1, -2.25, -3.75, -9.5, -0.875, -15.25]
special("lgamma", torch.lgamma, POSITIVE + NEGATIVE + [NAN, INF], 0, ("abs", 64), tol=("abs", 16))
special("digamma", torch.digamma, POSITIVE + NEGATIVE + [NAN, INF, 0.0, -0.0], 0, ("abs", 400), tol=("abs", 64), exact=False)
case("digamma", [t([-1.0, -7.0])], torch.digamma, grad=False)
case("lgamma", [t([0.0, -1.0, -7.0, -INF])], torch.lgamma, grad=False)
# below the normal numbers
case("lgamma", [t([1.5e-323, -1.5e-323, 5e-324, 3e-310], F64)], torch.lgamma, tol=("abs", 4), grad=False)
case("digamma", [t([1.5e-308, -8e-309], F64)], torch.digamma, tol=("abs", 64), grad=False)
for dtype in WIDE:
    # PyTorch's own trigamma has nine digits
    case("polygamma", [points(POSITIVE, dtype)], lambda x: torch.special.zeta(2, x), [1], tol=("ulp", 64), grad=False)
case("polygamma", [points(POSITIVE, F32)], torch.digamma, [0], tol=("abs", 64), slope=("ulp", 400))
for n in [2, 3, 5]:
    for dtype in WIDE:
        case("polygamma", [points(POSITIVE[:6] + POSITIVE[8:14], dtype)], lambda x: torch.polygamma(n, x), [n], tol=("ulp", 64), slope=("ulp", 400))
case("polygamma", [t(NEGATIVE)], lambda x: torch.polygamma(1, x), [1], tol=("abs", 64), grad=False)
for n in [2, 3]:
    for dtype in WIDE:
        # PyTorch's factorials have errors too
        case("polygamma", [points(NEGATIVE + [0.0, -0.0, -1.0, -8.0, INF], dtype)], lambda x: torch.where(x == INF, 0.0, torch.polygamma(n, x)), [n],
             tol=("abs", 400), grad=False)
    case("polygamma", [points(NEGATIVE, F32)], lambda x: torch.polygamma(n, x), [n], tol=("abs", 64), slope=("abs", 64))
# in the middle between poles PyTorch's terms cancel
case("polygamma", [t([-0.125, -2.25, -3.75, -15.25], F64)], lambda x: torch.polygamma(30, x), [30], tol=("abs", 400), grad=False)
refused("polygamma", [data(2)], [31], "polygamma: derivative 31")
special("i0", torch.i0, [NAN, 0.0, -0.0, 1.0, -1.0, 0.1, 1e-10, 5.0, -7.5, 12.0, 19.5, 20.0, -20.5, 33.0, 60.0, -88.0], 8, ("ulp", 64))
case("i0", [t([700.0, -650.0], F64)], torch.i0, tol=("ulp", 200), slope=("ulp", 400))

for dtype in [I8, I16, I32, I64, U8]:
    a = [0, 0, 12, 18, 7, 100, 36, 1, 90, 126, 34, 55] + ([] if dtype == U8 else [-4, -12, 8])
    b = [0, 5, 18, 12, 13, 75, 90, 1, 120, 84, 21, 89] + ([] if dtype == U8 else [6, -18, -20])
    case("gcd", [torch.tensor(a).to(dtype), torch.tensor(b).to(dtype)], torch.gcd)
    # what does not fit wraps
    case("lcm", [torch.tensor(a).to(dtype), torch.tensor(b).to(dtype)], torch.lcm)
case("gcd", [torch.tensor([7540113804746346429, 2 ** 62, -2 ** 40]), torch.tensor([4660046610375530309, 2 ** 50, 3 * 2 ** 39])], torch.gcd)
case("gcd", [data(3, 1, dtype=I32), data(4, dtype=I32)], torch.gcd)
refused("gcd", [data(2), data(2)], [], "gcd: wants integers, not f32")

PARTS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, 0.75, 10.0, -3.0, 1e-30, 1e-40, 65504.0, 6e-8, 3e38, 2.0 ** -126, 1e-310]
for dtype in FLOATS:
    x = points(PARTS, dtype)
    mantissa, exponent = np.frexp(x.to(F64).numpy())
    exponent = np.where(np.isfinite(x.to(F64).numpy()), exponent, 0)
    case("frexp", [x], lambda x: (torch.tensor(mantissa), torch.tensor(exponent).to(I32)), grad=False)
    case("ldexp", [x, torch.arange(len(x)).to(I32) - 5], lambda x, e: x * 2.0 ** e, only=[0])
case("frexp", [data(5)], lambda x: (torch.frexp(x)[0] if False else x / 2.0 ** torch.frexp(x.detach())[1], torch.frexp(x.detach())[1]))
for dtype in WIDE:
    pairs = list(itertools.product([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 1.5, 1e-40, -3e38], repeat=2))
    x, y = t([p[0] for p in pairs], dtype), t([p[1] for p in pairs], dtype)
    case("nextafter", [x, y], lambda a, b: torch.nextafter(x, y), grad=False)
for x, e in [(data(4, low=0.5), data(4)), (data(4, dtype=I32, low=1, high=5), data(4, dtype=I32))]:
    case("float_power", [x, e], lambda x, e: torch.float_power(x.abs() if x.dtype == F64 else x, e), out=F64, tol=("ulp", 64), slope=("ulp", 400), grad=False)

X = [data(3, 4), data(2, 3, 4, dtype=F64), data(4, 3, dtype=I32)]
for x in X:
    for axis in [0, -1, 1]:
        n = x.shape[axis]
        for at in [0, -1]:
            v = torch.select(x, axis, 0).flip(0) * 2
            case("select_scatter", [x, v], lambda x, v: torch.select_scatter(x, v, axis, at), [axis, at])
        for a, b, step in [(0, n, 2), (1, n, 1), (0, 1, 1)]:
            v = x.narrow(axis, 0, len(range(a, b, step))) * 3
            case("slice_scatter", [x, v], lambda x, v: torch.slice_scatter(x, v, axis, a, b, step), [axis, a, b, step])
        index = torch.tensor([n - 1, 0])
        v = x.narrow(axis, 0, 2) * 5
        case("index_copy", [x, index, v], lambda x, i, v: torch.index_copy(x, axis, i, v), [axis])
        case("index_fill", [x, index], lambda x, i: torch.index_fill(x, axis, i, 7), [axis, 7.0 if x.dtype.is_floating_point else 7])
    index = torch.tensor([[1, x.numel() - 1], [0, 4]])
    v = x.reshape(-1)[:4].reshape(2, 2) * 2
    case("put", [x, index, v], lambda x, i, v: x.put(i, v))
    mask = data(*x.shape, dtype=BOOL)
    case("masked_scatter", [x, mask, x * 2], lambda x, m, s: x.masked_scatter(m, s))
    case("masked_scatter", [x, mask[..., :1, :], x.flip(0)], lambda x, m, s: x.masked_scatter(m.expand_as(x), s))
    for axis in [0, -1]:
        shape = [1] * x.ndim
        shape[axis] = 2
        index = torch.tensor(rng.integers(0, x.shape[axis], shape))
        case("take_along_dim", [x, index], lambda x, i: torch.take_along_dim(x, i, axis), [axis])
refused("select_scatter", [data(2, 3), data(3)], [2, 0], "select_scatter: axis 2")
refused("slice_scatter", [data(2, 3), data(3, 3)], [0, 0, 2, 1], "slice_scatter: value does not fit")
refused("index_copy", [data(2, 3), torch.tensor([5]), data(1, 3)], [0], "index_copy:")
refused("take_along_dim", [data(2, 3), torch.tensor([1])], [0], "take_along_dim: shapes do not broadcast")

for x, v in [(data(3, 4, dtype=I32), data(5, dtype=I32)), (t([1.0, NAN, 2.0, INF, -0.0]), t([[NAN, 2.0], [0.0, INF]])), (data(4, dtype=U8), data(3, dtype=I32)),
             (data(4), torch.zeros(0)), (torch.zeros(2, 0), data(2)), (data(6, dtype=I64), data(6, dtype=I64))]:
    case("isin", [x, v], lambda a, b: torch.isin(x, v))
for x in [data(20, dtype=I32, low=0, high=2), t([1.0, 1.0, NAN, NAN, 2.0]), data(3, 4, dtype=I32, low=0, high=2), data(1), torch.zeros(0), data(9, dtype=BOOL)]:
    case("unique_consecutive", [x], lambda x: torch.unique_consecutive(x), grad=False)
for bins, low, high in [(4, -2.0, 2.0), (1, 0.0, 1.0)]:
    x = data(20)
    case("histogram", [x], lambda x: torch.histogram(x, bins, range=(low, high)), [bins, low, high], grad=False)
# the distance from the lower end rounds to that of the next interval
case("histogram", [t([-5e-324, 5e-324, 0.0, -1.0 - 2.0 ** -52, 1.0 - 2.0 ** -53], F64)],
     lambda x: torch.histogram(x, 4, range=(-2.0, 2.0)), [4, -2.0, 2.0], grad=False)
for n, k in [(4, 2), (5, 3), (3, 3), (2, 3), (3, 1)]:
    x = data(n)
    case("combinations", [x], lambda x: torch.combinations(x, k), [k])
refused("combinations", [data(2, 2)], [2], "combinations: wants one axis")
HOLES = t([[3.0, NAN, 1.0, 2.0], [NAN, NAN, NAN, NAN], [4.0, 1.0, NAN, NAN], [5.0, 5.0, -1.0, 0.5]])
for x in [HOLES, HOLES.to(F64), data(3, 5), data(2, 3, 2)]:
    for axis in [0, -1]:
        case("nanmedian", [x], lambda x: torch.nanmedian(x, axis)[0], [axis], grad=False)
        for q in [0.0, 0.25, 0.5, 0.9, 1.0]:
            case("nanquantile", [x], lambda x: torch.nanquantile(x, q, axis), [q, axis], tol=("abs", 4), grad=False)
refused("nanquantile", [data(3)], [1.5, 0], "nanquantile: wants floats and a share")

NAMED = {"sum": lambda x, d: x.sum(d), "prod": lambda x, d: x.prod(d), "mean": lambda x, d: x.mean(d),
         "softmax": lambda x, d: x.softmax(d), "log_softmax": lambda x, d: x.log_softmax(d)}
for name, f in NAMED.items():
    for x in [data(3, 4), data(3, 4, dtype=I32, low=0, high=4), data(2, 3, dtype=F16)]:
        for axis in [0, -1]:
            case(name + "_with", [x], lambda x: f(x.to(F64), axis), [axis, "f64"], out=F64, tol=("abs", 16))
case("vdot", [data(5), data(5)], torch.dot, tol=("abs", 8))
for sizes in [[2, 3], [2, 3, 4], [3, 1, 5, 2], [2, 5, 1, 4, 3]]:
    matrices = [data(a, b) for a, b in zip(sizes, sizes[1:])]
    case("chain_matmul", matrices, lambda *m: torch.linalg.multi_dot(m) if len(m) > 1 else m[0].clone(), tol=("abs", 64))
refused("chain_matmul", [data(2, 3), data(2)], [], "chain_matmul: [2] is no matrix")

for reduce in ["none", "mean", "sum"]:
    for dtype in WIDE:
        x = data(4, 3, dtype=dtype)
        labels = torch.tensor([0, 2, 1, 2])
        for p, margin in [(1, 1.0), (2, 0.5)]:
            case("multi_margin_loss", [x, labels], lambda x, y: F.multi_margin_loss(x, y, p=p, margin=margin, reduction=reduce), [reduce, p, margin], tol=("abs", 8))
        many = torch.tensor([[0, 2, -1], [1, -1, 0], [-1, 2, 0], [2, 1, 0]])
        case("multilabel_margin_loss", [x, many], lambda x, y: F.multilabel_margin_loss(x, y, reduction=reduce), [reduce], tol=("abs", 8))
refused("multi_margin_loss", [data(2, 3), torch.tensor([1])], ["mean", 1, 1.0], "multi_margin_loss: wants scores")
