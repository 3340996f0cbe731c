//! Operands brought to one dtype, shape and device.

use super::shape_args::holdable;
use crate::element::Value;
use crate::error::{Fault, refuse};
use crate::{Device, Tensor};
use kiln_ir::arg::Shape;
use kiln_ir::{DType, Op, UOp};

/// The shape that `a` and `b` broadcast to as NumPy does: aligned at the last axis, lengths equal or 1.
pub(crate) fn broadcast_shapes(a: &[usize], b: &[usize]) -> Result<Shape, Fault> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    let common = |i: usize| match (at(a, i), at(b, i)) {
        (1, n) | (n, 1) => Some(n),
        (m, n) if m == n => Some(n),
        _ => None,
    };
    match (0..rank).map(common).collect() {
        Some(shape) => holdable(shape),
        None => refuse!("shapes do not broadcast, lhs {a:?}, rhs {b:?}"),
    }
}

/// `node` as an operand of shape `shape`: scalars fit as they are.
pub(crate) fn fit(node: &UOp, shape: &[usize]) -> UOp {
    if node.shape().is_empty() { node.clone() } else { node.broadcast_to(shape) }
}

/// Two operands of an elementwise op: values of one dtype, shapes alike or scalar.
pub(crate) struct Pair {
    pub(crate) lhs: UOp,
    pub(crate) rhs: UOp,
    pub(crate) device: Device,
}

impl Pair {
    /// The operands in the dtype that `dtype` makes of their common one.
    pub(crate) fn new(
        lhs: &Value,
        rhs: &Value,
        dtype: impl FnOnce(DType) -> Result<DType, Fault>,
    ) -> Result<Pair, Fault> {
        valid([lhs, rhs])?;
        let (lhs, rhs) = (&lhs.beside(rhs), &rhs.beside(lhs));
        let dtype = dtype(lhs.common_dtype(rhs))?;
        let device = common_device([lhs, rhs])?;
        let (lhs, rhs) = (lhs.node(dtype)?, rhs.node(dtype)?);
        let shape = broadcast_shapes(lhs.shape(), rhs.shape())?;
        Ok(Pair { lhs: fit(&lhs, &shape), rhs: fit(&rhs, &shape), device })
    }
}

/// An op on two nodes, in their common dtype and shape.
pub(super) fn broadcast_binary(op: Op, lhs: &UOp, rhs: &UOp) -> Result<UOp, Fault> {
    let dtype = lhs.dtype().promote(rhs.dtype());
    let shape = broadcast_shapes(lhs.shape(), rhs.shape())?;
    let [lhs, rhs] = [lhs, rhs].map(|x| fit(&x.cast(dtype), &shape));
    Ok(UOp::binary(op, &lhs, &rhs))
}

fn tensors<const N: usize>(values: [&Value; N]) -> impl Iterator<Item = &Tensor> {
    values.into_iter().filter_map(|v| match v {
        Value::Tensor(t) => Some(t),
        Value::Scalar(..) => None,
    })
}

/// Fails where an operand carries an error: before its dtype, which is unknown, takes part in anything.
pub(crate) fn valid<const N: usize>(values: [&Value; N]) -> Result<(), Fault> {
    Tensor::all_valid(tensors(values))
}

/// Fails where tensors are on different devices.
pub(super) fn one_device<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<(), Fault> {
    shared_device(tensors.into_iter().map(Tensor::device)).map(|_| ())
}

/// The device that every tensor among the operands is on.
pub(crate) fn common_device<const N: usize>(values: [&Value; N]) -> Result<Device, Fault> {
    let shared = shared_device(tensors(values).map(Tensor::device))?;
    Ok(shared.cloned().unwrap_or_else(Device::default_device))
}

fn shared_device<'a>(
    mut devices: impl Iterator<Item = &'a Device>,
) -> Result<Option<&'a Device>, Fault> {
    let Some(first) = devices.next() else { return Ok(None) };
    match devices.find(|d| *d != first) {
        Some(other) => refuse!("operands are on different devices, lhs {first}, rhs {other}"),
        None => Ok(Some(first)),
    }
}
