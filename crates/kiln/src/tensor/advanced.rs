//! Indices that are tensors or lists, by NumPy's rules: from `s![..]` to points, and their reads and writes.
//!
//! The integers of all index tensors are broadcast together. Their common shape stands where they stand, if nothing
//! stands between them, and else in front of all other axes; a position beside them counts as one of them. A mask is the
//! positions where it is true, along its axes taken as one.

use super::broadcast::broadcast_shapes;
use super::index::pick;
use super::list::{List, Numbers};
use super::mask::{Mask, true_positions};
use super::points::{Pick, Points, integers};
use super::shape_args::holdable;
use super::view::{Slices, View};
use super::write::refuse_repeated;
use super::{Index, Indices, Tensor};
use crate::Device;
use crate::element::Value;
use crate::error::{Caller, Fault, refuse};
use kiln_ir::arg::{Shape, SliceAxis};
use kiln_ir::{DType, UOp};

/// What an index leaves in the result.
enum Part {
    /// A new axis.
    New,
    /// What a range picks, so many elements.
    Kept(usize),
    /// Nothing: a position.
    Dropped,
    /// Points, together with others of this kind.
    Picked(Source),
}

/// What says which elements of an axis are picked.
enum Source {
    Positions(Pick),
    Mask(Mask),
}

/// Indices resolved as far as that needs no data: each part but `New` has one axis of the view, in order.
struct Plan {
    view: View,
    parts: Vec<Part>,
    neighbours: bool,
}

impl Plan {
    fn new(indices: &Indices, view: &View, device: &Device) -> Result<Plan, Fault> {
        let (lengths, mut axis) = (view.shape(), 0);
        let (mut parts, mut slices, mut shape) = (Vec::new(), Slices::new(), Shape::new());
        for index in &indices.spelled_out(lengths.len())? {
            let taken = index.axes();
            let own = &lengths[axis..axis + taken];
            match index {
                Index::NewAxis | Index::Ellipsis => parts.push(Part::New),
                Index::At(_) | Index::Slice { .. } => {
                    let slice = pick(index, axis, own[0])?;
                    let is_one = matches!(index, Index::At(_));
                    parts.push(if is_one { Part::Dropped } else { Part::Kept(slice.len) });
                    shape.push(slice.len);
                    slices.push(slice);
                }
                Index::Tensor(t) => {
                    parts.push(Part::Picked(of_tensor(t, axis, shape.len(), own, device)?));
                    slices.extend(own.iter().map(|&n| SliceAxis::full(n)));
                    shape.push(own.iter().product());
                }
                Index::List(list) => {
                    parts.push(Part::Picked(of_list(list, axis, shape.len(), own, device)?));
                    slices.extend(own.iter().map(|&n| SliceAxis::full(n)));
                    shape.push(own.iter().product());
                }
            }
            axis += taken;
        }
        let view = view.slice(slices).reshape(shape);
        Ok(Plan { view, parts, neighbours: indices.picks_are_neighbours() })
    }

    /// Where the axes of the picks stand in the result.
    fn place(&self) -> usize {
        let picks = |p: &Part| matches!(p, Part::Dropped | Part::Picked(_));
        match self.neighbours {
            true => self.parts.iter().take_while(|p| !picks(p)).count(),
            false => 0,
        }
    }

    /// The points. What masks pick is computed.
    fn points(self, device: &Device, caller: Caller) -> Result<Points, Fault> {
        let (place, mut rest, mut picks) = (self.place(), Shape::new(), Vec::new());
        for part in self.parts {
            match part {
                Part::New => rest.push(1),
                Part::Kept(n) => rest.push(n),
                Part::Dropped => {}
                Part::Picked(Source::Positions(pick)) => picks.push(pick),
                Part::Picked(Source::Mask(mask)) => picks.push(mask.positions(device)?),
            }
        }
        let mut across = Shape::new();
        for pick in &picks {
            across = broadcast_shapes(&across, pick.shape()).map_err(|_| unlike(&picks))?;
        }
        let (before, after) = rest.split_at(place);
        let around = |middle: &[usize]| -> Shape { [before, middle, after].concat().into() };
        let ones = |n: usize| vec![1; n];
        let aligned = |pick: Pick| {
            let mut own = ones(across.len() - pick.shape().len());
            own.extend(pick.shape());
            let own = [ones(place), own, ones(after.len())].concat();
            pick.shaped(|at| at.reshape(own.as_slice()))
        };
        Ok(Points {
            view: self.view,
            picks: picks.into_iter().map(aligned).collect(),
            plain: around(&ones(across.len())),
            shape: holdable(around(&across))?,
            caller,
        })
    }

    /// The only index that picks, if that is a mask whose axis in the result is where it is in the view.
    fn only_mask(&self) -> Option<(&Mask, usize)> {
        let mut picked =
            self.parts.iter().enumerate().filter(|(_, p)| matches!(p, Part::Picked(_)));
        let (Some((at, Part::Picked(Source::Mask(mask)))), None) = (picked.next(), picked.next())
        else {
            return None;
        };
        let axis = self.parts[..at].iter().filter(|p| !matches!(p, Part::Dropped)).count();
        (axis == self.place()).then_some((mask, axis))
    }

    /// The view with an axis for each of the result's, of which `axis` has all that the mask chooses from.
    fn unmasked(&self, mask: &Mask) -> View {
        let length = |p: &Part| match p {
            Part::New => Some(1),
            Part::Kept(n) => Some(*n),
            Part::Dropped => None,
            Part::Picked(_) => Some(mask.len()),
        };
        self.view.reshape(self.parts.iter().filter_map(length).collect())
    }
}

fn unlike(picks: &[Pick]) -> Fault {
    let shapes: Vec<&Shape> = picks.iter().map(Pick::shape).collect();
    Fault::New(format!("indices do not broadcast, shapes {shapes:?}"))
}

/// What a tensor picks of `lengths`, which are `axis` of what is indexed and later `in_view`.
fn of_tensor(
    t: &Tensor,
    axis: usize,
    in_view: usize,
    lengths: &[usize],
    device: &Device,
) -> Result<Source, Fault> {
    let node = integers(t, device)?;
    if node.dtype() == DType::Bool {
        return Ok(Source::Mask(Mask::new(t.clone(), axis, in_view, lengths)?));
    }
    Ok(Source::Positions(Pick::new(axis, lengths[0], node, device)?.along(in_view)))
}

/// What a list picks.
fn of_list(
    list: &List,
    axis: usize,
    in_view: usize,
    lengths: &[usize],
    device: &Device,
) -> Result<Source, Fault> {
    let Some(shape) = &list.shape else { return refuse!("rows of an index differ in length") };
    match &list.numbers {
        Numbers::Mask(mask) => {
            Mask::check(shape, axis, lengths)?;
            let at = true_positions(mask)?;
            Pick::trusted(&at, &[at.len()], in_view, mask.len(), device)
        }
        Numbers::Positions(at) => {
            let n = lengths[0] as i64;
            if let Some(i) = at.iter().find(|&&i| i < -n || i >= n) {
                return refuse!("index {i} is out of range for axis {axis} of length {n}");
            }
            let counted: Vec<i64> = at.iter().map(|&i| if i < 0 { i + n } else { i }).collect();
            Pick::trusted(&counted, shape, in_view, lengths[0], device)
        }
    }
    .map(Source::Positions)
}

/// Reads and writes at points.
impl Tensor {
    /// The elements that `indices` pick, tensors or lists among them.
    pub(super) fn picked(&self, indices: &Indices, caller: Caller) -> Result<UOp, Fault> {
        Tensor::all_valid([self])?;
        let plan = Plan::new(indices, &self.view, self.device())?;
        let points = plan.points(self.device(), caller)?;
        Ok(self.seen(|base| points.of(base))?)
    }

    /// Writes where `indices` pick, tensors or lists among them.
    pub(super) fn write_picked(
        &self,
        indices: &Indices,
        value: Value,
        caller: Caller,
    ) -> Result<(), Fault> {
        Tensor::all_valid([self])?;
        let plan = Plan::new(indices, &self.view, self.device())?;
        refuse_repeated(&plan.view)?;
        if let Some((mask, axis)) = plan.only_mask()
            && is_one_along(&value, axis, plan.parts_in_result())
        {
            let target = Tensor { view: plan.unmasked(mask), ..self.clone() };
            return target.write_where(&mask.shown(axis, target.shape())?, &value);
        }
        let points = plan.points(self.device(), caller)?;
        let (value, derived) = self.for_writing(&value, &points.shape)?;
        self.change("set", derived, |old| points.written(old, &value))
    }

    /// Writes `value` where `mask`, of this shape, is true.
    fn write_where(&self, mask: &UOp, value: &Value) -> Result<(), Fault> {
        let (value, derived) = self.for_writing(value, self.shape())?;
        if self.numel() == 0 {
            return Ok(());
        }
        self.change("set", derived, |old| {
            let new = mask.where_(&value, &self.view.of(old));
            self.view.inverse(&new).unwrap_or_else(|| self.view.written(old, &new))
        })
    }
}

impl Plan {
    /// The number of axes of the result, if what picks is one mask.
    fn parts_in_result(&self) -> usize {
        self.parts.iter().filter(|p| !matches!(p, Part::Dropped)).count()
    }
}

/// Whether `value` is the same along `axis` of the `rank` axes that it is broadcast to.
fn is_one_along(value: &Value, axis: usize, rank: usize) -> bool {
    match value {
        Value::Scalar(..) => true,
        Value::Tensor(t) => {
            let own = (axis + t.ndim()).checked_sub(rank);
            own.is_none_or(|own| t.shape()[own] == 1)
        }
    }
}
