"""Losses, under every reduction."""

import torch.nn.functional as F

from case import *

NEAR = dict(tol=("abs", 64), slope=("abs", 256))
REDUCE = ["mean", "sum", "none"]
SHAPES = [(5,), (2, 3), (2, 1, 3), ()]


def each(method, f, args=(), low=-2.0, target=dict(), dtypes=FLOATS, shapes=SHAPES, only=None):
    for i, shape in enumerate(shapes):
        for dtype in dtypes if i == 1 else [F32]:
            x, y = data(*shape, dtype=dtype, low=low), data(*shape, dtype=dtype, **target)
            for reduction in REDUCE:
                case(method, [x, y], lambda x, y: f(x, y, reduction), [reduction, *args], only=only, **NEAR)


each("mse_loss", lambda x, y, r: F.mse_loss(x, y, reduction=r))
each("l1_loss", lambda x, y, r: F.l1_loss(x, y, reduction=r))
for delta in [0.5, 1.0, 3.0]:
    each("huber_loss", lambda x, y, r: F.huber_loss(x, y, reduction=r, delta=delta), [delta])
for beta in [0.0, 0.5, 2.0]:
    each("smooth_l1_loss", lambda x, y, r: F.smooth_l1_loss(x, y, reduction=r, beta=beta), [beta])
for log_target in [False, True]:
    each("kl_div", lambda x, y, r: F.kl_div(x, y, reduction=r, log_target=log_target), [log_target], target=dict(low=0.1, high=1.0))
case("kl_div", [data(3), t([0.0, 1.0, 0.5])], lambda x, y: F.kl_div(x, y, reduction="none"), ["none", False], only=[0], **NEAR)
unit = dict(low=0.05, high=0.95)
for reduction in REDUCE:
    for shape in SHAPES:
        for dtype in FLOATS:
            p, y = data(*shape, dtype=dtype, **unit), data(*shape, dtype=dtype, **unit)
            # the slopes are quotients by a share of 0.05
            near = dict(tol=("abs", 128), slope=("abs", 2048))
            case("binary_cross_entropy", [p, y], lambda p, y: F.binary_cross_entropy(p, y, reduction=reduction), [reduction], only=[0], **near)
            x = data(*shape, dtype=dtype, low=-6, high=6)
            case("bce_logits", [x, y], lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction=reduction), [reduction], only=[0], **NEAR)
    case("bce_logits_weighted", [data(2, 3), data(2, 3, **unit), data(3, low=0.5)],
         lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, reduction=reduction, pos_weight=w), [reduction], only=[0], **NEAR)
    case("binary_cross_entropy", [t([0.0, 1.0, 1.0, 0.0]), t([0.0, 1.0, 0.0, 1.0])],
         lambda p, y: F.binary_cross_entropy(p, y, reduction=reduction), [reduction], grad=False, **NEAR)
    case("bce_logits", [t([800.0, -800.0, 800.0]), t([1.0, 0.0, 0.0])], lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction=reduction),
         [reduction], only=[0], **NEAR)
    for dtype in FLOATS:
        x, y, v = data(2, 3, dtype=dtype), data(2, 3, dtype=dtype), data(2, 3, dtype=dtype, low=0.25)
        case("poisson_nll_loss", [x, y], lambda x, y: F.poisson_nll_loss(x, y, reduction=reduction), [reduction], **NEAR)
        case("gaussian_nll_loss", [x, y, v], lambda x, y, v: F.gaussian_nll_loss(x, y, v, reduction=reduction), [reduction], tol=("abs", 256), slope=("abs", 2048))
        signs = torch.tensor([[1, -1, 1], [-1, -1, 1]])
        for margin in [0.5, 1.0]:
            case("hinge_embedding_loss", [x, signs], lambda x, s: F.hinge_embedding_loss(x, s, margin, reduction=reduction), [reduction, margin], **NEAR)
            case("margin_ranking_loss", [x, y, signs], lambda x, y, s: F.margin_ranking_loss(x, y, s, margin, reduction=reduction), [reduction, margin], **NEAR)
            a, n, f = data(4, 3, dtype=dtype), data(4, 3, dtype=dtype), data(4, 3, dtype=dtype)
            for p in [1.0, 2.0]:
                if dtype in (F32, F64):
                    case("triplet_margin_loss", [a, n, f], lambda a, n, f: F.triplet_margin_loss(a, n, f, margin, p, reduction=reduction),
                         [reduction, margin, p], tol=("abs", 128), slope=("abs", 512))
            case("cosine_embedding_loss", [a, n, torch.tensor([1, -1, 1, -1])], lambda a, n, s: F.cosine_embedding_loss(a, n, s, margin - 0.5, reduction=reduction),
                 [reduction, margin - 0.5], tol=("abs", 64 if dtype in (F32, F64) else 8), slope=("abs", 512 if dtype in (F32, F64) else 32))
        case("soft_margin_loss", [x, signs], lambda x, s: F.soft_margin_loss(x, s, reduction=reduction), [reduction], **NEAR)
for dtype in [F32, F64]:
    for a, axis in [((2, 3), 1), ((2, 3), 0), ((4,), 0), ((2, 1, 3), -1)]:
        case("cosine_similarity", [data(*a, dtype=dtype), data(*a, dtype=dtype)], lambda x, y: F.cosine_similarity(x, y, axis), [axis], tol=("abs", 64), slope=("abs", 512))
    case("pairwise_distance", [data(3, 4, dtype=dtype), data(3, 4, dtype=dtype)], lambda x, y: F.pairwise_distance(x, y, 2.0), [2.0], tol=("abs", 64), slope=("abs", 128))
refused("mse_loss", [data(2), data(3)], ["mean"], "mse_loss: shapes do not broadcast")

# classes
for reduction in REDUCE:
    for shape in [(3, 4), (2, 5, 3), (4,), (2, 3, 2, 2), (1, 1)]:
        axis = 1 if len(shape) > 1 else 0
        classes = shape[axis]
        lshape = [n for i, n in enumerate(shape) if i != axis]
        for dtype in FLOATS:
            x = data(*shape, dtype=dtype)
            labels = torch.tensor(rng.integers(0, classes, lshape))
            weight = data(classes, dtype=dtype, low=0.5)
            for smoothing in [0.0, 0.25]:
                args = [reduction, None, smoothing]
                case("cross_entropy", [x, labels], lambda x, y: F.cross_entropy(x, y, reduction=reduction, label_smoothing=smoothing), args, **NEAR)
                case("cross_entropy_weighted", [x, labels, weight], lambda x, y, w: F.cross_entropy(x, y, w, reduction=reduction, label_smoothing=smoothing), args, only=[0], **NEAR)
                if len(lshape) and classes > 1:
                    ignored = labels.clone()
                    ignored.view(-1)[0] = -100
                    case("cross_entropy", [x, ignored], lambda x, y: F.cross_entropy(x, y, reduction=reduction, label_smoothing=smoothing), [reduction, -100, smoothing], **NEAR)
                    first = int(labels.view(-1)[0])
                    if bool((labels != first).any()):
                        case("cross_entropy_weighted", [x, labels, weight],
                             lambda x, y, w: F.cross_entropy(x, y, w, ignore_index=first, reduction=reduction, label_smoothing=smoothing),
                             [reduction, first, smoothing], only=[0], **NEAR)
                shares = torch.softmax(data(*shape).double(), axis).to(dtype)
                case("cross_entropy", [x, shares], lambda x, y: F.cross_entropy(x, y, reduction=reduction, label_smoothing=smoothing), args, only=[0], **NEAR)
                case("cross_entropy_weighted", [x, shares, weight], lambda x, y, w: F.cross_entropy(x, y, w, reduction=reduction, label_smoothing=smoothing), args, only=[0], **NEAR)
            case("nll_loss", [x, labels], lambda x, y: F.nll_loss(x, y, reduction=reduction), [reduction, None, 0.0], **NEAR)
            case("nll_loss_weighted", [x, labels, weight], lambda x, y, w: F.nll_loss(x, y, w, reduction=reduction), [reduction, None, 0.0], only=[0], **NEAR)
case("cross_entropy", [t([[1.0, -math.inf, 2.0]]), torch.tensor([0])], F.cross_entropy, ["mean", None, 0.0], grad=False, **NEAR)
case("cross_entropy", [t([[1000.0, -1000.0, 2.0]]), torch.tensor([1])], F.cross_entropy, ["mean", None, 0.0], **NEAR)
refused("cross_entropy", [data(2, 3), torch.tensor([0, 1, 2])], ["mean", None, 0.0], "along axis 1, so labels are [2], not [3]")
refused("cross_entropy", [data(2, 3), torch.tensor([0, 1])], ["mean", None, 1.5], "a smoothing of 1.5 is no share")
refused("cross_entropy_weighted", [data(2, 3), torch.tensor([0, 1]), data(2)], ["mean", None, 0.0], "weights [2] are not those of the classes of [2, 3]")
refused("cosine_similarity", [data(2, 3), data(2, 3)], [2], "cosine_similarity: axis 2 is out of range")
# squares that do not fit f16
case("cosine_embedding_loss", [data(2, 3, dtype=F16) * 100, data(2, 3, dtype=F16) * 100, torch.tensor([1, -1])],
     lambda a, n, s: F.cosine_embedding_loss(a, n, s, reduction="none"), ["none", 0.0], tol=("abs", 8), slope=("abs", 32))
refused("cosine_embedding_loss", [data(), data(), torch.tensor(1)], ["mean", 0.0], "cosine_embedding_loss: axis -1 is out of range")
refused("triplet_margin_loss", [data(), data(), data()], ["mean", 1.0, 2.0], "triplet_margin_loss: axis -1 is out of range")
refused("huber_loss", [data(2), data(3)], ["sum", 1.0], "huber_loss: shapes do not broadcast")
refused("binary_cross_entropy", [data(2), data(3)], ["sum"], "binary_cross_entropy: shapes do not broadcast")
refused("nll_loss", [data(2, 3), data(2)], ["sum", None, 0.0], "wants integers, not f32")

# sequences of labels
def sequences(logs, targets, steps, labels, blank=0, zero=False, reductions=["none"], **more):
    for reduction in reductions:
        case("ctc_loss", [logs, targets, torch.tensor(steps), torch.tensor(labels)],
             lambda x, y, s, n: F.ctc_loss(x, y.long(), s.long(), n.long(), blank, reduction, zero), [reduction, blank, zero], **{**NEAR, **more})


def logs_of(*shape, dtype=F32):
    return torch.log_softmax(data(*shape, dtype=F64), -1).to(dtype)


for dtype in FLOATS:
    # lengths of all kinds: repeated labels, none, no steps, as many as there are
    sequences(logs_of(6, 4, 5, dtype=dtype), torch.tensor([[1, 2, 2], [3, 3, 4], [4, -1, 99], [0, 0, 0]]), [6, 5, 4, 6], [3, 3, 1, 0],
              reductions=REDUCE)
for blank in [0, 2, 3]:
    labels = torch.tensor([c for c in range(4) if c != blank])
    sequences(logs_of(7, 2, 4), labels[torch.tensor([[0, 1, 1, 2], [2, 0, 2, 2]])], [7, 6], [4, 2], blank)
    sequences(logs_of(7, 3, 4), labels[torch.tensor([0, 1, 1, 2, 0, 2])], [7, 5, 3], [3, 1, 2], blank)
    sequences(logs_of(5, 4), labels[torch.tensor([0, 2])], 5, 2, blank)
    sequences(logs_of(1, 1, 4), labels[:1].unsqueeze(0), [1], [1], blank)
for zero in [False, True]:
    # labels that do not fit: too many, or repeated ones without a step for the blank between
    sequences(logs_of(3, 3, 3), torch.tensor([[1, 1, 2, 1], [1, 1, 0, 0], [1, 2, 0, 0]]), [3, 2, 3], [4, 2, 2], zero=zero)
    sequences(logs_of(3, 3, 3), torch.tensor([1, 1, 2, 1, 1, 1, 2]), [3, 2, 3], [4, 2, 1], zero=zero)
    sequences(logs_of(3, 2, 3), torch.tensor([[1], [2]]), [3, 0], [1, 0], zero=zero)
    sequences(logs_of(3, 2, 3), torch.zeros([2, 0], dtype=I64), [3, 2], [0, 0], zero=zero)
# logarithms of what adds up to no 1, and classes that cannot be
sequences(data(4, 2, 3), torch.tensor([[1, 2], [2, 2]]), [4, 3], [2, 1])
sequences(t(np.log([[[0.5, 0.5, 0.0]], [[0.0, 0.5, 0.5]], [[0.25, 0.75, 0.0]]])), torch.tensor([[1]]), [3], [1], grad=False)
sequences(t(np.log([[[0.5, 0.5, 0.0]], [[0.0, 0.5, 0.5]], [[0.25, 0.75, 0.0]]])), torch.tensor([[2, 2]]), [3], [2])
refused("ctc_loss", [data(3, 2, 4), torch.tensor([[1], [2], [3]]), torch.tensor([3, 3]), torch.tensor([1, 1])], ["sum", 0, False],
        "ctc_loss: targets [3, 1] do not belong to [3, 2, 4]")
refused("ctc_loss", [data(3, 2, 4), torch.tensor([[1], [2]]), torch.tensor([3]), torch.tensor([1, 1])], ["sum", 0, False], "wants 2 lengths, not [1]")
refused("ctc_loss", [data(3, 2, 4), torch.tensor([[1], [2]]), torch.tensor([3, 3]), torch.tensor([1, 1])], ["sum", 4, False], "the blank 4 is none of 4 classes")
refused("ctc_loss", [data(3, 2, 4), data(2, 1), torch.tensor([3, 3]), torch.tensor([1, 1])], ["sum", 0, False], "wants integers as targets and lengths, not f32")
