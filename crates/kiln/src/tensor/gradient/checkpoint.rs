//! Values that are computed again on the way back, so that they need not be kept until then.

use super::custom::{placeholder, stand_in};
use super::marks::storage_id;
use crate::Tensor;
use crate::engine;
use crate::error::Fault;
use crate::tensor::storage::marked_storage;
use kiln_compile::grad::gradient;
use kiln_ir::uop::{substitute, toposort_all};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::slice::from_ref;

/// What `f` makes of `inputs`, computed again on the way back (Chen et al., 2016, arXiv:1604.06174; PyTorch's `checkpoint`).
///
/// Without it, what the gradient needs of the values inside `f` may be kept in memory from the forward pass on. With it,
/// only `inputs` are kept; the values inside are computed again once the gradient of the result is there. A deep network
/// cut into checkpoints needs memory for one part at a time, and computes each part twice.
///
/// `f` is called once. What is computed again are the same values: random numbers have the same bits. What `f` reads without
/// being given it, such as weights, has its gradient as always if it wants one. A tensor that does not
/// [want gradients](Tensor::set_requires_grad) but is to be a target of [`gradient`](Tensor::gradient) is named among the
/// inputs.
///
/// ```
/// use kiln::{Tensor, checkpoint};
/// let w = Tensor::from([[0.5f32, 1.0], [2.0, 0.25]]).set_requires_grad(true);
/// let x = Tensor::from([[1.0f32, -1.0]]);
/// let hidden = checkpoint(|[x]| x.matmul(&w).tanh(), [&x]);
/// hidden.sum(..).backward()?;
/// let with = w.grad().expect("reached").to_vec::<f32>()?;
/// w.zero_grad();
/// x.matmul(&w).tanh().sum(..).backward()?;
/// assert_eq!(with, w.grad().expect("reached").to_vec::<f32>()?);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// An error that an input or the result of `f` carries.
#[track_caller]
pub fn checkpoint<const N: usize>(
    f: impl FnOnce([&Tensor; N]) -> Tensor,
    inputs: [&Tensor; N],
) -> Tensor {
    let y = f(inputs);
    if y.error().is_some() || !y.dtype().is_float() {
        return y;
    }
    let given = again(&y, &inputs);
    y.lift("checkpoint", given)
}

/// The value, whose gradient is that of another graph of the same values.
fn again(y: &Tensor, inputs: &[&Tensor]) -> Result<UOp, Fault> {
    let inputs = inputs.iter().map(|x| x.value()).collect::<Result<FxHashSet<UOp>, _>>()?;
    let value = y.value()?;
    let whole = engine::with_history(&value);
    let (kept, stand_ins) = kept(&whole, &inputs);
    let pairs = || kept.iter().cloned().zip(stand_ins.iter().cloned());
    let seed = stand_in(&value);
    let apart = substitute(from_ref(&whole), &pairs().collect()).swap_remove(0);
    let grads = gradient(&apart, &seed, &stand_ins);
    let wait = |(x, stand_in): (UOp, UOp)| (stand_in, x.remat([seed.clone()]));
    let later: FxHashMap<UOp, UOp> = pairs().map(wait).collect();
    let found = kept.iter().zip(grads).filter_map(|(x, dx)| Some((x.clone(), dx?)));
    let (to, grads): (Vec<UOp>, Vec<UOp>) = found.unzip();
    if to.is_empty() {
        return Ok(value);
    }
    let grads = substitute(&grads, &later);
    Ok(value.with_vjp(&seed, to.into_iter().zip(grads)))
}

/// The values of a graph that are kept: its inputs, and reads of storages that want gradients. Beside each stands its
/// placeholder.
fn kept(root: &UOp, inputs: &FxHashSet<UOp>) -> (Vec<UOp>, Vec<UOp>) {
    let goes_on = |n: &UOp| n.op() != Op::Mark && !inputs.contains(n);
    let nodes = toposort_all(from_ref(root), goes_on);
    let is_read = |n: &UOp| n.op() == Op::Mark && marked_storage(storage_id(n)).is_some();
    let kept = nodes.into_iter().filter(|n| inputs.contains(n) || is_read(n));
    // a constant has no identity, and is everybody's
    let kept: Vec<UOp> = kept.filter(|n| n.as_const().is_none()).collect();
    let stand_ins = kept.iter().map(placeholder).collect();
    (kept, stand_ins)
}
