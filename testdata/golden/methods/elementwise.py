"""Functions of one, two and three numbers, from one end of their ranges to the other."""

import torch.nn.functional as F

from case import *

INF, NAN = math.inf, math.nan
EVERYWHERE = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.25, -0.75, 1.5, 2.5, -2.5, 3.75, 1e-30, -1e-30, 1e-4, -1e-3, 0.1,
              20.5, 40.0, -40.0, 88.0, -87.0, 89.0, 1e5, -12345.678, 1e18, -3e38]
UNIT = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.25, -0.75, 0.9375, -0.96875, 1 - 2.0 ** -24, 1.5, -2.0, 1e-30, -1e-4, 0.1, 0.6, -0.3]
ABOVE_1 = [NAN, INF, 1.0, 1 + 2.0 ** -20, 1 + 2.0 ** -7, 1.1, 1.5, 2.0, 3.0, 10.0, 1e3, 1e5, 1e10, 3e38, 0.5, 0.0]
PLAIN = [NAN, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.25, -0.75, 1.5, 2.5, -2.5, 3.75, 1e-30, -1e-3, 6.0, -6.0, 9.0, -9.0, 12.0]
INTS = [I8, I16, I32, I64, U8, BOOL]


def points(values, dtype):
    """Those that the dtype holds as numbers, each once."""
    x = t(values, dtype)
    keep = [i for i, v in enumerate(values) if math.isinf(v) or not torch.isinf(x[i])]
    return x[keep]


def unary(method, f, values, ulp, args=(), slope=None, ints=True, floats=FLOATS, tol=None):
    tol = tol or ("ulp", ulp)
    for dtype in floats:
        case(method, [points(values, dtype)], f, args, tol=tol, slope=slope)
    for shape in [(), (2, 0), (1, 3, 1)]:
        case(method, [data(*shape, low=1.25 if 0.5 not in values else 0.1, high=1.75 if 0.5 not in values else 0.9)], f, args, tol=tol, slope=slope)
    for dtype in INTS if ints else []:
        case(method, [data(4, dtype=dtype)], lambda x: f(x.to(F64)), args, tol=tol, slope=slope, out=F32)


unary("asin", torch.asin, UNIT, 3)
unary("acos", torch.acos, UNIT, 3)
unary("atan", torch.atan, EVERYWHERE, 3)
unary("sinh", torch.sinh, EVERYWHERE, 5)
unary("cosh", torch.cosh, EVERYWHERE, 5)
unary("asinh", torch.asinh, EVERYWHERE, 4)
unary("acosh", torch.acosh, ABOVE_1, 4)
unary("atanh", torch.atanh, UNIT, 4)
unary("erf", torch.erf, EVERYWHERE, 3)
unary("erfc", torch.erfc, PLAIN + [INF, -INF, 25.0], 6)
unary("gelu_erf", F.gelu, PLAIN, 6, tol=("abs", 8))
unary("sinc", torch.sinc, PLAIN, 6, slope=("abs", 60), tol=("abs", 6))
unary("deg2rad", torch.deg2rad, PLAIN + [INF, -INF], 2)
unary("rad2deg", torch.rad2deg, PLAIN + [INF, -INF], 2)
unary("logit", torch.logit, [NAN, 0.0, 1.0, 0.5, 0.25, 0.75, 0.1, 0.9, 0.3, 0.499, 0.501, 1e-6, 0.999, -0.5, 1.5, 1e-30, INF, -INF], 4)
unary("frac", torch.frac, PLAIN, 0)
for method, f in [("isfinite", torch.isfinite), ("isposinf", torch.isposinf), ("isneginf", torch.isneginf), ("signbit", torch.signbit)]:
    for dtype in FLOATS:
        # NaN has no sign in kiln
        case(method, [points(EVERYWHERE[1:], dtype)], f)
    for dtype in INTS:
        case(method, [data(6, dtype=dtype)], f)
for dtype in FLOATS:
    x = points(EVERYWHERE, dtype)
    big = torch.finfo(dtype).max
    case("nan_to_num", [x], lambda x: torch.nan_to_num(x, 0.0, big, -big))
    case("nan_to_num_with", [x], lambda x: torch.nan_to_num(x, 7.0, 1.5, -2.0), [7.0, 1.5, -2.0])
    for low, high in [(-0.5, 1.0), (1.0, 1.0), (2.0, -1.0), (-INF, INF)]:
        case("clip", [x], lambda x: x.clip(low, high), [str(low), str(high)], grad=low < high)
        case("clamp_min", [x], lambda x: x.clamp(min=low), [str(low)])
        case("clamp_max", [x], lambda x: x.clamp(max=high), [str(high)])
for dtype in [I8, I32, I64, U8]:
    x = data(9, dtype=dtype)
    case("nan_to_num", [x], torch.nan_to_num)
    case("clip_int", [x], lambda x: x.clip(2, 5), [2, 5])
    case("clamp_min_int", [x], lambda x: x.clamp(min=3), [3])
    case("clamp_max_int", [x], lambda x: x.clamp(max=3), [3])

SOME = [NAN, INF, -INF, 0.0, -0.0, 1.0, -2.0, 0.5, 3.75, -7.0, 1e-3]


def table(values, dtype):
    a, b = torch.meshgrid(t(values, dtype), t(values, dtype), indexing="ij")
    return [a.reshape(-1).clone(), b.reshape(-1).clone()]


def binary(method, f, ulp, values=SOME, slope=None, ints=None, low=-2.0, tol=None, floats=FLOATS, grad=True, only=None):
    tol = tol or ("ulp", ulp)
    for dtype in floats:
        case(method, table(values, dtype), f, tol=tol, grad=False)
        case(method, table([v for v in values if v and math.isfinite(v)], dtype), f, tol=tol, slope=slope, grad=grad, only=only)
    for a, b in [((3, 4), (3, 4)), ((3, 1), (4,)), ((2, 1, 3), (5, 1)), ((), (3,)), ((0, 2), (2,)), ((1, 1), (1,))]:
        case(method, [data(*a, low=low), data(*b, low=low)], f, tol=tol, slope=slope, grad=grad, only=only)
    for dtype in ints or []:
        a, b = data(7, dtype=dtype), data(7, dtype=dtype, low=1, high=5)
        case(method, [a, b], (lambda a, b: f(a.to(F64), b.to(F64))) if ints is INTS else f, tol=tol, out=F32 if ints is INTS else None)
    refused(method, [data(2), data(3)], [], f"{method}: shapes do not broadcast, lhs [2], rhs [3]")


binary("atan2", torch.atan2, 4, ints=INTS)
binary("hypot", torch.hypot, 3, ints=INTS)
binary("logaddexp", torch.logaddexp, 4, ints=INTS, slope=("abs", 16))
binary("xlogy", torch.xlogy, 4, ints=INTS)
binary("copysign", torch.copysign, 0, ints=INTS, only=[0])
binary("fmod", torch.fmod, 0, ints=[I8, I32, I64, U8], low=0.5, grad=False)
case("fmod", [data(8), data(8, low=0.5)], torch.fmod, slope=("ulp", 1))
case("fmod", [data(8), data(8, high=-0.5)], torch.fmod, slope=("ulp", 1))
# of quotients that round to a whole number the remainder says more
# a narrow quotient rounds up to 71
case("div_trunc", [t([-87.0, 87.0], BF16), t([-1.2265625], BF16)], lambda a, b: torch.div(a, b, rounding_mode="trunc"))
binary("div_trunc", lambda a, b: torch.div(a, b, rounding_mode="trunc"), 0, low=0.5, ints=[I8, I32, I64, U8], values=SOME[:-1])
for dtype in [I8, I32, I64]:
    a, b = torch.tensor([7, -7, 7, -7, 0, 6, -6, 1]).to(dtype), torch.tensor([2, 2, -2, -2, 3, 3, 3, -5]).to(dtype)
    case("fmod", [a, b], torch.fmod)
    case("div_trunc", [a, b], lambda a, b: torch.div(a, b, rounding_mode="trunc"))
binary("heaviside", torch.heaviside, 0, grad=False)
case("heaviside", [data(5, dtype=I32), data(5, dtype=I32)], torch.heaviside)
for method, f in [("logical_and", torch.logical_and), ("logical_or", torch.logical_or), ("logical_xor", torch.logical_xor)]:
    for dtype in FLOATS + [BOOL, I32, U8]:
        case(method, table([0, 1, 2] if not dtype.is_floating_point else SOME, dtype), f)
    case(method, [data(3, 1, dtype=BOOL), data(2, dtype=I32)], f)
for rtol, atol in [(1e-5, 1e-8), (0.0, 0.0), (0.5, 0.1), (0.0, 2.0)]:
    for dtype in FLOATS:
        case("isclose", table(SOME + [1.25, -2.5], dtype), lambda a, b: torch.isclose(a, b, rtol, atol), [rtol, atol])
    case("isclose", table([0, 1, 2, 5, -7], I64), lambda a, b: torch.isclose(a, b, rtol, atol), [rtol, atol])
    for a, b in [([1.0, 2.0], [1.0, 2.0]), ([1.0, 2.0], [1.5, 2.0]), ([NAN], [NAN]), ([INF], [INF])]:
        case("allclose", [t(a), t(b)], lambda a, b: torch.isclose(a, b, rtol, atol).all(), [rtol, atol])
for dtype in FLOATS:
    for w in [0.0, 0.25, 0.5, 0.75, 1.0, -1.0, 2.0]:
        case("lerp", [data(4, dtype=dtype), data(4, dtype=dtype)], lambda a, b: torch.lerp(a, b, w), [w], tol=("abs", 16))
# the end from which it goes on is the nearer one, as far as infinities tell
case("lerp_tensor", [t([1.0]), t([INF]), t([-1.0, -0.5, -0.25, 0.25, 0.5, 2.0])], torch.lerp, grad=False)
for shapes in [[(3, 4), (4,), (3, 1)], [(), (2,), (2,)], [(0, 2), (2,), (1, 1)]]:
    case("lerp_tensor", [data(*s) for s in shapes], torch.lerp, tol=("abs", 16))
    case("addcmul", [data(*s) for s in shapes], lambda a, b, c: torch.addcmul(a, b, c, value=0.5), [0.5], tol=("abs", 16))
    case("addcdiv", [data(shapes[0][0] if shapes[0] else 1, 1), data(*shapes[1]), data(*shapes[1], low=0.5)],
         lambda a, b, c: torch.addcdiv(a, b, c, value=-2.0), [-2.0], tol=("abs", 40))
case("addcmul_int", [data(4, dtype=I64), data(4, dtype=I64), data(4, dtype=I64)], lambda a, b, c: torch.addcmul(a, b, c, value=3), [3])
# Many points, for the places that are promised.
for method, f, low, high, ulp in [("asin", torch.asin, -1, 1, 3), ("acos", torch.acos, -1, 1, 3), ("atan", torch.atan, -6, 6, 3), ("sinh", torch.sinh, -9, 9, 5),
                                  ("cosh", torch.cosh, -9, 9, 5), ("asinh", torch.asinh, -9, 9, 4), ("acosh", torch.acosh, 1, 9, 4), ("atanh", torch.atanh, -1, 1, 4),
                                  ("erf", torch.erf, -4, 4, 3), ("erfc", torch.erfc, -4, 10, 6), ("logit", torch.logit, 0, 1, 4)]:
    case(method, [t(rng.uniform(low, high, 400), F32)], f, tol=("ulp", ulp))
    case(method, [t(rng.uniform(low, high, 400) * 1e-3 + max(low, 0), F32)], f, tol=("ulp", ulp))
case("atan2", [t(rng.normal(0, 1, 400), F32), t(rng.normal(0, 1, 400), F32)], torch.atan2, tol=("ulp", 4))
case("hypot", [t(rng.normal(0, 1, 400), F32), t(rng.normal(0, 1, 400), F32)], torch.hypot, tol=("ulp", 3))
