"""Writes training.json: what optimizers do to a parameter in ten steps, what clipping leaves of gradients, and the learning
rates of schedules.

    pip install -r requirements.txt && python training.py

The parameter is [3, 2] in f64, its loss `sum(w^4 / 4 + w)`. Lion, LARS and LAMB are not in PyTorch: they are written
out here from their papers.
"""

import json
import os

import torch

torch.set_default_dtype(torch.float64)
START = [[1.5, -2.0], [0.25, 3.0], [-0.75, 0.5]]
O, S = torch.optim, torch.optim.lr_scheduler


class Written:
    """An optimizer that is one function of the parameter, its gradient and the number of the step."""

    def __init__(self, w, update):
        self.w, self.update, self.t = w, update, 0

    def step(self):
        self.t += 1
        with torch.no_grad():
            self.update(self.w, self.w.grad, self.t)


def lion(w, lr, b1, b2, decay):
    m = torch.zeros_like(w)

    def update(w, g, t):
        direction = (b1 * m + (1 - b1) * g).sign()
        w.copy_(w - lr * (direction + decay * w))
        m.copy_(b2 * m + (1 - b2) * g)
    return Written(w, update)


def lars(w, lr, momentum, trust, decay):
    v = torch.zeros_like(w)

    def update(w, g, t):
        rate = trust * w.norm() / (g.norm() + decay * w.norm())
        v.copy_(momentum * v + lr * rate * (g + decay * w))
        w.copy_(w - v)
    return Written(w, update)


def lamb(w, lr, b1, b2, eps, decay):
    m, v = torch.zeros_like(w), torch.zeros_like(w)

    def update(w, g, t):
        m.copy_(b1 * m + (1 - b1) * g)
        v.copy_(b2 * v + (1 - b2) * g * g)
        r = (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + eps) + decay * w
        w.copy_(w - lr * (w.norm() / r.norm()) * r)
    return Written(w, update)


OPTIMIZERS = {
    "sgd": lambda w: O.SGD([w], 0.02),
    "sgd momentum": lambda w: O.SGD([w], 0.02, momentum=0.7, weight_decay=0.1),
    "sgd nesterov": lambda w: O.SGD([w], 0.02, momentum=0.7, weight_decay=0.1, nesterov=True),
    "adam": lambda w: O.Adam([w], 0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.5),
    "adamw": lambda w: O.AdamW([w], 0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.05),
    "rmsprop": lambda w: O.RMSprop([w], 0.05),
    "rmsprop momentum": lambda w: O.RMSprop([w], 0.05, alpha=0.9, eps=1e-6, momentum=0.5, weight_decay=0.1),
    "rmsprop centered": lambda w: O.RMSprop([w], 0.05, alpha=0.9, momentum=0.5, centered=True),
    "adagrad": lambda w: O.Adagrad([w], 0.2, lr_decay=0.1, weight_decay=0.1, eps=1e-6),
    "radam": lambda w: O.RAdam([w], 0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "nadam": lambda w: O.NAdam([w], 0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, momentum_decay=0.01),
    "muon": lambda w: O.Muon([w], 0.1),
    "muon plain": lambda w: O.Muon([w], 0.1, nesterov=False, momentum=0.8, weight_decay=0.01, ns_steps=3),
    "adam amsgrad": lambda w: O.Adam([w], 0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.5, amsgrad=True),
    "adamax": lambda w: O.Adamax([w], 0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "adadelta": lambda w: O.Adadelta([w], 0.7, rho=0.8, eps=1e-4, weight_decay=0.1),
    "rprop": lambda w: O.Rprop([w], 0.3, etas=(0.4, 1.3), step_sizes=(0.01, 0.6)),
    "lion": lambda w: lion(w, 0.05, 0.8, 0.95, 0.1),
    "lars": lambda w: lars(w, 0.5, 0.8, 0.05, 0.1),
    "asgd": lambda w: O.ASGD([w], 0.2, lambd=0.1, alpha=0.6, t0=3, weight_decay=0.1),
    "lamb": lambda w: lamb(w, 0.1, 0.8, 0.95, 1e-6, 0.1),
}


def trained(make):
    w = torch.tensor(START, requires_grad=True)
    opt, values = make(w), []
    for _ in range(10):
        w.grad = None
        (w**4 / 4 + w).sum().backward()
        opt.step()
        values.append(w.detach().flatten().tolist())
    return values


SCHEDULES = {
    "step": lambda o: S.StepLR(o, 3, 0.5),
    "multistep": lambda o: S.MultiStepLR(o, [4, 5, 11], 0.3),
    "exponential": lambda o: S.ExponentialLR(o, 0.9),
    "linear": lambda o: S.LinearLR(o, 0.25, 0.75, 6),
    "cosine": lambda o: S.CosineAnnealingLR(o, 12, 0.01),
    "one cycle": lambda o: S.OneCycleLR(o, 0.4, total_steps=20, pct_start=0.35, div_factor=10, final_div_factor=50,
                                        cycle_momentum=False),
    "sequential": lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 100), S.ExponentialLR(o, 0.9), S.StepLR(o, 2, 0.5)], [4, 9]),
    "constant": lambda o: S.ConstantLR(o, 0.25, 5),
    "polynomial": lambda o: S.PolynomialLR(o, 12, 2.0),
    "restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "restarts alike": lambda o: S.CosineAnnealingWarmRestarts(o, 4),
    "cyclic": lambda o: S.CyclicLR(o, 0.1, 0.4, 4, 3, cycle_momentum=False),
    "cyclic halved": lambda o: S.CyclicLR(o, 0.1, 0.4, 3, mode="triangular2", cycle_momentum=False),
    "cyclic falling": lambda o: S.CyclicLR(o, 0.1, 0.4, 3, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "lambda": lambda o: S.LambdaLR(o, lambda t: 1 / (1 + t)),
}
MEASURED = [3.0, 2.0, 2.0, 1.9999, 2.5, 1.5, 1.6, 1.7, 1.8, 1.9, 1.4, 1.5, 1.5, 1.5, 1.5, float("nan"), 1.5, 1.5, 1.5, 1.5]


def rates(make):
    opt = O.SGD([torch.zeros(1)], 0.2)
    schedule, values = make(opt), []
    for _ in range(20):
        values.append(opt.param_groups[0]["lr"])
        opt.step()
        if len(values) < 20:
            schedule.step()
    return values


def plateau(sign):
    opt = O.SGD([torch.zeros(1)], 0.2)
    schedule = S.ReduceLROnPlateau(opt, "min" if sign > 0 else "max", 0.5, patience=2, cooldown=1, min_lr=0.02)
    values = []
    for measured in MEASURED:
        schedule.step(measured if sign > 0 else 4 - measured)
        values.append(opt.param_groups[0]["lr"])
    return values


def clipped(most, p):
    a, b = torch.zeros(2), torch.zeros(3)
    a.grad, b.grad = torch.tensor([3.0, -0.5]), torch.tensor([0.25, 2.0, -4.0])
    norm = torch.nn.utils.clip_grad_norm_([a, b], most, norm_type=p)
    return [norm.item()] + a.grad.tolist() + b.grad.tolist()


# Newton-Schulz in f64: PyTorch computes it in bf16, of which no digit could be compared
torch.bfloat16 = torch.float64
golden = {
    "optimizers": {name: trained(make) for name, make in OPTIMIZERS.items()},
    "schedules": {name: rates(make) for name, make in SCHEDULES.items()},
    "measured": [None if m != m else m for m in MEASURED],
    "plateau": plateau(1),
    "plateau rising": plateau(-1),
    "clipped": [[most, p, clipped(most, p)] for most, p in [(1.0, 2.0), (100.0, 2.0), (1.0, 1.0), (2.0, 3.0)]],
    "clipped by the largest": clipped(1.0, float("inf")),
}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "training.json")
with open(path, "w") as f:
    json.dump(golden, f, separators=(",", ":"))
    f.write("\n")
