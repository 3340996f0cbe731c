"""Convolutions, pooling, and what else slides windows along axes."""

import torch.nn.functional as F

from case import *

# of up to 100 products of numbers below 2 each
NEAR = dict(tol=("abs", 400), slope=("abs", 800))
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
LENGTHS = {1: [9], 2: [6, 5], 3: [4, 5, 4]}
KERNELS = {1: [3], 2: [3, 2], 3: [2, 3, 2]}


def distinct(*shape, dtype=F32):
    """Numbers of which no two are equal."""
    n = math.prod(shape)
    return torch.tensor((rng.permutation(n) - n // 2).reshape(shape) / 8).to(dtype)


def sides(padding, n):
    """One for all axes, one for each, or pairs, as pairs."""
    each = [padding] * n if isinstance(padding, int) else padding
    return [(p, p) if isinstance(p, int) else tuple(p) for p in each]


def around(x, padding, n, mode="constant", value=0.0):
    return F.pad(x, [p for pair in reversed(sides(padding, n)) for p in pair], mode=mode, value=value if mode == "constant" else None)


def conv(n, **o):
    def f(x, w, *b):
        padding, mode = o.get("padding", 0), o.get("mode", "constant")
        if padding == "same":
            return CONV[n](x, w, *b, stride=o.get("stride", 1), dilation=o.get("dilation", 1), groups=o.get("groups", 1), padding="same")
        return CONV[n](around(x, padding, n, mode), w, *b, stride=o.get("stride", 1), dilation=o.get("dilation", 1), groups=o.get("groups", 1))
    return f


def filters(n, groups=1, kernel=None, outputs=4, inputs=4, dtype=F32):
    return data(outputs, inputs // groups, *(kernel or KERNELS[n]), dtype=dtype)


for n in [1, 2, 3]:
    settings = [{}, {"stride": 2}, {"padding": 1}, {"padding": 1, "stride": 2, "dilation": 2}, {"groups": 2}, {"groups": 4, "padding": 1},
                {"padding": "same"}, {"padding": "same", "dilation": 2}, {"padding": [[2, 0]] * n}, {"padding": [[0, 1]] * n, "stride": 3},
                {"padding": 1, "mode": "reflect"}, {"padding": [[2, 1]] * n, "mode": "replicate"}, {"padding": [[1, 2]] * n, "mode": "circular"},
                {"stride": [2, 1, 3][:n], "dilation": [1, 2, 1][:n], "padding": [1, 2, 0][:n]}]
    for o in settings:
        x, w, b = data(2, 4, *LENGTHS[n]), filters(n, o.get("groups", 1)), data(4)
        case(f"conv{n}d", [x, w, b], conv(n, **o), [o], **NEAR)
    for dtype in FLOATS:
        case(f"conv{n}d", [data(1, 4, *LENGTHS[n], dtype=dtype), filters(n, dtype=dtype)], conv(n, padding=1), [{"padding": 1}], **NEAR)
    case(f"conv{n}d", [data(1, 2, *LENGTHS[n], dtype=I64), data(1, 2, *KERNELS[n], dtype=I64)], conv(n), [{}], grad=False)
    case(f"conv{n}d", [data(0, 4, *LENGTHS[n]), filters(n)], conv(n), [{}], **NEAR)
    case(f"conv{n}d", [data(1, 4, *[1] * n), filters(n, kernel=[1] * n)], conv(n), [{}], **NEAR)
    x, w = data(1, 4, *LENGTHS[n]), filters(n)
    refused(f"conv{n}d", [x, filters(n, inputs=2)], [{}], f"conv{n}d_with: channels differ")
    refused(f"conv{n}d", [x[0], w], [{}], "axes each")
    refused(f"conv{n}d", [x, w, data(3)], [{}], "bias [3] is not [4]")
    refused(f"conv{n}d", [x, filters(n, kernel=[12] * n)], [{}], "no window fits")
    refused(f"conv{n}d", [x, w], [{"groups": 3}], "groups 3")
    refused(f"conv{n}d", [x, w], [{"stride": 0}], "stride [0] must be at least 1")
    refused(f"conv{n}d", [x, w], [{"padding": -1}], "padding [-1] must be at least 0")
    refused(f"conv{n}d", [x, w], [{"stride": [1] * 4}], "neither one number nor one for each")
    refused(f"conv{n}d", [x, w], [{"stride": 2, "padding": "same"}], "stride 1 only")
    refused(f"conv{n}d", [x, w], [{"padding": 30, "mode": "reflect"}], "than axis")
    for o in [{}, {"stride": 2}, {"stride": 3, "padding": 1}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "stride": 2}, {"dilation": 2, "padding": 1},
              {"stride": 2, "dilation": 3, "output_padding": 2}, {"padding": 3, "stride": 3},
              {"stride": [2, 1, 3][:n], "dilation": [1, 2, 1][:n], "padding": [1, 1, 0][:n], "output_padding": [1, 1, 2][:n]}]:
        x, w, b = data(2, 4, *[k - 1 for k in LENGTHS[n]]), data(4, 3, *KERNELS[n]), data(3 * o.get("groups", 1))
        case(f"conv_transpose{n}d", [x, w, b], lambda x, w, b: TRANSPOSED[n](x, w, b, **o), [o], **NEAR)
    for dtype in FLOATS:
        case(f"conv_transpose{n}d", [data(1, 2, *LENGTHS[n], dtype=dtype), data(2, 2, *KERNELS[n], dtype=dtype)], lambda x, w: TRANSPOSED[n](x, w, stride=2), [{"stride": 2}], **NEAR)
    x, w = data(1, 4, *LENGTHS[n]), data(4, 3, *KERNELS[n])
    refused(f"conv_transpose{n}d", [x, data(3, 4, *KERNELS[n])], [{}], "channels differ")
    refused(f"conv_transpose{n}d", [x, w], [{"output_padding": 1}], "output_padding")
    refused(f"conv_transpose{n}d", [x, w], [{"padding": 50}], "elements off an axis")
    refused(f"conv_transpose{n}d", [x, w, data(4)], [{}], "bias [4] is not [3]")
    refused(f"conv_transpose{n}d", [x, w], [{"padding": 1, "mode": "reflect"}], "has no mode")

    pools = [(2, {}), (3, {"stride": 2, "padding": 1}), (3, {"stride": 1}), (2, {"stride": 3}), (2, {"ceil": True}), (3, {"stride": 2, "ceil": True, "padding": 1}),
             ([2, 3, 1][:n], {"stride": [1, 2, 3][:n], "padding": [1, 1, 0][:n]}), (2, {"stride": 3, "ceil": True, "padding": 1}), (1, {"stride": 2, "ceil": True})]
    largest = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[n]
    mean = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[n]
    back = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}[n]

    def pool(f, kernel, o, **more):
        return lambda x: f(x, kernel, stride=o.get("stride"), padding=o.get("padding", 0), ceil_mode=o.get("ceil", False), **more)

    for kernel, o in pools:
        for dtype in [F32, F64, F16] if kernel == 3 else [F32]:
            x = distinct(2, 2, *LENGTHS[n], dtype=dtype)
            case(f"max_pool{n}d", [x], pool(largest, kernel, o), [kernel, o])
            case(f"avg_pool{n}d", [x], pool(mean, kernel, o), [kernel, o], tol=("abs", 16))
            case(f"avg_pool{n}d", [x], pool(mean, kernel, o, count_include_pad=False), [kernel, {**o, "excluded": True}], tol=("abs", 16))
        x = distinct(2, 2, *LENGTHS[n])
        case(f"max_pool{n}d_with_indices", [x], lambda x: [r.to(I32) if r.dtype == I64 else r for r in pool(largest, kernel, o, return_indices=True)(x)], [kernel, o])
        if not o.get("ceil"):
            y, at = pool(largest, kernel, o, return_indices=True)(x)
            case(f"max_unpool{n}d_to", [distinct(*y.shape) if kernel == 2 and "stride" not in o else y, at.to(I32)],
                 lambda y, at: back(y, at.long(), kernel, o.get("stride"), o.get("padding", 0), LENGTHS[n]), [LENGTHS[n]], grad=kernel == 2)
        if kernel == 2 and not o:
            even = distinct(2, 2, *[4, 6, 2][:n])
            y, at = pool(largest, kernel, o, return_indices=True)(even)
            case(f"max_unpool{n}d", [y, at.to(I32)], lambda y, at: back(y, at.long(), 2), [kernel, o])
    for o in [{"dilation": 2}, {"dilation": 2, "padding": 1, "stride": 1}, {"dilation": 2, "stride": 2, "ceil": True}]:
        x = distinct(1, 2, *LENGTHS[n])
        case(f"max_pool{n}d", [x], pool(largest, 2, o, dilation=2), [2, o])
        case(f"max_pool{n}d_with_indices", [x], lambda x: [r.to(I32) if r.dtype == I64 else r for r in pool(largest, 2, o, dilation=2, return_indices=True)(x)], [2, o])
    if n > 1:
        case(f"avg_pool{n}d", [x], pool(mean, 2, {}, divisor_override=3), [2, {"divisor": 3}], tol=("abs", 16))
    case(f"max_pool{n}d", [data(2, 2, *LENGTHS[n], dtype=I64)], lambda x: largest(x.double(), 2).long(), [2, {}])
    special = distinct(1, 1, *LENGTHS[n])
    special.view(-1)[1::5] = math.nan
    special.view(-1)[2::5] = -math.inf
    special.view(-1)[3::7] = math.inf
    case(f"max_pool{n}d", [special], pool(largest, 2, {"padding": 1}), [2, {"padding": 1}], grad=False)
    case(f"avg_pool{n}d", [special], pool(mean, 2, {"padding": 1}), [2, {"padding": 1}], grad=False, tol=("abs", 16))
    for lp in [1.0, 2.0, 3.0]:
        f = {1: F.lp_pool1d, 2: F.lp_pool2d, 3: F.lp_pool3d}[n]
        case(f"lp_pool{n}d", [distinct(1, 2, *LENGTHS[n]).abs() + 0.5], lambda x: f(x, lp, 2, 1), [2, {"stride": 1}, lp], tol=("abs", 64))
    refused(f"max_pool{n}d", [x], [20, {}], f"max_pool{n}d: no window fits")
    refused(f"max_pool{n}d", [x], [0, {}], "kernel [0] must be at least 1")
    refused(f"avg_pool{n}d", [x], [[2] * 4, {}], "neither one number nor one for each")
    refused(f"avg_pool{n}d", [data(*LENGTHS[n][1:])], [2, {}], "wants at least")
    refused(f"max_unpool{n}d", [x, at.to(I32)[:, :1]], [2, {}], "differ")
    wide = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[n]
    top = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}[n]
    for lengths in [1, 2, 3, 4, 7, [3, 2, 4][:n]]:
        x = distinct(1, 2, *LENGTHS[n])
        case(f"adaptive_avg_pool{n}d", [x], lambda x: wide(x, lengths), [lengths], tol=("abs", 16))
        case(f"adaptive_max_pool{n}d", [x], lambda x: top(x, lengths), [lengths])
        case(f"adaptive_max_pool{n}d_with_indices", [x], lambda x: [r.to(I32) if r.dtype == I64 else r for r in top(x, lengths, return_indices=True)], [lengths])
    case(f"adaptive_avg_pool{n}d", [distinct(1, 2, *LENGTHS[n], dtype=F16)], lambda x: wide(x, 3), [3], tol=("abs", 16))
    refused(f"adaptive_avg_pool{n}d", [x], [[2] * 4], "is neither a length nor one for each")
    refused(f"adaptive_max_pool{n}d", [data(*LENGTHS[n][1:])], [2], "wants at least")
    refused(f"adaptive_max_pool{n}d", [data(1, *[0] * n)], [2], "is empty")
