//! Storages that are filled from the front, as a cache of keys and values is. A graph that writes the rows `p..p + 1` and
//! reads the rows `..p + 1` says that the next one will read a row more. So the first such graph is enough to know which
//! length varies.

use super::super::capture::Closed;
use super::quantities::Quantified;
use kiln_ir::arg::SliceAxis;
use kiln_ir::uop::{Linear, Variable, VariableId};
use kiln_ir::{Op, UOp};

/// A read of all that was written so far, along one axis.
struct Front {
    /// The slice that reads (position).
    read: usize,
    /// The slice that says where is written (position).
    written: usize,
    axis: usize,
    write: SliceAxis,
    /// How long the axis is.
    room: usize,
}

/// Whether the graph fills a storage from the front.
pub(super) fn is_filled(closed: &Closed) -> bool {
    fronts(closed).next().is_some()
}

/// Notes what filled storages say of lengths and starts. The length of the read is a variable. Every start that is equal to
/// that of the write will be another one.
pub(super) fn hear(closed: &Closed, all: &mut Quantified) {
    for Front { read, written, axis, write, room } in fronts(closed) {
        let name = "rows written so far".into();
        let variable = Some(VariableId::of(&Variable { name, min: 1, max: room as i64 }));
        let less = |n: usize| Linear { variable, times: 1, plus: -(n as i64) };
        all.said.push((all.axes[read][axis], less(0)));
        let mut numbers = closed.start_numbers(written);
        if let Some((_, number)) = numbers.find(|(of, _)| *of == axis) {
            all.said.push((all.starts[number], less(write.len)));
        }
        let same = all.starts.iter().filter(|&&start| all.values[start] == write.start as i64);
        all.free.extend(same);
    }
}

fn fronts(closed: &Closed) -> impl Iterator<Item = Front> + '_ {
    let reads = closed.nodes().enumerate().filter(|&(at, node)| {
        node.op() == Op::Slice && closed.is_active(at) && !closed.is_computed(at)
    });
    reads.flat_map(|(read, node)| fronts_of(closed, read, node))
}

/// The axes along which a slice reads what was written so far.
fn fronts_of(closed: &Closed, read: usize, node: &UOp) -> Vec<Front> {
    let version = closed.sources(read)[0];
    let Some(written) = slice_of_positions(closed, version) else { return Vec::new() };
    let (reads, writes) = (slices(node), slices(closed.node(written)));
    let axes = reads.iter().zip(writes).zip(node.src(0).shape()).enumerate();
    let fronts = axes.filter(|(_, ((r, w), n))| is_front(r, w, **n));
    fronts.map(|(axis, ((_, &write), &room))| Front { read, written, axis, write, room }).collect()
}

fn slices(slice: &UOp) -> &[SliceAxis] {
    slice.arg().slice().unwrap_or_default()
}

/// The slice that says where a version is written, if it is the only one (position).
fn slice_of_positions(closed: &Closed, version: usize) -> Option<usize> {
    let node = closed.node(version);
    if node.op() != Op::Update || closed.is_computed(version) {
        return None;
    }
    let mut at = closed.sources(version)[2];
    while closed.node(at).op() != Op::Slice {
        let is_view = closed.node(at).op().is_movement();
        at = is_view.then(|| closed.sources(at)[0])?;
    }
    (closed.node(at).src(0).shape() == node.shape()).then_some(at)
}

/// Whether `read` ends where `write` does, and something was written before.
fn is_front(read: &SliceAxis, write: &SliceAxis, room: usize) -> bool {
    let is_plain = read.step == 1 && write.step == 1 && read.start == 0 && write.start > 0;
    is_plain && read.len == write.start + write.len && read.len < room
}
