//! New tensors, and matrices made of diagonals.

use super::calls::{Args, calls};
use kiln::Tensor;

calls! { a;
    unary; binary;
    "arange" [] => counted(a);
    "arange_float" [] => Tensor::arange_with((a.float(1), a.float(2), a.float(3)), a.dtype(0));
    "linspace" [] => Tensor::linspace_with(a.float(1), a.float(2), a.int(3), a.dtype(0));
    "logspace" [] => {
        Tensor::logspace_with(a.float(1), a.float(2), a.int(3), a.float(4), a.dtype(0))
    };
    "eye" [] => Tensor::eye_with((a.int(1), a.int(2)), a.dtype(0));
    "zeros_like" [x] => x.zeros_like_with(a.dtype(0));
    "ones_like" [x] => x.ones_like_with(a.dtype(0));
    "full_like" [x] => x.full_like_with(7, a.dtype(0));
    "tril_indices" [] => Tensor::tril_indices(a.count(0), a.count(1), a.int(2));
    "triu_indices" [] => Tensor::triu_indices(a.count(0), a.count(1), a.int(2));
    "meshgrid" xs => Tensor::meshgrid(xs);
    "meshgrid_xy" xs => Tensor::meshgrid_xy(xs);
    "cartesian_prod" xs => Tensor::cartesian_prod(xs);
    "diag" [x] => x.diag(a.int(0));
    "diagonal" [x] => x.diagonal(a.int(0), a.int(1), a.int(2));
    "diag_embed" [x] => x.diag_embed(a.int(0), a.int(1), a.int(2));
    "block_diag" xs => Tensor::block_diag(xs);
}

/// A number, two or three: the forms that `arange` takes.
fn counted(a: Args<'_>) -> Tensor {
    let (ints, dtype) = ((1..a.len()).map(|i| a.int(i)).collect::<Vec<_>>(), a.dtype(0));
    match ints[..] {
        [n] => Tensor::arange_with(n, dtype),
        [start, stop] => Tensor::arange_with(start..stop, dtype),
        _ => Tensor::arange_with((ints[0], ints[1], ints[2]), dtype),
    }
}
