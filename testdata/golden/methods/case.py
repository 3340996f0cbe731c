"""What a case is: a method, its arguments and inputs, what comes out, and the gradients of the inputs.

Float results are computed in f64 from the very inputs and rounded once, so that they are the exact results and the
tolerances are kiln's own. A tolerance is `("ulp", k)`, units in the last place of the result, where the sign of a zero
counts too, or `("abs", k)`, units of the dtype's rounding error at 1, or at the result where that is larger. Gradients
are those of the outputs' sum under the weights of `weights`. Arrays are as in ../compact.py.
"""

import gzip
import json
import math
import os
import warnings

import numpy as np
import torch

warnings.simplefilter("ignore")
np.seterr(all="ignore")
torch.set_num_threads(1)

NAMES = {torch.bool: "bool", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
         torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.float16: "f16",
         torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I8, I16, I32, I64, U8, BOOL = torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool
WEIGHTS = torch.tensor([0.5, -1.0, 1.5, 0.25, -0.75, 2.0, -0.5], dtype=F64)

rng = np.random.default_rng(11)
START = rng.bit_generator.state
cases = []


def t(values, dtype=F32):
    """A tensor of `dtype`, rounded from f64 once."""
    a = np.asarray(values)
    if a.dtype == np.float32 or a.dtype == np.float16:
        a = a.astype(np.float64)
    return torch.tensor(a).to(dtype)


def data(*shape, dtype=F32, low=-2.0, high=2.0):
    """Numbers of few digits, of which few are equal."""
    if dtype == BOOL:
        return torch.tensor(rng.integers(0, 2, shape)).to(BOOL)
    if not dtype.is_floating_point:
        low, high = (low, high) if (low, high) != (-2.0, 2.0) else (0 if dtype == U8 else -9, 10)
        return torch.tensor(rng.integers(int(low), int(high), shape)).to(dtype)
    return torch.tensor(np.round(rng.uniform(low, high, shape) * 256) / 256).to(dtype)


def number(x, dtype):
    if not dtype.is_floating_point:
        return int(x)
    x = float(x)
    if not math.isfinite(x):
        return str(x)
    digits = {F16: 6, BF16: 5, F32: 9, F64: 17}[dtype]
    return float(f"{x:.{digits}g}") if dtype != F64 else x


def packed(a):
    if a.dtype in (torch.uint16, torch.uint32, torch.uint64):
        values = a.numpy().ravel().tolist()
    else:
        values = a.reshape(-1).tolist()
    return [NAMES[a.dtype], list(a.shape), [number(x, a.dtype) for x in values]]


def weights(n, shift):
    """The weights of the elements of the output number `shift`."""
    return WEIGHTS[(torch.arange(n) + shift) % len(WEIGHTS)]


def meeting(dtypes):
    """The dtype of float results."""
    floats = [d for d in dtypes if d.is_floating_point]
    result = floats[0] if floats else F32
    for d in floats[1:]:
        result = torch.promote_types(result, d)
    return result


def case(method, inputs, f, args=(), tol=("ulp", 0), slope=None, grad=True, out=None, only=None):
    """`f` of the inputs in f64. `slope` is the tolerance of gradients, `out` the dtype of float results, `only` the
    inputs that have gradients."""
    leaves = [x.to(F64).clone() if x.dtype.is_floating_point else x for x in inputs]
    marked = [x for i, x in enumerate(leaves) if x.dtype == F64 and grad and (only is None or i in only)]
    for x in marked:
        x.requires_grad_(True)
    result = f(*leaves)
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    dtype = out or (meeting([x.dtype for x in inputs]) if inputs else outputs[0].dtype)
    entry = {"m": method, "a": list(args), "x": [packed(x) for x in inputs]}
    entry["y"] = [packed(rounded(y.detach(), dtype)) for y in outputs]
    entry["t"] = list(tol)
    slopes = gradients(outputs, marked)
    if any(g is not None for g in slopes):
        slopes = {id(x): g for x, g in zip(marked, slopes)}
        entry["g"] = [None if slopes.get(id(x)) is None else packed(slopes[id(x)].to(i.dtype))
                      for x, i in zip(leaves, inputs)]
        entry["s"] = list(slope or (("ulp", 4 * tol[1] + 8) if tol[0] == "ulp" else ("abs", 4 * tol[1] + 16)))
    cases.append(entry)


def rounded(y, dtype):
    return y.to(dtype) if y.dtype.is_floating_point else y.clone()


def gradients(outputs, marked):
    floats = [(i, y) for i, y in enumerate(outputs) if y.dtype == F64 and y.requires_grad]
    if not marked or not floats:
        return [None] * len(marked)
    total = sum((y.reshape(-1) * weights(y.numel(), i)).sum() for i, y in floats)
    total.backward()
    return [x.grad for x in marked]


def refused(method, inputs, args, why):
    """A call that is an error which says `why`."""
    cases.append({"m": method, "a": list(args), "x": [packed(x) for x in inputs], "e": why})


def write(folder, subject):
    path = os.path.join(folder, subject + ".json.gz")
    lines = "\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    with open(path, "wb") as f:
        # without a time, so that the same cases are the same file
        f.write(gzip.compress(lines.encode(), mtime=0))
    print(subject, len(cases), "cases", os.path.getsize(path), "bytes")
    cases.clear()
    rng.bit_generator.state = START  # a subject's data does not depend on the others
