//! Points: elements of a view that integer tensors pick along some axes, and the row-major positions of these elements,
//! as arithmetic on the integers. There is never a table of positions.

use super::Tensor;
use super::compute;
use super::known::{Bounds, bounds};
use super::shape_args::Lengths;
use super::view::{Slices, View};
use crate::Device;
use crate::error::{Caller, Fault, refuse};
use kiln_ir::arg::{Axes, ReduceOp, Shape, SliceAxis};
use kiln_ir::{DType, Op, UOp};

/// What integers pick along one axis.
pub(super) struct Pick {
    axis: usize,
    /// The number that the program knows the axis by.
    named: usize,
    /// The length of the axis.
    len: usize,
    /// One integer for each point; of the points' rank, with length 1 along the axes that it is the same for.
    at: UOp,
    /// The smallest and largest integer, where they are known to be inside the axis.
    inside: Option<Bounds>,
}

impl Pick {
    /// The integers of `at` along `axis` of `len` elements; those that are known must be there.
    pub(super) fn new(axis: usize, len: usize, at: UOp, device: &Device) -> Result<Pick, Fault> {
        if !at.dtype().is_int() {
            return refuse!("indices are integers or bool, not {}", at.dtype());
        }
        let known = bounds(&at, -(len as i64)..len as i64, device)?;
        let inside = match known {
            Some(Err(i)) => {
                return refuse!("index {i} is out of range for axis {axis} of length {len}");
            }
            Some(Ok(bounds)) => Some(bounds),
            None if len == 0 => return refuse!("there is no index into axis {axis} of length 0"),
            None => None,
        };
        Ok(Pick { axis, named: axis, len, at, inside })
    }

    /// The positions `at` under `shape`, which count from the start and are there.
    pub(super) fn trusted(
        at: &[i64],
        shape: &[usize],
        axis: usize,
        len: usize,
        device: &Device,
    ) -> Result<Pick, Fault> {
        let shape = Shape::from_slice(shape);
        let at = match len <= i32::MAX as usize {
            true => {
                let narrow: Vec<i32> = at.iter().map(|&i| i as i32).collect();
                compute::upload(&narrow, DType::I32, shape, device)?
            }
            false => compute::upload(at, DType::I64, shape, device)?,
        };
        let inside = Some((0, len.saturating_sub(1) as i64));
        Ok(Pick { axis, named: axis, len, at, inside })
    }

    pub(super) fn shape(&self) -> &Shape {
        self.at.shape()
    }

    /// Of another axis, which is as long.
    pub(super) fn along(self, axis: usize) -> Pick {
        Pick { axis, ..self }
    }

    /// With its integers under another shape.
    pub(super) fn shaped(self, change: impl FnOnce(UOp) -> UOp) -> Pick {
        Pick { at: change(self.at), ..self }
    }

    /// A dtype in which integers, the length and its negative are numbers that compare.
    fn wide(&self) -> DType {
        match self.at.dtype() {
            DType::U64 => DType::U64,
            DType::I64 | DType::U32 => DType::I64,
            _ if self.len > i32::MAX as usize => DType::I64,
            _ => DType::I32,
        }
    }

    /// The integers counted from the start.
    fn counted(&self, dtype: DType) -> UOp {
        let wide = if self.inside.is_some() { dtype } else { self.wide() };
        let at = self.at.cast(wide);
        let counts_back =
            !self.at.dtype().is_unsigned() && self.inside.is_none_or(|(low, _)| low < 0);
        let at = match counts_back {
            true => at.lt(&at.const_like(0)).where_(&(&at + self.len as i64), &at),
            false => at,
        };
        self.within(at).cast(dtype)
    }

    /// The same integers inside the axis, as anybody can tell by their bounds: then positions cannot wrap, and strides are
    /// seen in them.
    fn within(&self, at: UOp) -> UOp {
        let last = self.len.saturating_sub(1) as i64;
        match at.min() >= 0 && at.max() <= last {
            true => at,
            false => at.maximum(&at.const_like(0)).minimum(&at.const_like(last)),
        }
    }

    /// Where the integers are inside the axis, unless all are known to be.
    fn is_inside(&self) -> Option<UOp> {
        if self.inside.is_some() {
            return None;
        }
        let at = self.at.cast(self.wide());
        let below = at.lt(&at.const_like(self.len as i64));
        match at.dtype().is_unsigned() {
            true => Some(below),
            false => Some(at.lt(&at.const_like(-(self.len as i64))).not().and(&below)),
        }
    }
}

/// Elements of a view: all of them along its plain axes, and of the others those that integers pick.
pub(super) struct Points {
    /// What is picked from.
    pub(super) view: View,
    pub(super) picks: Vec<Pick>,
    /// The view's shape as the points have it: with length 1 along the axes that only picks vary along.
    pub(super) plain: Shape,
    /// One point for each element.
    pub(super) shape: Shape,
    /// Who picks.
    pub(super) caller: Caller,
}

impl Points {
    /// The points' elements of `base`, the storage's version.
    pub(super) fn of(&self, base: &UOp) -> UOp {
        let version = if base.op() == Op::Mark { base.src(0) } else { base };
        match version.op() {
            _ if self.shape.contains(&0) => self.none_of(base),
            // straight from memory
            Op::Buffer if self.view.strides().is_some() => {
                self.view.ground(base).gather(&self.at_ground())
            }
            // only what the view shows is computed
            _ => self.view.of(base).gather(&self.at_view()),
        }
    }

    /// No elements, which are read all the same: the gradient of `base` is zeros.
    fn none_of(&self, base: &UOp) -> UOp {
        let all = self.view.of(base);
        let flat = all.reshape([all.numel()].as_slice());
        flat.slice(&[SliceAxis { start: 0, step: 1, len: 0 }]).reshape(self.shape.clone())
    }

    /// The version of `base` with `value` at the points. Of points that are the same, the last one's counts.
    pub(super) fn written(&self, base: &UOp, value: &UOp) -> UOp {
        match self.shape.contains(&0) {
            true => base.clone(),
            false => self.view.written_at(base, value, &self.at_ground()),
        }
    }

    /// The points' positions in what the view shows.
    fn at_view(&self) -> UOp {
        let shape = self.view.shape();
        let mut step = 1;
        let mut strides: Lengths = shape.iter().map(|_| 0).collect();
        for (stride, &n) in strides.iter_mut().zip(shape).rev() {
            *stride = step;
            step *= n as i64;
        }
        self.at(&UOp::positions(shape.clone()), 0, &strides)
    }

    /// The points' positions in the view's ground.
    pub(super) fn at_ground(&self) -> UOp {
        let positions = self.view.positions();
        match self.view.strides() {
            Some((offset, strides)) => self.at(&positions, offset, &strides),
            None => {
                let at = positions.gather(&self.at_view());
                self.skipping(at)
            }
        }
    }

    /// The positions of points, where `positions` are those of the view's elements, the first one `offset` and neighbours
    /// as far apart as `strides` says.
    fn at(&self, positions: &UOp, offset: i64, strides: &[i64]) -> UOp {
        let dtype = positions.dtype();
        let steps = self.picks.iter().filter(|pick| strides[pick.axis] != 0).map(|pick| {
            let at = pick.counted(dtype);
            if strides[pick.axis] == 1 { at } else { at * strides[pick.axis] }
        });
        let across = self.across();
        let picked = steps.map(|at| at.expand(across.clone())).reduce(|a, b| a + b);
        let plain = self.plain_positions(positions, offset).expand(self.shape.clone());
        let at = match picked {
            Some(picked) if self.plain.iter().all(|&n| n == 1) && offset == 0 => {
                picked.expand(self.shape.clone())
            }
            Some(picked) => picked.expand(self.shape.clone()) + plain,
            None => plain,
        };
        self.skipping(at)
    }

    /// The positions of the points whose picks are all 0.
    fn plain_positions(&self, positions: &UOp, offset: i64) -> UOp {
        if self.plain.iter().all(|&n| n == 1) {
            return UOp::constant(offset, positions.dtype()).broadcast_to(&self.plain);
        }
        let mut slices: Slices = positions.shape().iter().map(|&n| SliceAxis::full(n)).collect();
        self.picks.iter().for_each(|pick| slices[pick.axis] = SliceAxis::full(1));
        positions.slice(&slices).reshape(self.plain.clone())
    }

    /// The shape that the picks broadcast to.
    fn across(&self) -> Shape {
        let length = |i: usize| self.picks.iter().map(|p| p.shape()[i]).find(|&n| n != 1);
        (0..self.shape.len()).map(|i| length(i).unwrap_or(1)).collect()
    }

    /// `at`, but -1, which is no position, where an integer is outside its axis.
    fn skipping(&self, at: UOp) -> UOp {
        match self.all_inside() {
            Some(inside) => {
                let at = inside.expand(self.shape.clone()).where_(&at, &at.const_like(-1));
                self.checked(at)
            }
            None => at,
        }
    }

    /// `at`, which is an error to compute where an integer turns out to be outside its axis.
    fn checked(&self, at: UOp) -> UOp {
        self.picks.iter().fold(at, |at, pick| match pick.is_inside() {
            Some(inside) => {
                let axes: Axes = (0..inside.shape().len()).collect();
                let (axis, len, caller) = (pick.named, pick.len, self.caller);
                let text =
                    format!("an index is out of range for axis {axis} of length {len} in {caller}");
                at.checked(&inside.not().reduce(ReduceOp::Add, axes), &text)
            }
            None => at,
        })
    }

    /// Where all integers are inside their axes, in the shape that the picks broadcast to.
    fn all_inside(&self) -> Option<UOp> {
        let across = self.across();
        let inside = self.picks.iter().filter_map(Pick::is_inside);
        inside.map(|inside| inside.expand(across.clone())).reduce(|a, b| a.and(&b))
    }
}

/// The integers of `index` as a node, for something on `device`. For a file they may be on any, and are copied now.
pub(super) fn integers(index: &Tensor, device: &Device) -> Result<UOp, Fault> {
    Tensor::all_valid([index])?;
    match index.device() == device {
        true => Ok(index.value()?),
        false if device.file().is_some() => Ok(index.to(device).value()?),
        false => refuse!("the index is on {}, what is indexed on {device}", index.device()),
    }
}
