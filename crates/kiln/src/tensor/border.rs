//! Elements added around a tensor, and taken off.

use super::Tensor;
use super::length::Length;
use super::shape_args::{LengthArg, Lengths, ShapeArg, holdable, named};
use super::window::padded_with;
use crate::element::{Operand, Value};
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::{PadAxis, SliceAxis};
use kiln_ir::dtype::Const;
use kiln_ir::uop::{Linear, Named, Number};
use kiln_ir::{Op, UOp};
use smallvec::SmallVec;

/// How many elements to add before and after those of each axis: an array, slice or `Vec` of pairs. Negative numbers take
/// elements off.
pub trait PadsArg {
    #[doc(hidden)]
    fn lengths(&self) -> Vec<[Length; 2]>;
}

impl<T: LengthArg, U: LengthArg> PadsArg for [(T, U)] {
    fn lengths(&self) -> Vec<[Length; 2]> {
        self.iter().map(|(before, after)| [before.length(), after.length()]).collect()
    }
}
impl<T: LengthArg, U: LengthArg, const N: usize> PadsArg for [(T, U); N] {
    fn lengths(&self) -> Vec<[Length; 2]> {
        self.as_slice().lengths()
    }
}
impl<T: LengthArg, U: LengthArg> PadsArg for Vec<(T, U)> {
    fn lengths(&self) -> Vec<[Length; 2]> {
        self.as_slice().lengths()
    }
}
impl<P: PadsArg + ?Sized> PadsArg for &P {
    fn lengths(&self) -> Vec<[Length; 2]> {
        (**self).lengths()
    }
}

/// The numbers of elements to add. Fails if a variable is outside of its bounds.
fn numbers(pads: &[[Length; 2]]) -> Result<Vec<[i64; 2]>, Fault> {
    pads.iter().flatten().try_for_each(|n| n.check())?;
    Ok(pads.iter().map(|pair| pair.map(Length::value)).collect())
}

/// What those numbers were made from, where elements are added.
fn named_pads(pads: &[[Length; 2]]) -> Named {
    let pad = |number, n: Length| n.linear().filter(|_| n.value() > 0).map(|from| (number, from));
    let axis = |(axis, [before, after]): (usize, &[Length; 2])| {
        [pad(Number::Before(axis), *before), pad(Number::After(axis), *after)]
    };
    pads.iter().enumerate().flat_map(axis).flatten().collect()
}

/// What [`Tensor::pad_mode`] puts around a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PadMode {
    /// The elements beside the border, mirrored at the outermost ones, which are not repeated.
    Reflect,
    /// The outermost elements.
    Replicate,
    /// The elements of the other end.
    Circular,
}

type Pads = SmallVec<[PadAxis; 2]>;

/// `x` without what the negative numbers take off, and the numbers that are left.
pub(super) fn cropped(x: &UOp, pads: &[[i64; 2]]) -> Result<(UOp, Pads), Fault> {
    let shape = x.shape();
    if pads.len() != shape.len() {
        return refuse!("{} pairs for {} axes", pads.len(), shape.len());
    }
    let taken = |n: i64| usize::try_from(n.saturating_neg()).unwrap_or(0);
    let mut slices: SmallVec<[SliceAxis; 2]> = SmallVec::new();
    for (&[before, after], &n) in pads.iter().zip(shape) {
        let (start, off) = (taken(before), taken(before).saturating_add(taken(after)));
        let Some(len) = n.checked_sub(off) else {
            return refuse!("cannot take {off} elements off an axis of {shape:?}, which has {n}");
        };
        slices.push(SliceAxis { start: if len == 0 { 0 } else { start }, step: 1, len });
    }
    let added = |n: i64| usize::try_from(n).unwrap_or(0);
    let pads: Pads = pads
        .iter()
        .map(|&[a, b]| PadAxis { before: added(a), between: 0, after: added(b) })
        .collect();
    let x = x.slice(&slices);
    let sum = |(p, &n): (&PadAxis, &usize)| p.before.saturating_add(p.after).saturating_add(n);
    holdable(pads.iter().zip(x.shape()).map(sum).collect())?;
    Ok((x, pads))
}

pub(super) fn padded(x: &UOp, pads: &[[i64; 2]], value: Const) -> Result<UOp, Fault> {
    let (x, pads) = cropped(x, pads)?;
    match value.as_f64().to_bits() {
        0 => Ok(x.pad(&pads)),
        _ => Ok(padded_with(&x, value, |x| x.pad(&pads))),
    }
}

/// Says of a padding what its numbers were made from.
fn name_pad(new: &UOp, named: &Named) {
    if new.op() == Op::Pad {
        new.name_numbers(named);
    }
}

/// Constants around a tensor.
impl Tensor {
    /// Zeros before and after the elements of each axis: one pair per axis. A negative number takes elements off.
    ///
    /// ```
    /// use kiln::Tensor;
    /// assert_eq!(Tensor::from([7]).pad([(1, 2)]).to_vec::<i32>()?, [0, 7, 0, 0]);
    /// assert_eq!(Tensor::from([7, 8, 9]).pad([(-1, 1)]).to_vec::<i32>()?, [8, 9, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of pairs than axes; more taken off than is there.
    #[must_use]
    #[track_caller]
    pub fn pad(&self, pads: impl PadsArg) -> Tensor {
        self.pad_with(pads, false)
    }

    /// `value`, cast to the dtype, before and after the elements of each axis. A negative number takes elements off.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([7]).pad_with([(1, 1)], 5).to_vec::<i32>()?, [5, 7, 5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of pairs than axes; more taken off than is there; a value that is a tensor.
    #[must_use]
    #[track_caller]
    pub fn pad_with(&self, pads: impl PadsArg, value: impl Operand) -> Tensor {
        let pad = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let Value::Scalar(value, _) = value.into_value() else {
                return refuse!("wants a number, not a tensor");
            };
            let pads = pads.lengths();
            let new = padded(&x, &numbers(&pads)?, value)?;
            name_pad(&new, &named_pads(&pads));
            Ok(new)
        };
        self.lift("pad", pad())
    }

    /// Zeros after the elements of each axis, up to the lengths of `shape`; -1 keeps a length.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([7, 8]).pad_to([4]).to_vec::<i32>()?, [7, 8, 0, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of lengths than axes, one that is less than the axis has.
    #[must_use]
    #[track_caller]
    pub fn pad_to(&self, shape: impl ShapeArg) -> Tensor {
        let pad = || -> Result<UOp, Fault> {
            let (x, lengths, named) = (self.value()?, shape.lengths(), named(&shape)?);
            let new = padded(&x, &missing(&lengths, x.shape(), false)?, Const::Bool(false))?;
            // the length is what is given, not the number of zeros
            let is_given = |axis: &usize| lengths[*axis] != -1;
            let fixed = |axis| (Number::Length(axis), Linear::fixed(lengths[axis]));
            let given: Named = (0..lengths.len()).filter(is_given).map(fixed).collect();
            name_pad(&new, &named);
            name_pad(&new, &given);
            Ok(new)
        };
        self.lift("pad_to", pad())
    }

    /// The first elements of each axis, as many as `shape` says; -1 keeps a length. A view.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1, 2], [3, 4]]).shrink_to([-1, 1]).to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of lengths than axes, one that is more than the axis has.
    #[must_use]
    #[track_caller]
    pub fn shrink_to(&self, shape: impl ShapeArg) -> Tensor {
        let lengths = shape.lengths();
        self.alias("shrink_to", |v| {
            let named = named(&shape)?;
            let off = missing(&lengths, v.shape(), true)?;
            let kept =
                |(&n, [_, off]): (&usize, &[i64; 2])| SliceAxis::full((n as i64 + off) as usize);
            Ok(v.named_slice(v.shape().iter().zip(&off).map(kept).collect(), &named))
        })
    }
}

/// How many elements each axis lacks to be as long as `lengths` says: none is longer, or if it `shrinks`, shorter.
fn missing(lengths: &Lengths, shape: &[usize], shrinks: bool) -> Result<Vec<[i64; 2]>, Fault> {
    let lack = |(&want, &n): (&i64, &usize)| match want {
        -1 => Some([0, 0]),
        0.. if (want == n as i64) || (want < n as i64) == shrinks => Some([0, want - n as i64]),
        _ => None,
    };
    let all: Option<Vec<_>> = lengths.iter().zip(shape).map(lack).collect();
    match all.filter(|_| lengths.len() == shape.len()) {
        Some(all) => Ok(all),
        None => {
            refuse!("{shape:?} does not {} to {lengths:?}", if shrinks { "shrink" } else { "grow" })
        }
    }
}

/// Other elements around a tensor.
impl Tensor {
    /// More elements before and after those of each axis, one pair per axis, which are the tensor's own: mirrored, repeated
    /// or from the other end. A negative number takes elements off.
    ///
    /// ```
    /// use kiln::{PadMode, Tensor};
    /// let t = Tensor::from([1, 2, 3]);
    /// assert_eq!(t.pad_mode([(2, 1)], PadMode::Reflect).to_vec::<i32>()?, [3, 2, 1, 2, 3, 2]);
    /// assert_eq!(t.pad_mode([(1, 1)], PadMode::Replicate).to_vec::<i32>()?, [1, 1, 2, 3, 3]);
    /// assert_eq!(t.pad_mode([(1, 1)], PadMode::Circular).to_vec::<i32>()?, [3, 1, 2, 3, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of pairs than axes; more added than the axis has to mirror or repeat.
    #[must_use]
    #[track_caller]
    pub fn pad_mode(&self, pads: impl PadsArg, mode: PadMode) -> Tensor {
        let _method = outermost("pad_mode");
        let cropped = self.value().map_err(Fault::from).and_then(|x| {
            let pads = numbers(&pads.lengths())?;
            Ok((cropped(&x, &pads)?.1, pads))
        });
        let (adds, pads) = match cropped {
            Ok(cropped) => cropped,
            Err(fault) => return Tensor::broken(fault.at("pad_mode")),
        };
        let taken: Vec<_> = pads.iter().map(|p| (p[0].min(0), p[1].min(0))).collect();
        let mut t = self.pad(taken);
        for (axis, add) in adds.iter().enumerate() {
            t = match mode.borders(&t, axis, add) {
                Ok(None) => t,
                Ok(Some([before, after])) => Tensor::cat([&before, &t, &after], axis),
                Err(fault) => return Tensor::broken(fault.at("pad_mode")),
            };
        }
        t
    }
}

impl PadMode {
    /// What goes before and after the elements of an axis.
    fn borders(self, t: &Tensor, axis: usize, add: &PadAxis) -> Result<Option<[Tensor; 2]>, Fault> {
        let (n, before, after) = (t.shape()[axis], add.before, add.after);
        let most = match self {
            PadMode::Reflect => n.saturating_sub(1),
            PadMode::Replicate if n > 0 => usize::MAX,
            PadMode::Replicate | PadMode::Circular => n,
        };
        if before.max(after) > most {
            return refuse!(
                "({before}, {after}) {self:?} elements are more than axis {axis} of {:?} gives",
                t.shape()
            );
        }
        if before + after == 0 {
            return Ok(None);
        }
        let part = |start: usize, len: usize| t.piece(axis, start, len);
        let spread = |at: usize, len: usize| {
            let mut shape = t.shape().to_vec();
            shape[axis] = len;
            t.section(axis, at, 1, 1).expand(shape)
        };
        Ok(Some(match self {
            PadMode::Reflect => {
                [part(1, before).flip(axis), part(n - 1 - after.min(n - 1), after).flip(axis)]
            }
            PadMode::Replicate => [spread(0, before), spread(n - 1, after)],
            PadMode::Circular => [part(n - before, before), part(0, after)],
        }))
    }
}
