//! Values that lie on several devices, split along an axis or whole on each (replicated). A graph over such values is
//! partitioned: it becomes a graph for each device, with copies where one needs what another has. (Xu et al., GSPMD, 2021.)
//!
//! An op without a rule of its own gets its sources whole on each device, and is computed on each. So a program means the
//! same however its values are split; a rule only saves copies and work.

use super::all_reduce::all_reduce;
use super::leaf;
use super::sharded::{Sharded, Split, gathered, moved};
use crate::device::{ALONG, Device};
use kiln_ir::arg::{Arg, PadAxis, Shape, SliceAxis, WindowArg};
use kiln_ir::uop::{Srcs, rebuild, remade_all, toposort_all};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The parts of values of a set of devices.
pub(super) fn partition(roots: &[UOp], devices: &[Device]) -> Vec<Sharded> {
    let mut partitioner = Partitioner { devices, done: FxHashMap::default() };
    let roots = &written_out(roots)[..];
    for node in toposort_all(roots, |node| !is_given(node)) {
        let value = partitioner.value(&node);
        partitioner.done.insert(node.id(), value);
    }
    roots.iter().map(|root| partitioner.done[&root.id()].clone()).collect()
}

/// The nodes with composites written out.
fn written_out(roots: &[UOp]) -> Vec<UOp> {
    let given = |node: &UOp| is_given(node).then(|| node.clone());
    remade_all(roots, given, |node, srcs| {
        node.decomposition(&srcs).unwrap_or_else(|| rebuild(node, srcs))
    })
}

/// Whether a node's parts are not made of those of its sources.
fn is_given(node: &UOp) -> bool {
    leaf::of(node).is_some() || node.op() == Op::Copy && !is_within(node)
}

/// Whether a copy goes from a set of devices to the same.
fn is_within(copy: &UOp) -> bool {
    let members = |name: Option<Arc<str>>| name.and_then(|name| Device::exact(&name).members());
    let from = members(place(copy.src(0)));
    from.is_some() && from == members(copy.arg().device())
}

/// The device that a value is on, if its graph says so: the nearest memory and copies do.
fn place(value: &UOp) -> Option<Arc<str>> {
    let says = |n: &UOp| n.arg().device();
    toposort_all(std::slice::from_ref(value), |n| says(n).is_none()).iter().find_map(says)
}

struct Partitioner<'a> {
    devices: &'a [Device],
    /// By node.
    done: FxHashMap<usize, Sharded>,
}

impl Partitioner<'_> {
    fn value(&self, node: &UOp) -> Sharded {
        if let Some(value) = leaf::of(node) {
            return leaf::sharded_parts(&value).unwrap_or_else(|| self.everywhere(&value));
        }
        let value = match node.op() {
            Op::Copy => return self.copied(node),
            Op::Const | Op::Iota => return self.everywhere(node),
            Op::Detach | Op::Mark | Op::Vjp | Op::Remat => return self.source(node, 0),
            Op::Contiguous => self.elementwise(node),
            Op::Bitcast if node.shape() != node.src(0).shape() => None,
            Op::Reduce => self.reduced(node),
            Op::Gather => self.looked_up(node),
            Op::Update => Some(self.updated(node)),
            op if op.is_elementwise() => self.elementwise(node),
            op if op.is_movement() && node.srcs().len() == 1 => self.viewed(node),
            _ => None,
        };
        value.unwrap_or_else(|| self.whole(node))
    }

    fn source(&self, node: &UOp, at: usize) -> Sharded {
        self.done[&node.src(at).id()].clone()
    }

    /// The same value for each device.
    fn everywhere(&self, x: &UOp) -> Sharded {
        Sharded { parts: vec![x.clone(); self.devices.len()], split: None }
    }

    /// The node of these sources, on each device.
    fn built(
        &self,
        sources: &[Sharded],
        split: Option<Split>,
        build: impl Fn(usize, Srcs) -> UOp,
    ) -> Sharded {
        let part = |i: usize| build(i, sources.iter().map(|s| s.parts[i].clone()).collect());
        Sharded { parts: (0..self.devices.len()).map(part).collect(), split }
    }

    /// What an op without a rule is: the sources are whole.
    fn whole(&self, node: &UOp) -> Sharded {
        let sources: Vec<Sharded> =
            (0..node.srcs().len()).map(|at| self.replicated(&self.source(node, at))).collect();
        self.built(&sources, None, |_, srcs| renewed(node, srcs))
    }

    /// The whole value on each device. (All-gather.)
    fn replicated(&self, value: &Sharded) -> Sharded {
        if value.split.is_none() {
            return value.clone();
        }
        let parts = self.devices.iter().map(|to| gathered(value, self.devices, to));
        Sharded { parts: parts.collect(), split: None }
    }

    fn split(&self, value: &Sharded, split: &Split) -> Sharded {
        if value.split.as_ref() == Some(split) {
            return value.clone();
        }
        let whole = self.replicated(value);
        let parts = whole.parts.iter().enumerate().map(|(i, x)| split.part(x, i));
        Sharded { parts: parts.collect(), split: Some(split.clone()) }
    }

    /// A value that comes to the devices, or is split in another way.
    fn copied(&self, copy: &UOp) -> Sharded {
        let to = copy.arg().device().expect("a copy has a device");
        let axis = to.split_once(ALONG).map(|(_, axis)| axis);
        let split = axis
            .and_then(|axis| axis.parse().ok())
            .map(|axis: usize| Split::even(axis, copy.shape()[axis], self.devices.len()));
        if is_within(copy) {
            let value = self.source(copy, 0);
            return match (&split, axis) {
                (Some(split), _) => self.split(&value, split),
                (None, Some(_)) => self.replicated(&value),
                // it only says where the value is
                (None, None) => value,
            };
        }
        let from = place(copy.src(0)).map(|from| Device::exact(&from));
        let part = |(i, to): (usize, &Device)| {
            let x = copy.src(0);
            let part = split.as_ref().map_or_else(|| x.clone(), |split| split.part(x, i));
            from.as_ref().map_or_else(|| part.clone(), |from| moved(&part, from, to))
        };
        Sharded { parts: self.devices.iter().enumerate().map(part).collect(), split }
    }

    fn elementwise(&self, node: &UOp) -> Option<Sharded> {
        let sources: Vec<Sharded> =
            (0..node.srcs().len()).map(|at| self.source(node, at)).collect();
        let split = sources.iter().find_map(|s| s.split.clone())?;
        // scalars fit any part
        let fitted = |(source, x): (&Sharded, &UOp)| match x.shape().is_empty() {
            true => self.replicated(source),
            false => self.split(source, &split),
        };
        let sources: Vec<Sharded> = sources.iter().zip(node.srcs()).map(fitted).collect();
        Some(self.built(&sources, Some(split), |_, srcs| renewed(node, srcs)))
    }

    /// Along another axis each device reduces its part. Along the axis of the split the results are combined.
    fn reduced(&self, node: &UOp) -> Option<Sharded> {
        let value = self.source(node, 0);
        let split = value.split.clone()?;
        let Arg::Reduce { op, axes } = node.arg() else { return None };
        let partial =
            |split| self.built(std::slice::from_ref(&value), split, |_, srcs| renewed(node, srcs));
        if axes.contains(&split.axis) {
            let parts = all_reduce(&partial(None).parts, *op, self.devices);
            return Some(Sharded { parts, split: None });
        }
        let before = axes.iter().filter(|&&a| a < split.axis).count();
        Some(partial(Some(split.along(split.axis - before))))
    }

    /// Elements at positions that are split, of a value that is whole.
    fn looked_up(&self, node: &UOp) -> Option<Sharded> {
        let at = self.source(node, 1);
        let split = at.split.clone()?;
        let sources = [self.replicated(&self.source(node, 0)), at];
        Some(self.built(&sources, Some(split), |_, srcs| renewed(node, srcs)))
    }

    /// Positions are those of the whole value. What was split before is split again.
    fn updated(&self, node: &UOp) -> Sharded {
        let whole = self.whole(node);
        match &self.source(node, 0).split {
            Some(split) => self.split(&whole, split),
            None => whole,
        }
    }

    /// A view that each device has of its own part, if there is one.
    fn viewed(&self, node: &UOp) -> Option<Sharded> {
        let value = self.source(node, 0);
        let split = value.split.clone()?;
        let axis = split.axis;
        let sources = std::slice::from_ref(&value);
        let each = |split: Split, view: &dyn Fn(usize, &UOp) -> UOp| {
            self.built(sources, Some(split), |i, srcs| {
                let new = view(i, &srcs[0]);
                new.copy_origin(node);
                new
            })
        };
        Some(match node.arg() {
            Arg::Axes(axes) => {
                let to = axes.iter().position(|&from| from == axis)?;
                each(split.along(to), &|_, x| x.permute(axes.clone()))
            }
            Arg::Shape(shape) if node.op() == Op::Expand => {
                // an axis of one element may be split, too
                (shape[axis] == node.src(0).shape()[axis]).then_some(())?;
                each(split.clone(), &|i, x| x.expand(with_len(shape, axis, split.len(i))))
            }
            Arg::Shape(shape) => {
                let to = reshaped(node.src(0).shape(), shape, &split)?;
                each(to.clone(), &|i, x| x.reshape(with_len(shape, to.axis, to.len(i))))
            }
            Arg::Slice(slices) => {
                (slices[axis] == SliceAxis::full(node.src(0).shape()[axis])).then_some(())?;
                let own = |i: usize| {
                    let mut own = slices.clone();
                    own[axis] = SliceAxis::full(split.len(i));
                    own
                };
                each(split.clone(), &|i, x| x.slice(&own(i)))
            }
            Arg::Pad(pads) => {
                let to = padded(&split, pads[axis])?;
                let own = |i: usize| {
                    let (first, last) = (i == 0, i + 1 == self.devices.len());
                    let mut own = pads.clone();
                    own[axis].before = if first { pads[axis].before } else { 0 };
                    own[axis].after = if last { pads[axis].after } else { 0 };
                    own
                };
                each(to, &|i, x| x.pad(&own(i)))
            }
            Arg::Window(w) if w.axis != axis => {
                let is_window = node.op() == Op::Window;
                // of two axes one is new, or gone, behind the window's
                let to = match axis > w.axis {
                    true if is_window => axis + 1,
                    _ => axis,
                };
                windowed(*w, axis, is_window)?;
                each(split.along(to), &|_, x| if is_window { x.window(*w) } else { x.unwindow(*w) })
            }
            _ => return None,
        })
    }
}

/// Whether a window leaves a split axis alone: `Unwindow` has the positions of windows behind its own axis.
fn windowed(w: WindowArg, axis: usize, is_window: bool) -> Option<()> {
    (is_window || axis != w.axis + 1).then_some(())
}

/// The node of other sources. Its origin stays.
fn renewed(node: &UOp, srcs: Srcs) -> UOp {
    let new = rebuild(node, srcs);
    new.copy_origin(node);
    new
}

fn with_len(shape: &[usize], axis: usize, len: usize) -> Shape {
    let mut shape = Shape::from_slice(shape);
    shape[axis] = len;
    shape
}

/// The split of a reshaped value, whose parts are the same elements: an axis with as much before it, that can be cut at the
/// same elements.
fn reshaped(from: &[usize], to: &[usize], split: &Split) -> Option<Split> {
    let inner = |shape: &[usize], axis: usize| shape[axis + 1..].iter().product::<usize>();
    let before: usize = from[..split.axis].iter().product();
    let elements = inner(from, split.axis);
    let fits = |&axis: &usize| {
        let new = inner(to, axis);
        let cuts = |&bound: &usize| new > 0 && (bound * elements).is_multiple_of(new);
        to[..axis].iter().product::<usize>() == before
            && to[axis] * new == from[split.axis] * elements
            && split.bounds.iter().all(cuts)
    };
    let axis = (0..to.len()).rev().find(fits)?;
    let bounds = split.bounds.iter().map(|b| b * elements / inner(to, axis)).collect();
    Some(Split { axis, bounds })
}

/// The split of a padded value: the first and the last part become longer.
fn padded(split: &Split, pad: PadAxis) -> Option<Split> {
    (pad.between == 0).then_some(())?;
    let last = split.bounds.len() - 1;
    let bound = |(i, b): (usize, &usize)| match i {
        0 => 0,
        _ if i == last => b + pad.before + pad.after,
        _ => b + pad.before,
    };
    Some(Split { axis: split.axis, bounds: split.bounds.iter().enumerate().map(bound).collect() })
}
