//! Special functions, parts of floats, copies that differ at places, sets of values, margins.

use super::calls::{Args, calls};
use kiln::{Reduce, Tensor};

calls! { a;
    unary erfinv lgamma digamma i0 frexp unique_consecutive;
    binary gcd lcm ldexp nextafter float_power isin vdot;
    "polygamma" [x] => x.polygamma(a.count(0));
    "select_scatter" [x, v] => x.select_scatter(v, a.int(0), a.int(1));
    "slice_scatter" [x, v] => x.slice_scatter(v, a.int(0), a.int(1), a.int(2), a.count(3));
    "index_copy" [x, i, v] => x.index_copy(a.int(0), i, v);
    "index_fill" [x, i] => x.index_fill(a.int(0), i, a.float(1));
    "put" [x, i, v] => x.put(i, v);
    "masked_scatter" [x, m, s] => x.masked_scatter(m, s);
    "take_along_dim" [x, i] => x.take_along_dim(i, a.int(0));
    "histogram" [x] => x.histogram(a.count(0), a.float(1), a.float(2));
    "combinations" [x] => x.combinations(a.count(0));
    "nanmedian" [x] => x.nanmedian(a.int(0));
    "nanquantile" [x] => x.nanquantile(a.float(0), a.int(1));
    "sum_with" [x] => x.sum_with(a.int(0), a.dtype(1));
    "prod_with" [x] => x.prod_with(a.int(0), a.dtype(1));
    "mean_with" [x] => x.mean_with(a.int(0), a.dtype(1));
    "softmax_with" [x] => x.softmax_with(a.int(0), a.dtype(1));
    "log_softmax_with" [x] => x.log_softmax_with(a.int(0), a.dtype(1));
    "chain_matmul" xs => Tensor::chain_matmul(xs);
    "multi_margin_loss" [x, y] => {
        x.multi_margin_loss(y, a.count(1) as u32, a.float(2), reduce(a))
    };
    "multilabel_margin_loss" [x, y] => x.multilabel_margin_loss(y, reduce(a));
}

fn reduce(a: Args<'_>) -> Reduce {
    match a.text(0) {
        "mean" => Reduce::Mean,
        "sum" => Reduce::Sum,
        _ => Reduce::None,
    }
}
