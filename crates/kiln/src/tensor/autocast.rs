//! Mixed precision: products in a narrow float, and what would lose by it in f32, as a scope of the calling thread.

use super::Tensor;
use crate::error::{Fault, refuse};
use crate::scoped::with_flag;
use kiln_ir::DType;
use std::cell::Cell;

thread_local! {
    static PRODUCTS: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Runs `f` in mixed precision (Micikevicius et al., 2017, arXiv:1710.03740; PyTorch's `autocast`). `dtype` is F16 or BF16;
/// F32 turns mixed precision off, within another scope too. The scope is the calling thread's.
///
/// - Matrix products, linear layers, convolutions, attention and `einsum` read their f32, f16 and bf16 operands as `dtype`
///   and give `dtype`. They add up in f32, as products of narrow floats always do.
/// - Sums, products and running sums of elements, means of losses, norms, softmax and its logarithm, `exp`, `log`, `pow`,
///   `reciprocal`, `rsqrt` and their like, layer, group and RMS norm, and losses give f32 of narrow floats.
/// - Everything else is computed in the dtype of its operands, promoted as always.
///
/// Weights stay f32, and so do their gradients. The loss and `backward` need not be in the scope. With F16, small gradients
/// vanish without a [`GradScaler`](crate::optim::GradScaler); BF16 has the exponents of f32 and needs none.
///
/// ```
/// use kiln::nn::{Linear, Module};
/// use kiln::optim::{AdamW, GradScaler};
/// use kiln::{DType, Tensor, autocast};
/// let (x, labels) = (Tensor::rand([8, 4]), Tensor::from([0, 1, 2, 0, 1, 2, 0, 1]));
/// let layer = Linear::new(4, 3);
/// let (optimizer, scaler) = (AdamW::new(layer.parameters(), 0.01), GradScaler::new());
/// for _ in 0..2 {
///     optimizer.zero_grad();
///     let logits = autocast(DType::F16, || layer.forward(&x));
///     assert_eq!(logits.dtype(), DType::F16);
///     let loss = autocast(DType::F16, || logits.cross_entropy(&labels));
///     assert_eq!(loss.dtype(), DType::F32);
///     scaler.scale(&loss).backward()?;
///     scaler.step(&optimizer)?;
/// }
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// With another dtype every product is an error.
pub fn autocast<R>(dtype: DType, f: impl FnOnce() -> R) -> R {
    with_flag(&PRODUCTS, Some(dtype).filter(|d| *d != DType::F32), f)
}

/// What products are computed in, in a scope of [`autocast`] on this thread.
///
/// ```
/// use kiln::{DType, autocast, autocast_dtype};
/// assert_eq!(autocast(DType::BF16, autocast_dtype), Some(DType::BF16));
/// assert_eq!(autocast(DType::BF16, || autocast(DType::F32, autocast_dtype)), None);
/// assert_eq!(autocast_dtype(), None);
/// ```
pub fn autocast_dtype() -> Option<DType> {
    PRODUCTS.get()
}

/// What a narrow float becomes where it would lose too much.
pub(super) fn full(dtype: DType) -> DType {
    match autocast_dtype() {
        Some(_) if dtype.is_float() => dtype.accumulator(),
        _ => dtype,
    }
}

impl Tensor {
    /// This operand of a product.
    pub(super) fn factor(&self) -> Result<Tensor, Fault> {
        let Some(dtype) = autocast_dtype() else {
            return Ok(self.clone());
        };
        if ![DType::F16, DType::BF16].contains(&dtype) {
            return refuse!("autocast wants F16, BF16 or F32, not {dtype}");
        }
        let is_cast = self.dtype().is_float() && self.dtype() != DType::F64;
        Ok(if is_cast { self.in_dtype(dtype) } else { self.clone() })
    }

    /// This value, in f32 where a narrow float would lose too much.
    #[track_caller]
    pub(super) fn in_full(&self) -> Tensor {
        self.in_dtype(full(self.dtype()))
    }

    /// Two operands, floats in the accumulator's dtype as parts of the result may not fit a narrow one, and the dtype that the
    /// result is rounded to.
    #[track_caller]
    pub(super) fn widened(&self, other: &Tensor) -> (Tensor, Tensor, DType) {
        let dtype = full(self.dtype().promote(other.dtype()));
        let wide = if dtype.is_float() { dtype.accumulator() } else { dtype };
        (self.in_dtype(wide), other.in_dtype(wide), dtype)
    }

    #[track_caller]
    fn in_dtype(&self, dtype: DType) -> Tensor {
        if dtype == self.dtype() { self.clone() } else { self.cast(dtype) }
    }
}
