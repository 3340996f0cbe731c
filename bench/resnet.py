"""What `cargo bench -p kiln --bench resnet` does, in PyTorch with two threads: `python bench/resnet.py [steps]`."""

import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "testdata/golden"))
from resnet import F, ResNet, images, labels

torch.set_num_threads(2)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 8


def resident(which):
    """Memory of this process: what it has now (VmRSS), or the most that it ever had (VmHWM)."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1000 for line in lines if line.startswith(which))


def timed(what, f):
    start, busy = time.perf_counter(), time.process_time()
    value = f()
    took, busy = time.perf_counter() - start, time.process_time() - busy
    print(f"{what}: {value:.4f}, {took * 1e3:.1f} ms, of processors {busy * 1e3:.0f}", flush=True)


model = ResNet(64, 1000).train()
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
x, y = images(8, 224), labels(8, 1000)


def training_step():
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


print(f"resident before the first step: {resident('VmRSS')} MB")
for step in range(steps):
    timed(f"step {step}", training_step)
print(f"most ever resident, after training: {resident('VmHWM')} MB")
model.eval()
for batch in [1, 8]:
    x = images(batch, 224)
    with torch.no_grad():
        for _ in range(steps):
            timed(f"inference, batch {batch}", lambda: model(x)[0, 0].item())
