"""Activation functions, at what makes them bend and far away from it."""

import torch.nn.functional as F

from case import *

INF, NAN = math.inf, math.nan
POINTS = [NAN, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.25, -0.75, 2.5, -2.5, 3.0, -3.0, 3.5, -3.5, 6.0, 6.5, -6.5, 1e-3, -1e-4, 12.0, -12.0,
          30.0, -30.0, 80.0, -80.0, 200.0, -300.0]
ENDS = [INF, -INF, 1e4, -1e4]


def activation(method, f, args=(), ulp=4, tol=None, slope=None, ends=True, skip_nan=False):
    tol = tol or ("ulp", ulp)
    for dtype in FLOATS:
        case(method, [t([p for p in POINTS if not skip_nan or abs(p) not in (3, NAN) and p == p], dtype)], f, args, tol=tol, slope=slope)
        if ends:
            case(method, [t(ENDS, dtype)], f, args, tol=tol, grad=False)
    for shape in [(), (0, 2), (2, 1, 3)]:
        case(method, [data(*shape)], f, args, tol=tol, slope=slope)
    for dtype in [I32, U8, I64]:
        case(method, [data(5, dtype=dtype)], lambda x: f(x.to(F64)), args, tol=tol, out=F32)


near = dict(tol=("abs", 8), slope=("abs", 40))
activation("relu6", F.relu6, ulp=0)
activation("logsigmoid", F.logsigmoid, ends=False)
# in torch it is a number of f32, 1 / 6, that gradients are multiplied by
activation("hardsigmoid", lambda x: (x + 3).clamp(0, 6) / 6, skip_nan=True, **near)
activation("hardswish", F.hardswish, ends=False, **near)
activation("selu", F.selu)
activation("quick_gelu", lambda x: x * torch.sigmoid(1.702 * x), ends=False, **near)
activation("swish", F.silu, ends=False, **near)
activation("mish", F.mish, ends=False, **near)
activation("softsign", F.softsign, ends=False, slope=("abs", 8))
activation("tanhshrink", F.tanhshrink, **near)
for low, high in [(-1.0, 1.0), (-0.5, 2.5), (0.0, 1.0)]:
    activation("hardtanh", lambda x: F.hardtanh(x, low, high), [low, high], ulp=0)
for alpha in [0.5, 1.0, 2.0]:
    activation("celu", lambda x: F.celu(x, alpha), [alpha])
for beta in [0.5, 1.0, 3.0]:
    # torch gives x itself from a threshold on, which is moved out of the way
    activation("softplus_with", lambda x: F.softplus(x, beta, 1e3), [beta], ends=False, **near)
for width in [0.0, 0.5, 1.0]:
    activation("softshrink", lambda x: F.softshrink(x, width), [width], tol=("abs", 2))
    activation("hardshrink", lambda x: F.hardshrink(x, width), [width], ulp=0)
for bound, value in [(0.0, 0.0), (1.0, -7.0), (-0.75, 2.0)]:
    activation("threshold", lambda x: F.threshold(x, bound, value), [bound, value], ulp=0)
for shape, axis in [((4,), 0), ((2, 6), 1), ((2, 3, 4), -1), ((4, 3), 0), ((0, 2), 1), ((2, 0), 1)]:
    for dtype in FLOATS:
        case("glu", [data(*shape, dtype=dtype)], lambda x: F.glu(x, axis), [axis], tol=("abs", 8))
refused("glu", [data(2, 3)], [1], "axis 1 of [2, 3] has no halves")
refused("glu", [data(2, 4)], [2], "axis 2 is out of range")
for shape, n in [((4,), 1), ((2, 3), 3), ((2, 3, 4), 3), ((1, 2, 2, 2), 2), ((2, 3, 4), 1)]:
    for dtype in FLOATS:
        case("prelu", [data(*shape, dtype=dtype), data(n, dtype=dtype)], F.prelu, tol=("abs", 4), slope=("abs", 40))
for dtype in FLOATS:
    for shape, axis in [((5,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((3, 1), -1)]:
        case("softmin", [data(*shape, dtype=dtype)], lambda x: F.softmin(x, axis), [axis], tol=("abs", 16))
        for p in [1.0, 2.0, 3.0]:
            case("normalize", [data(*shape, dtype=dtype)], lambda x: F.normalize(x, p, axis), [p, axis], tol=("abs", 24), slope=("abs", 200))
case("normalize", [t([[0.0, 0.0], [3.0, 4.0]])], lambda x: F.normalize(x, 2.0, 1), [2.0, 1], tol=("abs", 8), grad=False)
refused("softmin", [data(2)], [1], "softmin: axis 1 is out of range")
refused("normalize", [data(2)], [2.0, 1], "normalize: axis 1 is out of range")
refused("prelu", [data(2, 3, 4), data(2)], [], "prelu: shapes do not broadcast")
