"""Where kiln's results are not PyTorch's in f64: by cause, element by element.

An excuse has a cause, and says for each result of a step which elements it is about and, where the cause decides it,
what they are instead: by another formula in f64, or by PyTorch's in the dtype. It says nothing of the other elements.
docs/book/src/coming-from.md has the decisions among the causes.
"""

import collections
import math

import case as cases
import numpy as np
import torch
import torch.nn.functional as F
from case import BF16, BOOL, F16, F32, F64, I64

EPS = {F16: 2.0 ** -11, BF16: 2.0 ** -8, F32: 2.0 ** -24, F64: 2.0 ** -53}
LEAST = {F16: 2.0 ** -24, BF16: 2.0 ** -133, F32: 2.0 ** -149, F64: 2.0 ** -1074}
NORMAL = {F16: 2.0 ** -14, BF16: 2.0 ** -126, F32: 2.0 ** -126, F64: 2.0 ** -1022}
INF, NAN = math.inf, math.nan
# of e, that f64 holds
LARGEST_POWER = math.log(torch.finfo(F64).max)

# a step's method, its inputs as kiln had them and in f64, its arguments, PyTorch's results and kiln's
Step = collections.namedtuple("Step", "method own wide args f want got")
# of one result: the elements, and what they are instead, or None
Part = collections.namedtuple("Part", "where value")
Excuse = collections.namedtuple("Excuse", "cause parts")
EXCUSES = collections.defaultdict(list)


def excuse(cause, *methods):
    """A function of a step that gives a `Part` or None for each result, or one for the first."""
    def note(parts):
        def all_of_them(step):
            given = parts(step)
            return given if isinstance(given, list) else [given]
        for method in methods:
            EXCUSES[method].append(Excuse(cause, all_of_them))
        return parts
    return note


def everywhere(value):
    """Another result, which every element may have."""
    return Part(torch.ones(value.shape, dtype=BOOL), value)


def most(own):
    """The largest number of the dtype that the inputs are computed in."""
    wide = {F16: F32, BF16: F32}
    dtype = cases.meeting([t.dtype for t in own])
    return torch.finfo(wide.get(dtype, dtype)).max


# numbers that are not finite


@excuse("the sign of NaN is NaN", "sign")
def sign_of_nan(s):
    return Part(s.wide[0].isnan(), torch.full_like(s.want[0], NAN))


@excuse("at -infinity the limit 0", "hardswish", "mish", "gelu_erf")
def limit(s):
    return Part(s.wide[0] == -INF, torch.zeros_like(s.want[0]))


@excuse("at infinity the limit, infinity", "i0")
def infinite_bessel(s):
    return Part(s.wide[0].isinf(), torch.full_like(s.want[0], INF))


@excuse("NaN has no sign", "signbit")
def no_sign(s):
    return Part(s.wide[0].isnan(), None)


@excuse("NaN has no sign", "copysign")
def no_sign_to_copy(s):
    return Part(s.wide[1].isnan().expand(s.want[0].shape), s.want[0].abs().copysign(s.got[0]))


@excuse("a factor of 0 multiplies", "addmm")
def multiplied(s):
    c, a, b = s.wide
    return everywhere(c * s.args[0] + a @ b * s.args[1])


@excuse("the mean of an infinity is infinite", "std_mean", "var_mean")
def infinite_mean(s):
    mean = s.wide[0].mean(s.args[0])
    return [None, Part(mean.isinf(), mean)]


@excuse("neighbours are added, instead of taking half of the ends off a sum", "trapezoid")
def neighbours(s):
    dx, axis = s.args
    x = s.wide[0].movedim(axis, -1)
    return everywhere((x[..., 1:] + x[..., :-1]).sum(-1) * dx / 2)


def reduced(losses, how):
    return losses if how == "none" else getattr(losses, how)()


@excuse("NaN propagates", "multi_margin_loss")
def margins(s):
    (x, labels), (how, p, margin) = s.wide, s.args
    behind = (x - x.gather(1, labels.unsqueeze(1)) + margin).relu() ** p
    is_right = torch.arange(x.shape[1]) == labels.unsqueeze(1)
    return everywhere(reduced(behind.masked_fill(is_right, 0.0).mean(1), how))


@excuse("NaN propagates", "multilabel_margin_loss")
def many_margins(s):
    (x, labels), (how,) = s.wide, s.args
    losses = []
    for row, own in zip(x, labels.tolist()):
        right = own[:own.index(-1)] if -1 in own else own
        wrong = [k for k in range(len(row)) if k not in right]
        losses.append((row[wrong] - row[right].unsqueeze(1) + 1).relu().sum() / len(row))
    return everywhere(reduced(torch.stack(losses), how))


@excuse("NaN is the largest distance", "cdist")
def farthest(s):
    if s.args[0] != "inf":
        return None
    return everywhere((s.wide[0].unsqueeze(-2) - s.wide[1].unsqueeze(-3)).abs().amax(-1))


@excuse("NaN is the last, and differs from NaN", "mode")
def mode_with_nan(s):
    x = s.wide[0].movedim(s.args[0], -1)

    def of_line(line):
        known = line[~line.isnan()]
        values, counts = known.unique(return_counts=True)
        return values[counts.argmax()] if len(known) else line[0]
    lines = [of_line(line) for line in x.reshape(-1, x.shape[-1])]
    modes = torch.stack(lines).reshape(s.want[0].shape) if lines else s.want[0]
    return Part(x.isnan().any(-1), modes)


def scores_of(s):
    """The scores of attention, -infinity where a mask hides; and which keys are seen without one."""
    (q, k, _, *mask), options = s.wide, s.args[0]
    if options.get("grouped"):
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    scores = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) * options.get("scale", q.shape[-1] ** -0.5)
    seen = torch.ones(scores.shape[-2:], dtype=BOOL)
    for m in mask:
        scores = scores.masked_fill(~m, -INF) if m.dtype == BOOL else scores + m
    return scores, seen.tril() if options.get("causal") else seen


def attended(s, scores, seen, least=0.0):
    """What keys with these scores give, of which the weights below `least` are 0."""
    v = s.wide[2]
    if s.args[0].get("grouped"):
        v = v.repeat_interleave(scores.shape[-3] // v.shape[-3], -3)
    scores = scores.masked_fill(~seen, -INF)
    weights = scores.softmax(-1)
    weights = weights.masked_fill(weights < least, 0.0)
    if len(s.own) > 3:
        weights = weights.masked_fill((scores == -INF).all(-1, keepdim=True), 0.0)
    products = weights.unsqueeze(-1) * v.unsqueeze(-3)
    return everywhere(products.masked_fill(~seen.unsqueeze(-1), 0.0).sum(-2))


@excuse("hidden keys are left out whatever they are, and a row of scores of -infinity is softmax's without a mask", "attention")
def attention(s):
    return attended(s, *scores_of(s))


@excuse("a weight underflows, and meets an infinity", "attention")
def small_weights(s):
    if s.own[0].dtype == F64 or not s.wide[2].isinf().any():
        return None
    return attended(s, *scores_of(s), LEAST[s.own[0].dtype] / 2)


@excuse("the sum of a score and a mask rounds", "attention")
def masked_scores(s):
    scores, seen = scores_of(s)
    dtype = s.own[0].dtype
    coarse = (scores.abs().nan_to_num(0.0, 0.0, 0.0).amax(-1, keepdim=True) * EPS[dtype] > 2.0 ** -10) & (len(s.own) > 3)
    return Part(coarse.expand(s.want[0].shape), attended(s, scores.to(dtype).to(F64), seen).value)


@excuse("of several NaN the first", *[f"{kind}max_pool{n}d_with_indices" for kind in ["", "adaptive_"] for n in "123"])
def first_nan(s):
    places = s.f(s.wide[0].isnan().to(F64))[1]
    return [None, Part(s.want[0].isnan(), places)]


@excuse("squares are multiplied, in another order where infinities meet", "matrix_power")
def squares(s):
    square, result, n = s.wide[0], None, s.args[0]
    while n:
        if n % 2:
            result = square if result is None else result @ square
        square, n = square @ square, n // 2
    x = s.wide[0]
    return None if result is None or x.isfinite().all() else everywhere(result)


# positions


def place(s):
    """The position along each axis, and how far rounding may move it."""
    x, grid = s.own
    lengths = torch.tensor(x.shape[:1:-1])
    at = (grid.to(F64) + 1) * (lengths - int(s.args[2])) / 2 - (0.5 if not s.args[2] else 0)
    return at, 8 * EPS[cases.meeting([grid.dtype])] * torch.maximum(at.abs(), lengths)


@excuse("a position that is no number is outside", "grid_sample")
def nowhere(s):
    where = (~torch.isfinite(s.wide[1])).any(-1).unsqueeze(1)
    return Part(where.expand(s.want[0].shape), torch.zeros_like(s.want[0]))


@excuse("rounding moves a position across the middle of two elements", "grid_sample")
def between_nearest(s):
    at, room = place(s)
    where = ((at - at.floor() - 0.5).abs() <= room).any(-1).unsqueeze(1) & (s.args[0] == "nearest")
    return Part(where.expand(s.want[0].shape), None)


@excuse("rounding leaves a position no fraction, beside infinite elements", "grid_sample")
def no_fraction(s):
    x, grid = s.wide
    strange = (~torch.isfinite(x)).flatten(2).any(-1).reshape(*x.shape[:2], *[1] * (x.dim() - 2))
    return Part((grid.abs() > 4096).any(-1).unsqueeze(1) & strange & ~s.got[0].isfinite(), None)


# what PyTorch computes otherwise than it is defined


@excuse("the remainder is exact, however large the quotient", "fmod")
def remainder(s):
    return everywhere(torch.tensor(np.fmod(*(x.numpy() for x in s.wide))))


@excuse("what does not fit wraps", "lcm")
def wrapped(s):
    a, b = torch.broadcast_tensors(*s.own)
    bits = torch.iinfo(s.want[0].dtype).bits
    half = 1 << bits - 1
    all_of_it = [math.lcm(x, y) for x, y in zip(a.reshape(-1).tolist(), b.reshape(-1).tolist())]
    wraps = torch.tensor([x >= half for x in all_of_it], dtype=BOOL).reshape(a.shape)
    return Part(wraps, torch.tensor([(x + half) % (2 * half) - half for x in all_of_it], dtype=I64).reshape(a.shape))


@excuse("log(1 + e^x) above 20, too", "softplus")
def no_threshold(s):
    x = s.wide[0]
    return Part(x > 20, torch.logaddexp(x, torch.zeros_like(x)))


@excuse("PyTorch's quotient rounds before a logarithm, which is near 0 around a half", "logit")
def logit_of_a_half(s):
    x = s.wide[0]
    return Part((x - 0.5).abs() < 0.25, torch.log1p((2 * x - 1) / (1 - x)))


@excuse("PyTorch's exponential overflows below its reciprocal", "sigmoid")
def small_sigmoid(s):
    x = s.wide[0]
    return Part(x < -LARGEST_POWER, x.exp())


@excuse("PyTorch's exponential overflows before a logarithm", "softplus_with")
def large_softplus(s):
    x = s.wide[0] * s.args[0]
    return Part(x > LARGEST_POWER, torch.logaddexp(x, torch.zeros_like(x)) / s.args[0])


@excuse("PyTorch's exponential overflows before a logarithm", "soft_margin_loss")
def large_margins(s):
    x = -s.wide[0] * s.wide[1]
    losses = torch.logaddexp(x, torch.zeros_like(x))
    return Part(x > LARGEST_POWER if s.args[0] == "none" else (x > LARGEST_POWER).any(), reduced(losses, s.args[0]))


@excuse("PyTorch's exponential overflows before a quotient", "i0")
def large_bessel(s):
    half = (s.wide[0].abs() / 2).exp()
    return Part(s.wide[0].abs() > LARGEST_POWER, torch.special.i0e(s.wide[0]) * half * half)


@excuse("at a pole infinite", "polygamma")
def pole(s):
    x, n = s.wide[0].to(F64), s.args[0]
    return Part((x <= 0) & (x == x.floor()) & x.isfinite(), torch.full_like(x, INF if n % 2 else -INF))


@excuse("at -infinity, beyond all poles, NaN", "polygamma")
def beyond_poles(s):
    return Part(s.wide[0] == -INF, torch.full_like(s.want[0], NAN))


@excuse("at infinity 0", "polygamma")
def far_end(s):
    return Part(s.wide[0] == INF, torch.zeros_like(s.want[0]))


@excuse("PyTorch's zeta function underflows before it is multiplied", "polygamma")
def small_zeta(s):
    x, n = s.wide[0].to(F64), s.args[0]
    if n == 0:
        return None
    leading = float(math.factorial(n - 1)) * (1 if n % 2 else -1) * x ** -n
    return Part((x.log2() * (n + 1) > 1000) & (x != INF), leading)


@excuse("paths with an infinite probability have no sum", "ctc_loss")
def infinite_probability(s):
    infinite = (s.wide[0] == INF).any(2).any(0)
    return Part(infinite if s.args[0] == "none" else infinite.any(), torch.full_like(s.want[0], NAN))


@excuse("more labels than steps have no path, whatever the numbers are", "ctc_loss")
def too_many_labels(s):
    (_, _, steps, labels), (how, _, zero) = s.wide, s.args
    if how != "none":
        return None
    return Part((labels > steps).reshape(s.want[0].shape), torch.full_like(s.want[0], 0.0 if zero else INF))


@excuse("the mean is the sum of the losses over that of the weights, which is 0", "cross_entropy_weighted")
def weightless(s):
    (x, labels, weight), (how, ignored, smoothing) = s.wide, s.args
    if how != "mean" or labels.is_floating_point():
        return None
    counts = labels != (-100 if ignored is None else ignored)
    total = weight[labels[counts]].sum()
    losses = F.cross_entropy(x, labels, weight, ignore_index=-100 if ignored is None else ignored,
                             reduction="sum", label_smoothing=smoothing)
    return Part(total == 0, losses / total)


# what rounds on the way


@excuse("the quotient rounds to an integer", "div_trunc")
def rounded_quotient(s):
    x, y = s.wide
    q = x / y
    near = (q - q.round()).abs() <= 2 * EPS[cases.meeting([t.dtype for t in s.own])] * q.abs()
    return Part(near, s.f(*s.own).to(F64))


@excuse("a quotient does not fit, beside an infinity", "addcdiv")
def infinite_quotient(s):
    x, y, z = s.wide
    return Part(torch.isinf(x) & ((y / z).abs() > most(s.own) / 8) & ~s.got[0].isfinite(), None)


def leaving(x, own):
    """Along the last axis the elements up to which a product of finite neighbours does not fit."""
    logs = F.pad(x.abs().log2().nan_to_num(0.0, 0.0, 0.0), (1, 0)).cumsum(-1)
    spans = logs.unsqueeze(-1) - logs.unsqueeze(-2)
    gone = (spans.abs().tril() >= math.log2(most(own)) - 2).any(-1)[..., 1:]
    return gone.cummax(-1).values if gone.shape[-1] else gone


@excuse("a product of neighbours does not fit: it is 0 or infinite, or has few bits", "cumprod", "prod")
def products(s):
    axis = s.args[0] if s.method == "cumprod" else s.args[0][0]
    gone = leaving(s.wide[0].movedim(axis, -1), s.own)
    gone = gone.movedim(-1, axis) if s.method == "cumprod" else gone.any(-1)
    share = s.got[0] / s.want[0]
    return Part(gone & (~s.got[0].isfinite() | (s.got[0] == 0) | ((share > 0.5) & (share < 2))), None)


@excuse("bf16 factors below the normal numbers are 0", "matmul", "inner", "dot", "mm", "bmm", "mv", "vdot", "addmm",
        "einsum", "tensordot", "chain_matmul", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
        "conv_transpose3d")
def flushed(s):
    if not all(x.dtype == BF16 for x in s.own):
        return None
    return everywhere(s.f(*[x.masked_fill(x.abs() < NORMAL[BF16], 0.0) for x in s.wide]))


@excuse("the power of a distance does not fit", "cdist")
def far_apart(s):
    p = float(s.args[0])
    if p in (0.0, INF):
        return None
    apart = s.wide[0].unsqueeze(-2) - s.wide[1].unsqueeze(-3)
    return Part(apart.abs().amax(-1).log2() * p > math.log2(most(s.own)) - 4, torch.full_like(s.want[0], INF))


@excuse("a power of the largest element does not fit", "norm")
def large_norm(s):
    (p, axes), x = s.args, s.wide[0]
    if float(p) in (0.0, INF, -INF) or not x.numel():
        return None
    return Part(x.abs().amax(axes).log2() * float(p) > math.log2(most(s.own)), torch.full_like(s.want[0], INF))


@excuse("a share of a weight below the normal numbers has few bits", "cross_entropy_weighted", "nll_loss_weighted")
def small_weight(s):
    weight = s.wide[2]
    small = (weight > 0) & (weight < NORMAL[s.own[2].dtype])
    return Part(small.any(), s.f(*s.own).to(F64)) if s.args[0] == "mean" else None


@excuse("a power does not fit", "matrix_power")
def large_power(s):
    x = s.wide[0]
    fits = not x.numel() or float((x.abs() * x.shape[-1]).max()) ** abs(s.args[0]) <= most(s.own)
    return Part(~s.got[0].isfinite() & (not fits and bool(x.isfinite().all())), None)


@excuse("an exponential underflows, and meets an infinite weight", "bce_logits_weighted")
def infinite_weight(s):
    x, target, weight = s.wide
    small = (F.softplus(-x) < LEAST[cases.meeting([t.dtype for t in s.own])] / 2) & (1 + (weight - 1) * target).isinf()
    return Part(small if s.args[0] == "none" else small.any(), torch.full_like(s.want[0], NAN))


# losses that are sums of parts, which may not fit the dtype
PARTS = {"gaussian_nll_loss": lambda x, y, v: (torch.log(v + (1e-6 - v).clamp(min=0.0)), (x - y).square() / (v + (1e-6 - v).clamp(min=0.0))),
         "poisson_nll_loss": lambda x, y: (x.exp(), -y * x),
         "kl_div": lambda x, y, is_log: (y.exp() * (y - x),) if is_log else (torch.xlogy(y, y), -y * x)}


@excuse("a part of a loss does not fit the dtype", *PARTS)
def large_parts(s):
    how, *args = s.args
    parts = PARTS[s.method](*s.own, *args)
    losses = sum(parts) * (0.5 if s.method == "gaussian_nll_loss" else 1.0)
    beyond = ~torch.stack([*torch.broadcast_tensors(*parts)]).isfinite().all(0)
    return Part(beyond if how == "none" else beyond.any(), reduced(losses, how).to(F64))


# the loss of each element; the other arguments come after the reduction
LOSSES = {"mse_loss": F.mse_loss, "l1_loss": F.l1_loss, "poisson_nll_loss": F.poisson_nll_loss,
          "huber_loss": lambda x, y, delta, **o: F.huber_loss(x, y, delta=delta, **o),
          "smooth_l1_loss": lambda x, y, beta, **o: F.smooth_l1_loss(x, y, beta=beta, **o),
          "bce_logits": F.binary_cross_entropy_with_logits, "soft_margin_loss": F.soft_margin_loss,
          "margin_ranking_loss": F.margin_ranking_loss, "hinge_embedding_loss": F.hinge_embedding_loss,
          "kl_div": lambda x, y, is_log, **o: F.kl_div(x, y, log_target=is_log, **o)}


@excuse("the loss of an element does not fit the dtype, and their mean does", *LOSSES)
def large_losses(s):
    how, *args = s.args
    if how != "mean":
        return None
    dtype = cases.meeting([x.dtype for x in s.own])
    mean = LOSSES[s.method](*s.wide, *args, reduction="none").to(dtype).to(F64).mean()
    return Part(mean.isinf(), mean)
