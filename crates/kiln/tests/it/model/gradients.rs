//! Gradients: of `(seen * seen * by).sum(..)` for `x`, where `seen` is `x` through views.

use super::eager::Handle;
use super::generate::Generator;
use super::lazy::{self, Lazy};
use super::machine::{Value, fitting};
use super::numbers::binary;
use super::program::{Binary, Expr, Num, View};
use kiln::Tensor;

/// Views in a row, at most.
const MOST_VIEWS: usize = 3;

/// Each element of `x` has the sum of `2 * seen * by` over all places where it is seen. None where that is not exact.
pub(super) fn gradient(x: &Handle, views: &[View], by: &Value) -> Option<Handle> {
    let dtype = x.dtype;
    let x = Handle::new(&x.shape, dtype, &x.exact().filter(|_| dtype.is_float())?);
    let seen = views.iter().try_fold(x.clone(), |seen, view| seen.view(view))?;
    let by = fitting(&seen.shape, dtype, by)??;
    let twice = |a: Num, b: Num| {
        let product = binary(Binary::Mul, a, b.cast(dtype), dtype);
        Some(binary(Binary::Add, product, product, dtype))
            .filter(|n| n.is_exact() && !n.is_negative_zero())
    };
    let mut sums = vec![Num::Int(0).cast(dtype); x.numel()];
    for ((at, a), b) in seen.numbers().into_iter().zip(seen.exact()?).zip(by) {
        sums[at] = binary(Binary::Add, sums[at], twice(a, b)?, dtype);
    }
    Some(Handle::new(&x.shape, dtype, &sums)).filter(|sums| sums.exact().is_some())
}

impl Lazy {
    /// Every view is taken on another device.
    pub(super) fn gradient(&self, x: &Expr, views: &[View], by: &Expr) -> Tensor {
        let x = self.placed(self.lent(x, Tensor::copy)).set_requires_grad(true);
        let next = |seen: Tensor, view: &View| self.hopped(&self.viewed(&seen, view), 1);
        let seen = views.iter().fold(self.hopped(&x, 1), next);
        let products = lazy::binary(Binary::Mul, &seen.square(), self.value(by, &seen));
        let loss = self.hopped(&products, 1).sum(..);
        loss.gradient([&x]).expect("it has a gradient").remove(0)
    }
}

impl Generator {
    /// The gradient of something that `x` is in.
    pub(super) fn gradient(&mut self, x: Expr, of: &Handle) -> Option<Expr> {
        if !of.dtype.is_float() {
            return None;
        }
        let mut seen = x.clone();
        let mut views = Vec::new();
        for _ in 0..self.rng.below(MOST_VIEWS + 1) {
            let Expr::View(_, view) = self.viewed(seen.clone())? else { return None };
            if !matches!(view, View::Bitcast(_) | View::Detach) {
                seen = seen.view(view.clone());
                views.push(view);
            }
        }
        let by = self.operand(&self.handle(&seen)?)?;
        Some(Expr::Gradient(Box::new(x), views, Box::new(by)))
    }
}
