"""Writes fp8.json: what PyTorch makes of floats of eight bits, and of other floats in eight bits.

    pip install -r requirements.txt && python fp8.py

For each dtype `decoded` are the f32 of all 256 bytes, and `encoded` the bytes of `inputs`, which are f32: numbers half way
between neighbours and beside these, others of all sizes, and special ones. All are hexadecimal, little-endian.
"""

import json
import os

import numpy as np
import torch

DTYPES = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2, "f8e4m3fnuz": torch.float8_e4m3fnuz,
          "f8e5m2fnuz": torch.float8_e5m2fnuz}
HERE = os.path.dirname(os.path.abspath(__file__))

rng = np.random.default_rng(5)
every = torch.arange(256).to(torch.uint8)
decoded = {name: every.view(dtype).float() for name, dtype in DTYPES.items()}
edges = []
for numbers in decoded.values():
    x = np.unique(numbers[numbers.isfinite()].numpy())
    half = (x[1:] + x[:-1]) / np.float32(2)
    beyond = np.array([x[-1] + (x[-1] - x[-2]) / 2, x[-1] * 2, x[-1] * 1000], np.float32)
    for part in [half, beyond, -beyond]:
        edges += [part, np.nextafter(part, np.float32(np.inf)), np.nextafter(part, -np.float32(np.inf))]
special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, 1e-10, -1e-10], np.float32)
spread = (rng.standard_normal(400) * np.exp2(rng.integers(-22, 20, 400))).astype(np.float32)
inputs = np.concatenate([*edges, special, spread])

result = {"inputs": inputs.tobytes().hex()}
for name, dtype in DTYPES.items():
    encoded = torch.from_numpy(inputs).to(dtype).view(torch.uint8).numpy()
    result[name] = {"decoded": decoded[name].numpy().tobytes().hex(), "encoded": encoded.tobytes().hex()}
with open(os.path.join(HERE, "fp8.json"), "w") as file:
    json.dump(result, file, indent=0)
    file.write("\n")
