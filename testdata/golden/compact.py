"""How the scripts of this folder write arrays and indices, one case a line.

An array is `[dtype, shape, data]`; without data it counts 0, 1, 2, .. (bool: every third is true). An index is a number,
a slice `"start:stop:step"`, `"..."`, `"new"`, an array, or a list of numbers.
"""

import json
import math
import os

import numpy as np

NAMES = {"bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
         "uint32": "u32", "uint64": "u64", "float32": "f32", "float64": "f64"}
DTYPES = {short: np.dtype(long) for long, short in NAMES.items()}


def counting(dtype, shape):
    k = np.arange(math.prod(shape)).reshape(shape)
    return (k % 3 == 0) if dtype == "bool" else k.astype(DTYPES[dtype])


def number(x):
    x = float(str(x)) if isinstance(x, (float, np.floating)) else int(x)
    return int(x) if x == int(x) else x


def packed(a):
    a = np.asarray(a)
    short, shape = NAMES[a.dtype.name], list(a.shape)
    whole = a.size > 1 and np.array_equal(a, counting(short, shape))
    return [short, shape] if whole else [short, shape, [number(x) for x in a.ravel()]]


def spelled(index):
    def one(i):
        if isinstance(i, slice):
            ends = ["" if end is None else str(end) for end in (i.start, i.stop, i.step)]
            return ":".join(ends if i.step is not None else ends[:2])
        if isinstance(i, np.ndarray):
            return packed(i)
        return {None: "new", Ellipsis: "..."}[i] if i is None or i is Ellipsis else i
    return [one(i) for i in (index if isinstance(index, tuple) else (index,))]


def write(name, made_with, cases):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    with open(path, "w") as f:
        f.write(f'{{"made_with":"{made_with}","cases":[\n{lines}\n]}}\n')
    print(len(cases), "cases", os.path.getsize(path), "bytes")
