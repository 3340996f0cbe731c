//! Tensors as views of their storages: lengths and strides as slices, permutations and expansions, and where that is not
//! possible, as positions.

use super::objects::{Objects, Spec};
use crate::error::Fault;
use crate::files::part::Part;
use crate::files::source::byte_len;
use crate::nn::StateDict;
use crate::{DType, Device, Tensor};

/// An axis: its number, length and stride.
type Axis = (usize, usize, usize);

/// Tensors by name; `find` has the bytes of storages.
pub(super) fn named<'a>(
    specs: &[(String, usize)],
    objects: &Objects,
    device: &Device,
    find: impl Fn(&str) -> Result<Part<'a>, Fault>,
) -> Result<StateDict, Fault> {
    let tensor = |spec: &Spec| -> Result<Tensor, Fault> {
        let part = find(&objects.storages[spec.storage].key)?;
        view(&part, spec, device)
    };
    specs.iter().map(|(name, at)| Ok((name.clone(), tensor(&objects.tensors[*at])?))).collect()
}

/// The tensor that `spec` describes in a storage.
fn view(part: &Part<'_>, spec: &Spec, device: &Device) -> Result<Tensor, Fault> {
    let Spec { dtype, offset, shape, strides, .. } = spec;
    let wrong = || part.fault(format!("it has no {shape:?} of {dtype} with strides {strides:?}"));
    let numel = byte_len(*dtype, shape).ok_or_else(wrong)? / dtype.size();
    let has = (part.len() / dtype.size()).checked_sub(*offset).ok_or_else(wrong)?;
    let flat = |len: usize| -> Result<Tensor, Fault> {
        let node = part.elements(offset * dtype.size(), *dtype, &[len], device)?;
        Ok(Tensor::from_node(node, device))
    };
    if numel == 0 {
        return Ok(flat(0)?.reshape(shape));
    }
    let steps = shape.iter().zip(strides).map(|(&n, &stride)| (n - 1).checked_mul(stride));
    let last = steps.into_iter().try_fold(0, |sum: usize, step| sum.checked_add(step?));
    if last.is_none_or(|last| last >= has) {
        return Err(wrong());
    }
    let axes = shape.iter().zip(strides).enumerate().map(|(i, (&n, &stride))| (i, n, stride));
    let (mut real, rest): (Vec<Axis>, Vec<Axis>) =
        axes.partition(|&(_, n, stride)| n > 1 && stride > 0);
    real.sort_by_key(|&(_, _, stride)| std::cmp::Reverse(stride));
    let found = match sliced(&flat(has)?, &real) {
        Some(found) => found,
        None => placed(&flat(has)?, &real),
    };
    Ok(ordered(&found, &real, &rest, shape))
}

/// Axes from the largest stride to the smallest, each a cut of the one before.
fn sliced(flat: &Tensor, axes: &[Axis]) -> Option<Tensor> {
    let (mut t, mut shape) = (flat.clone(), Vec::new());
    for &(_, n, stride) in axes {
        let row = t.shape()[shape.len()];
        let len = n.checked_mul(stride).filter(|&len| len <= row)?;
        t = t.narrow(shape.len() as i64, 0, len);
        shape.push(n);
        t = t.reshape(shape.iter().copied().chain([stride]).collect::<Vec<usize>>());
    }
    Some(t.narrow(shape.len() as i64, 0, 1))
}

/// The same for strides that overlap: elements by their positions.
fn placed(flat: &Tensor, axes: &[Axis]) -> Tensor {
    let mut at = Tensor::arange_with(1, (DType::I64, flat.device()));
    for &(_, n, stride) in axes {
        let steps = Tensor::arange_with(n as i64, (DType::I64, flat.device())) * stride as i64;
        at = at.reshape(at.shape().iter().copied().chain([1]).collect::<Vec<usize>>()) + steps;
    }
    let shape: Vec<usize> = axes.iter().map(|&(_, n, _)| n).chain([1]).collect();
    flat.take(&at.reshape(shape))
}

/// `t`, which has the axes `real` and one more of length 1, in the order of the tensor and with what is repeated.
fn ordered(t: &Tensor, real: &[Axis], rest: &[Axis], shape: &[usize]) -> Tensor {
    let ones = rest.iter().map(|_| 1);
    let lengths: Vec<usize> = real.iter().map(|&(_, n, _)| n).chain(ones).collect();
    let mut order = vec![0; shape.len()];
    real.iter().chain(rest).enumerate().for_each(|(i, axis)| order[axis.0] = i as i64);
    t.reshape(lengths).permute(order).expand(shape)
}
