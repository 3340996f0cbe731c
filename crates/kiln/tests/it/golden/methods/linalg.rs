//! Factorizations of matrices, and what follows from them.

use super::calls::calls;
use kiln::{MatrixNorm, Tensor};

calls! { a;
    unary inv det slogdet eigvalsh matrix_exp qr svdvals pinv matrix_rank cond;
    binary solve lstsq;
    "cholesky" [x] => x.cholesky(a.is(0));
    "solve_triangular" [x, b] => x.solve_triangular(b, a.is(0), a.is(1));
    "eigh" [x] => {
        let (values, vectors) = x.eigh();
        vec![values, vectors.square()]
    };
    "svd" [x] => {
        let (u, s, vh) = x.svd(a.is(0));
        vec![u.square(), s, vh.square()]
    };
    "svd_made" [x] => made(x.svd(a.is(0)));
    "matrix_norm" [x] => x.matrix_norm(norm(a.text(0)));
    "multi_dot" xs => Tensor::multi_dot(xs);
}

/// The product of the parts.
fn made((u, s, vh): (Tensor, Tensor, Tensor)) -> Tensor {
    let count = s.shape()[s.ndim() - 1];
    u.narrow(-1, 0, count).mul(s.unsqueeze(-2)).matmul(&vh.narrow(-2, 0, count))
}

fn norm(name: &str) -> MatrixNorm {
    match name {
        "Frobenius" => MatrixNorm::Frobenius,
        "Nuclear" => MatrixNorm::Nuclear,
        "Spectral" => MatrixNorm::Spectral,
        "LeastSingular" => MatrixNorm::LeastSingular,
        "Columns" => MatrixNorm::Columns,
        _ => MatrixNorm::Rows,
    }
}
