"""Writes resnet.json: what PyTorch computes with ResNet-18, in f64, from numbers that crates/kiln/benches/resnet/model.rs
makes too.

    pip install -r resnet-requirements.txt && python resnet.py

For each case: logits (every 20th of 1000 classes) at some batches, and one training step: the loss, for each parameter's gradient
three numbers (its norm, its product with the formula's numbers for its name, and its first element), the running
statistics likewise, and the loss of the next step. `float32` is how far PyTorch's own f32 is off: the logits by the
largest of them, gradients by their norms.
"""

import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def formula(name, n):
    """Numbers between -1 and 1 that look random and follow from a name."""
    seed = 0x811C9DC5
    for byte in name.encode():
        seed = (seed ^ byte) * 0x01000193 & 0xFFFFFFFF
    x = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(seed)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return ((x ^ (x >> np.uint32(16))) >> np.uint32(8)).astype(np.float64) / (1 << 23) - 1


def filled(name, shape):
    if len(shape) > 1:
        center, scale = 0.0, (6.0 / int(np.prod(shape[1:]))) ** 0.5
    elif name.endswith(("weight", "var")):
        center, scale = 1.0, 0.25
    else:
        center, scale = 0.0, 0.1
    values = center + scale * formula(name, int(np.prod(shape)))
    return torch.tensor(values.astype(np.float32).reshape(shape))


class Downsample(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.bn(self.conv(x))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample = Downsample(inputs, outputs, stride) if stride > 1 or inputs != outputs else None

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        def layer(inputs, outputs, stride):
            return nn.ModuleList([Block(inputs, outputs, stride), Block(outputs, outputs, 1)])
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.layer1, self.layer2 = layer(width, width, 1), layer(width, 2 * width, 2)
        self.layer3, self.layer4 = layer(2 * width, 4 * width, 2), layer(4 * width, 8 * width, 2)
        self.fc = nn.Linear(8 * width, classes)
        state = self.state_dict()
        self.load_state_dict({k: filled(k, v.shape) if v.is_floating_point() else v for k, v in state.items()})

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for layer in [self.layer1, self.layer2, self.layer3, self.layer4]:
            for block in layer:
                x = block(x)
        return self.fc(x.mean((2, 3)))


def images(batch, size):
    values = formula("images", batch * 3 * size * size) * 1.75
    return torch.tensor(values.astype(np.float32).reshape(batch, 3, size, size))


def labels(batch, classes):
    return torch.tensor([(i * 37 + 11) % classes for i in range(batch)])


def numbers(name, x):
    flat = x.detach().double().numpy().reshape(-1)
    return [float(np.linalg.norm(flat)), float(flat @ formula(name, flat.size)), float(flat[0])]


def inference(case, dtype):
    model = ResNet(case["width"], case["classes"]).to(dtype).eval()
    with torch.no_grad():
        return [model(images(n, case["size"]).to(dtype))[:, ::case["every"]].double().tolist() for n in case["batches"]]


def training(case, dtype):
    model = ResNet(case["width"], case["classes"]).to(dtype).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
    x, y = images(case["train"], case["size"]).to(dtype), labels(case["train"], case["classes"])
    losses = []
    for _ in range(2):
        loss = F.cross_entropy(model(x), y)
        losses.append(loss.item())
        if len(losses) == 1:
            loss.backward()
            grads = {name: numbers(name, p.grad) for name, p in model.named_parameters()}
            running = {name: numbers(name, b) for name, b in model.named_buffers() if b.is_floating_point()}
            optimizer.step()
    return {"losses": losses, "grads": grads, "running": running}


def computed(case):
    logits, step = inference(case, torch.float64), training(case, torch.float64)
    narrow, steps = inference(case, torch.float32), training(case, torch.float32)
    largest = max(np.abs(np.array(b)).max() for b in logits)
    off = max(np.abs(np.array(a) - np.array(b)).max() for a, b in zip(logits, narrow))
    grad = max(abs(a - b) / g[0] for k, g in step["grads"].items() for a, b in zip(g, steps["grads"][k]))
    losses = [abs(a - b) / a for a, b in zip(step["losses"], steps["losses"])]
    return case | {"logits": logits, "step": step, "float32": {"logits": off / largest, "grads": grad, "losses": losses}}


def rounded(x):
    """Ten digits are more than f32 has."""
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    if isinstance(x, list):
        return [rounded(v) for v in x]
    return float(f"{x:.10g}") if isinstance(x, float) else x


if __name__ == "__main__":
    small = {"width": 16, "classes": 20, "every": 1, "size": 64, "batches": [2], "train": 4}
    full = {"width": 64, "classes": 1000, "every": 20, "size": 224, "batches": [1, 8], "train": 8}
    written = {"torch": torch.__version__, "small": computed(small), "full": computed(full)}
    with open(sys.argv[1] if len(sys.argv) > 1 else "resnet.json", "w") as f:
        json.dump(rounded(written), f, separators=(",", ":"))
        f.write("\n")
    print({k: written[k]["float32"] for k in ["small", "full"]})
