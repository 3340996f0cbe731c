//! What is known of an index's integers before anything runs: data in memory and numbers that the program wrote. What
//! is still to be computed is unknown.

use super::compute;
use crate::element::Element;
use crate::engine::record;
use crate::error::Fault;
use crate::{Device, engine};
use kiln_ir::reference::evaluate;
use kiln_ir::{Const, DType, Op, UOp, eval};
use std::ops::Range;

/// The smallest and the largest of some integers.
pub(super) type Bounds = (i64, i64);

/// Up to this many numbers that the program wrote are worked out to see whether they are inside an axis.
const MOST_NUMBERS: usize = 1 << 20;

/// Up to this many nodes are a little arithmetic.
const MOST_NODES: usize = 32;

/// The bounds of the integers of `at` if they are known, or the one that is outside of `allowed`.
pub(super) fn bounds(
    at: &UOp,
    allowed: Range<i64>,
    device: &Device,
) -> Result<Option<Result<Bounds, i128>>, Fault> {
    if at.numel() == 0 {
        return Ok(Some(Ok((0, 0))));
    }
    let (least, end) = (i128::from(allowed.start), i128::from(allowed.end));
    let is_inside = |&(low, high): &(i128, i128)| least <= low && high < end;
    let narrow = |(low, high): (i128, i128)| (low as i64, high as i64);
    // what follows from how they are made, or holds of all the data that they are some of
    let derived = Some((at.min() as i128, at.max() as i128)).filter(is_inside);
    let loose = match derived {
        Some(bounds) => Some(bounds),
        None => match viewed(at, false) {
            leaf if leaf.op() == Op::Buffer => {
                let found = record::unrecorded(|| extremes_of(leaf, device))?.filter(is_inside);
                found.iter().for_each(|(low, _)| record::guard(leaf, allowed.clone(), *low < 0));
                found
            }
            _ => None,
        },
    };
    if let Some(bounds) = loose {
        return Ok(Some(Ok(narrow(bounds))));
    }
    let Some(numbers) = exact(at, device)? else { return Ok(None) };
    Ok(Some(match numbers.iter().find(|&&n| !is_inside(&(n, n))) {
        Some(&outside) => Err(outside),
        None => Ok(narrow(extremes(numbers.into_iter()).expect("some numbers"))),
    }))
}

/// Whether all integers of a leaf are in a range, and one is negative or not.
pub(crate) fn are_like(
    leaf: &UOp,
    range: &Range<i64>,
    is_negative: bool,
    device: &Device,
) -> Result<bool, Fault> {
    let (start, end) = (i128::from(range.start), i128::from(range.end));
    let fits = |(low, high)| start <= low && high < end && (low < 0) == is_negative;
    Ok(extremes_of(leaf, device)?.is_some_and(fits))
}

/// What a node shows elements of, looking through casts or not.
fn viewed(node: &UOp, casts: bool) -> &UOp {
    let mut node = node;
    let shows = |op: Op| op.is_movement() && !matches!(op, Op::Pad | Op::Unwindow);
    while shows(node.op()) || (casts && node.op() == Op::Cast) {
        node = node.src(0);
    }
    node
}

fn extremes(numbers: impl Iterator<Item = i128> + Clone) -> Option<(i128, i128)> {
    Some((numbers.clone().min()?, numbers.max()?))
}

/// All integers, if they are data or numbers that the program wrote.
fn exact(at: &UOp, device: &Device) -> Result<Option<Vec<i128>>, Fault> {
    let leaf = viewed(at, true);
    let is_data = leaf.op() == Op::Buffer;
    if !is_data && !is_written_down(at) {
        return Ok(None);
    }
    let data = if is_data { constants(leaf, device)? } else { Vec::new() };
    let numbers = evaluate(at, &|_| data.clone());
    Ok(Some(numbers.into_iter().filter_map(Const::as_i128).collect()))
}

/// Whether it is a little arithmetic on constants and counters.
fn is_written_down(at: &UOp) -> bool {
    let known = |op: Op| {
        op.is_movement()
            || matches!(op, Op::Const | Op::Iota | Op::Cast | Op::Neg)
            || matches!(op, Op::Add | Op::Sub | Op::Mul | Op::FloorDiv | Op::FloorMod)
    };
    let mut stack = vec![at];
    for _ in 0..MOST_NODES {
        let Some(node) = stack.pop() else { return true };
        if !known(node.op()) || node.numel() > MOST_NUMBERS {
            return false;
        }
        stack.extend(node.srcs());
    }
    false
}

/// The smallest and largest integer of a leaf.
fn extremes_of(leaf: &UOp, device: &Device) -> Result<Option<(i128, i128)>, Fault> {
    engine::extremes(leaf, || Ok(range_of(leaf.dtype(), &compute::read::<u8>(leaf, device)?)))
}

fn range_of(dtype: DType, bytes: &[u8]) -> Option<(i128, i128)> {
    match dtype {
        DType::I8 => range::<i8>(bytes),
        DType::I16 => range::<i16>(bytes),
        DType::I32 => range::<i32>(bytes),
        DType::I64 => range::<i64>(bytes),
        DType::U8 => range::<u8>(bytes),
        DType::U16 => range::<u16>(bytes),
        DType::U32 => range::<u32>(bytes),
        DType::U64 => range::<u64>(bytes),
        _ => None,
    }
}

fn range<T: Element + Ord + Into<i128>>(bytes: &[u8]) -> Option<(i128, i128)> {
    let mut numbers = bytes.chunks_exact(T::DTYPE.size()).map(T::decode);
    let first = numbers.next()?;
    let (low, high) = numbers.fold((first, first), |(low, high), n| (low.min(n), high.max(n)));
    Some((low.into(), high.into()))
}

/// The elements of a leaf.
fn constants(leaf: &UOp, device: &Device) -> Result<Vec<Const>, Fault> {
    let bytes = compute::read::<u8>(leaf, device)?;
    let bits = |element: &[u8]| {
        let mut wide = [0; 8];
        wide[..element.len()].copy_from_slice(element);
        u64::from_le_bytes(wide)
    };
    let element = |e: &[u8]| eval::from_bits(bits(e), leaf.dtype());
    Ok(bytes.chunks_exact(leaf.dtype().size()).map(element).collect())
}
