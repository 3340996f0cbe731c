"""Other lengths, elements at positions, and columns of windows."""

import torch.nn.functional as F

from case import *

NEAR = dict(tol=("abs", 64), slope=("abs", 200))
SHAPES = {1: (2, 2, 5), 2: (1, 2, 4, 5), 3: (1, 1, 3, 4, 2)}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
for n, shape in SHAPES.items():
    sizes = [1, 7, [6, 3, 5][:n]]
    scales = [2.0, [1.5, 0.6, 3.0][:n]]
    for kind in ["nearest", "nearest-exact", "linear", "linear+", "cubic", "cubic+", "area"]:
        if kind.startswith("cubic") and n != 2:
            continue
        mode = {"linear": LINEAR[n], "cubic": "bicubic"}.get(kind.strip("+"), kind)
        corners = {"align_corners": kind.endswith("+")} if mode not in ("nearest", "nearest-exact", "area") else {}
        for size in sizes:
            for dtype in [F32, F64, BF16] if size == 7 and n == 2 else [F32]:
                case("interpolate", [data(*shape, dtype=dtype)], lambda x: F.interpolate(x, size=size, mode=mode, **corners), [kind, size, None], **NEAR)
        for scale in scales:
            case("interpolate", [data(*shape)], lambda x: F.interpolate(x, scale_factor=scale, mode=mode, **corners), [kind, None, scale], **NEAR)
x = data(1, 2, 4, 5)
case("interpolate", [data(1, 2, 3, 3, dtype=I64)], lambda x: F.interpolate(x.double(), size=5).long(), ["nearest", 5, None])
refused("interpolate", [data(2, 3)], ["nearest", 2, None], "interpolate: wants [batch, channels, ..]")
refused("interpolate", [data(1, 1, 4, dtype=I64)], ["linear", 2, None], "wants floats, not i64")
refused("interpolate", [data(1, 1, 4)], ["cubic", 2, None], "cubic wants")
refused("interpolate", [x], ["nearest", [1, 2, 3], None], "neither one number nor one for each")
refused("interpolate", [x], ["nearest", 0, None], "must be at least 1")
refused("interpolate", [x], ["linear", None, 0.1], "do not give")
refused("interpolate", [data(1, 1, 0)], ["linear", 2, None], "is empty")

for kind, mode in [("nearest", "nearest"), ("linear", "bilinear"), ("cubic", "bicubic")]:
    for around, padding in [("zeros", "zeros"), ("replicate", "border"), ("reflect", "reflection")]:
        for corners in [False, True]:
            grid = data(2, 3, 4, 2, low=-1.6, high=1.6) + 1 / 1024
            case("grid_sample", [data(2, 3, 4, 5), grid], lambda x, g: F.grid_sample(x, g, mode, padding, corners), [kind, around, corners], **NEAR,
                 only=None if kind != "nearest" else [0])
            if kind != "cubic":
                grid = data(1, 2, 2, 3, 3, low=-1.6, high=1.6) + 1 / 1024
                case("grid_sample", [data(1, 2, 3, 4, 2), grid], lambda x, g: F.grid_sample(x, g, mode, padding, corners), [kind, around, corners], **NEAR,
                     only=None if kind != "nearest" else [0])
refused("grid_sample", [x, data(2, 3, 3, 2)], ["linear", "zeros", False], "do not belong together")
refused("grid_sample", [data(1, 1, 2, 2, 2), data(1, 2, 2, 2, 3)], ["cubic", "zeros", False], "sampling over 3 axes")
for corners in [False, True]:
    for shape in [(2, 1, 3, 4), (2, 5, 1, 2)]:
        case("affine_grid", [data(2, 2, 3)], lambda t: F.affine_grid(t, shape, corners), [shape, corners], **NEAR)
    case("affine_grid", [data(2, 3, 4)], lambda t: F.affine_grid(t, (2, 1, 2, 3, 2), corners), [(2, 1, 2, 3, 2), corners], **NEAR)
refused("affine_grid", [data(2, 2, 2)], [(2, 1, 3, 3), True], "do not belong to")

for kernel, o in [(2, {}), ((2, 3), {"stride": (2, 1)}), (3, {"padding": 1}), (2, {"dilation": 2, "padding": (1, 0)}), (3, {"stride": 2, "padding": 1})]:
    columns = F.unfold(data(1, 2, 6, 5), kernel, **o).shape
    case("im2col", [data(2, 2, 6, 5)], lambda x: F.unfold(x, kernel, **o), [kernel, o])
    case("fold", [data(2, columns[1], columns[2])], lambda x: F.fold(x, (6, 5), kernel, **o), [kernel, o, (6, 5)], **NEAR)
refused("im2col", [data(2, 3)], [2, {}], "wants [batch, channels, height, width]")
refused("fold", [data(1, 4, 5)], [2, {}, (3, 3)], "wants [batch, channels * 4, 4]")
for size in [1, 2, 3, 5]:
    for shape in [(2, 6, 3), (1, 4, 2, 2)]:
        case("local_response_norm", [data(*shape)], lambda x: F.local_response_norm(x, size, 0.3, 0.75, 1.5), [size, 0.3, 0.75, 1.5], **NEAR)
