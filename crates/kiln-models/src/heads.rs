//! Widths as heads, for attention.

use kiln::Tensor;

/// `[batch, length, heads * width]` as `[batch, heads, length, width]`.
#[track_caller]
pub(crate) fn split(x: &Tensor, heads: usize) -> Tensor {
    x.unflatten(2, [heads, x.shape().get(2).copied().unwrap_or(0) / heads]).transpose(1, 2)
}

/// `[batch, heads, length, width]` as `[batch, length, heads * width]`.
#[track_caller]
pub(crate) fn joined(x: &Tensor) -> Tensor {
    x.transpose(1, 2).flatten_from(2)
}
