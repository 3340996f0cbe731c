//! Reductions, scans and orders.

use super::calls::calls;
use kiln::{Device, Tensor};

calls! { a;
    unary cov corrcoef unique;
    binary;
    "sort" [x] => x.sort(a.int(0), a.is(1));
    "argsort" [x] => x.argsort(a.int(0), a.is(1));
    "topk" [x] => x.topk(a.count(0), a.int(1), a.is(2));
    "kthvalue" [x] => x.kthvalue(a.count(0), a.int(1));
    "median" [x] => x.median(a.int(0));
    "median_all" [x] => x.median(..);
    "quantile" [x] => x.quantile(a.float(0), a.int(1));
    "quantile_all" [x] => x.quantile(a.float(0), ..);
    "cummax" [x] => x.cummax(a.int(0));
    "cummin" [x] => x.cummin(a.int(0));
    "cumprod" [x] => x.cumprod(a.int(0));
    "logcumsumexp" [x] => x.logcumsumexp(a.int(0));
    "amax" [x] => x.amax(a.ints(0));
    "amin" [x] => x.amin(a.ints(0));
    "aminmax" [x] => x.aminmax(a.ints(0));
    "count_nonzero" [x] => x.count_nonzero(a.ints(0));
    "nansum" [x] => x.nansum(a.ints(0));
    "nanmean" [x] => x.nanmean(a.ints(0));
    "var_mean" [x] => x.var_mean(a.ints(0), a.count(1));
    "std_mean" [x] => x.std_mean(a.ints(0), a.count(1));
    "norm" [x] => x.norm(a.float(0), a.ints(1));
    "norm_keepdim" [x] => x.norm_keepdim(a.float(0), a.ints(1));
    "trapezoid" [x] => x.trapezoid(a.float(0), a.int(1));
    "diff" [x] => x.diff(a.count(0), a.int(1));
    "searchsorted" [x, y] => x.searchsorted(y, a.is(0));
    "searchsorted_with" [x, y, s] => x.searchsorted_with(y, a.is(0), s);
    "bucketize" [x, y] => x.bucketize(y, a.is(0));
    "bincount" [x] => x.bincount(a.count(0));
    "histc" [x] => x.histc(a.count(0), a.float(1), a.float(2));
    "mode" [x] => x.mode(a.int(0));
    "argmax_keepdim" [x] => x.argmax_keepdim(a.int(0));
    "argmin_keepdim" [x] => x.argmin_keepdim(a.int(0));
    "var_keepdim_with" [x] => x.var_keepdim_with(a.int(0), a.count(1));
    "equal" [x, y] => told(x.equal(y), x.device());
}

/// A computed answer as a tensor, as the cases have it.
fn told(answer: Result<bool, kiln::Error>, device: &Device) -> Tensor {
    Tensor::from_vec_on(vec![answer.expect("an answer")], (), device)
}
