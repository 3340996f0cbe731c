//! Bounds on gradients, between backward and the step.

use crate::Tensor;
use crate::error::{Error, at_caller, refuse};
use std::borrow::Borrow;

/// Scales the gradients of `parameters` so that their Euclidean norm, as one vector, is at most `most`. Gives the norm
/// that they had, a scalar, which the next step computes. PyTorch's `clip_grad_norm_`.
///
/// ```
/// use kiln::{Tensor, optim::clip_grad_norm};
/// let w = Tensor::from([3.0f32, 4.0]).set_requires_grad(true);
/// (w.square() * 0.5).sum(..).backward()?;
/// let norm = clip_grad_norm([&w], 1.0)?;
/// assert_eq!(norm.item::<f32>()?, 5.0);
/// assert!((w.grad().expect("reached").norm(2.0, ..).item::<f32>()? - 1.0).abs() < 1e-6);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// As [`clip_grad_norm_with`].
#[track_caller]
pub fn clip_grad_norm<T: Borrow<Tensor>>(
    parameters: impl IntoIterator<Item = T>,
    most: f64,
) -> Result<Tensor, Error> {
    clip_grad_norm_with(parameters, most, 2.0)
}

/// As [`clip_grad_norm`], of the norm of order `p`, which may be infinite.
///
/// ```
/// use kiln::{Tensor, optim::clip_grad_norm_with};
/// let w = Tensor::from([3.0f32, 4.0]).set_requires_grad(true);
/// (w.square() * 0.5).sum(..).backward()?;
/// assert_eq!(clip_grad_norm_with([&w], 1.0, f64::INFINITY)?.item::<f32>()?, 4.0);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A bound or an order that is negative or NaN; no parameter with a gradient; an error that a gradient carries.
#[track_caller]
pub fn clip_grad_norm_with<T: Borrow<Tensor>>(
    parameters: impl IntoIterator<Item = T>,
    most: f64,
    p: f64,
) -> Result<Tensor, Error> {
    let grads = gradients(parameters);
    if grads.is_empty() {
        at_caller("clip_grad_norm", refuse!("no parameter has a gradient: backward comes first"))?;
    }
    if most.is_nan() || most < 0.0 || p.is_nan() || p <= 0.0 {
        at_caller("clip_grad_norm", refuse!("no norm of order {p} is bounded by {most}"))?;
    }
    let of_each = grads.iter().map(|g| wide(g).norm(p, ..));
    let total = Tensor::stack(of_each.collect::<Vec<_>>(), 0).norm(p, ..);
    // PyTorch's guard against a norm of 0
    let factor = (total.add(1e-6).reciprocal() * most).clamp_max(1.0);
    for grad in &grads {
        grad.try_assign((wide(grad) * &factor).cast(grad.dtype()))?;
    }
    Ok(total)
}

/// Bounds each element of the gradients of `parameters` by `most` and its negative. PyTorch's `clip_grad_value_`.
///
/// ```
/// use kiln::{Tensor, optim::clip_grad_value};
/// let w = Tensor::from([3.0f32, -0.5]).set_requires_grad(true);
/// (w.square() * 0.5).sum(..).backward()?;
/// clip_grad_value([&w], 1.0)?;
/// assert_eq!(w.grad().expect("reached").to_vec::<f32>()?, [1.0, -0.5]);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A bound that is negative or NaN; an error that a gradient carries.
#[track_caller]
pub fn clip_grad_value<T: Borrow<Tensor>>(
    parameters: impl IntoIterator<Item = T>,
    most: f64,
) -> Result<(), Error> {
    if most.is_nan() || most < 0.0 {
        at_caller("clip_grad_value", refuse!("{most} bounds nothing"))?;
    }
    for grad in gradients(parameters) {
        grad.try_assign(grad.clamp(-most, most))?;
    }
    Ok(())
}

fn gradients<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>) -> Vec<Tensor> {
    parameters.into_iter().filter_map(|p| p.borrow().grad()).collect()
}

/// In the precision that sums are computed in.
fn wide(grad: &Tensor) -> Tensor {
    grad.cast(grad.dtype().accumulator())
}
