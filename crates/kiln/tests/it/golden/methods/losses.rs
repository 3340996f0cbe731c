//! Losses, under every reduction.

use super::calls::{Args, calls};
use kiln::{ClassLoss, CtcLoss, Reduce, Tensor};

calls! { a;
    unary;
    binary;
    "mse_loss" [x, y] => x.mse_loss(y, reduce(a));
    "l1_loss" [x, y] => x.l1_loss(y, reduce(a));
    "huber_loss" [x, y] => x.huber_loss(y, a.float(1), reduce(a));
    "smooth_l1_loss" [x, y] => x.smooth_l1_loss(y, a.float(1), reduce(a));
    "kl_div" [x, y] => x.kl_div(y, a.is(1), reduce(a));
    "binary_cross_entropy" [x, y] => x.binary_cross_entropy(y, reduce(a));
    "bce_logits" [x, y] => x.binary_cross_entropy_with_logits(y, None, reduce(a));
    "bce_logits_weighted" [x, y, w] => x.binary_cross_entropy_with_logits(y, Some(w), reduce(a));
    "poisson_nll_loss" [x, y] => x.poisson_nll_loss(y, reduce(a));
    "gaussian_nll_loss" [x, y, v] => x.gaussian_nll_loss(y, v, reduce(a));
    "hinge_embedding_loss" [x, y] => x.hinge_embedding_loss(y, a.float(1), reduce(a));
    "margin_ranking_loss" [x, y, s] => x.margin_ranking_loss(y, s, a.float(1), reduce(a));
    "triplet_margin_loss" [x, y, z] => {
        x.triplet_margin_loss(y, z, a.float(1), a.float(2), reduce(a))
    };
    "cosine_embedding_loss" [x, y, s] => x.cosine_embedding_loss(y, s, a.float(1), reduce(a));
    "soft_margin_loss" [x, y] => x.soft_margin_loss(y, reduce(a));
    "cosine_similarity" [x, y] => x.cosine_similarity(y, a.int(0));
    "pairwise_distance" [x, y] => x.pairwise_distance(y, a.float(0));
    "cross_entropy" [x, y] => x.cross_entropy_with(y, options(a, None));
    "cross_entropy_weighted" [x, y, w] => x.cross_entropy_with(y, options(a, Some(w)));
    "ctc_loss" [x, y, steps, labels] => x.ctc_loss(y, steps, labels, ctc(a));
    "nll_loss" [x, y] => x.nll_loss(y, options(a, None));
    "nll_loss_weighted" [x, y, w] => x.nll_loss(y, options(a, Some(w)));
}

fn reduce(a: Args<'_>) -> Reduce {
    match a.text(0) {
        "mean" => Reduce::Mean,
        "sum" => Reduce::Sum,
        _ => Reduce::None,
    }
}

fn ctc(a: Args<'_>) -> CtcLoss {
    CtcLoss { reduce: reduce(a), blank: a.count(1), zero_infinity: a.is(2) }
}

fn options<'a>(a: Args<'_>, weight: Option<&'a Tensor>) -> ClassLoss<'a> {
    let ignore_index = a.has(1).then(|| a.int(1));
    ClassLoss { reduce: reduce(a), weight, ignore_index, label_smoothing: a.float(2) }
}
