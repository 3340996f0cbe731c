//! The meaning of tensor graphs, element by element: slow and obvious. Tests compare everything else with it.

use crate::arg::Arg;
use crate::dtype::{Const, DType};
use crate::eval;
use crate::op::Op;
use crate::uop::{UOp, toposort};
use rustc_hash::FxHashMap;

/// The elements of `root` in row-major order. `leaf` gives those of buffers, parameters and launch-time scalars.
///
/// Panics on kernel ops, and on arithmetic that [`eval::eval`] gives no meaning.
pub fn evaluate(root: &UOp, leaf: &dyn Fn(&UOp) -> Vec<Const>) -> Vec<Const> {
    let mut known: FxHashMap<UOp, Vec<Const>> = FxHashMap::default();
    for node in toposort(root) {
        let srcs: Vec<&[Const]> = node.srcs().iter().map(|s| known[s].as_slice()).collect();
        let value = elements(&node, &srcs, leaf);
        known.insert(node, value);
    }
    known.remove(root).expect("the root comes last")
}

fn elements(node: &UOp, srcs: &[&[Const]], leaf: &dyn Fn(&UOp) -> Vec<Const>) -> Vec<Const> {
    match (node.op(), node.arg()) {
        (Op::Const, Arg::Const(c)) => vec![*c],
        (Op::Iota, _) => (0..node.numel() as i64).map(|i| cast(i, node.dtype())).collect(),
        (Op::Buffer | Op::Param | Op::Var, _) => leaf(node),
        (Op::Reduce, _) => reduce(node, srcs[0]),
        (Op::Update, _) => update(node, srcs),
        (Op::Gather, _) => gather(node, srcs),
        (Op::Bitcast, _) => bitcast(srcs[0], node.src(0).dtype(), node.dtype()),
        (Op::Contiguous | Op::Detach | Op::Mark | Op::Copy, _) => srcs[0].to_vec(),
        (Op::Vjp | Op::Remat | Op::After, _) => srcs[0].to_vec(),
        (op, arg) if op.is_movement() => {
            let zero = cast(0, node.dtype());
            let picks = picks(&started(arg, &srcs[1..]), node.src(0).shape(), node.shape());
            picks.into_iter().map(|p| p.map_or(zero, |i| srcs[0][i])).collect()
        }
        (op, _) if op.is_elementwise() => elementwise(node, srcs),
        (Op::Composite, _) => decomposed(node, srcs),
        (op, _) => panic!("{op} has no elements"),
    }
}

/// A composite is written out over parameters that stand for its sources.
fn decomposed(node: &UOp, srcs: &[&[Const]]) -> Vec<Const> {
    let param = |(slot, src): (usize, &UOp)| UOp::param(slot, src.dtype(), src.shape().clone());
    let params: Vec<UOp> = node.srcs().iter().enumerate().map(param).collect();
    let value = node.decomposition(&params).expect("a composite");
    evaluate(&value, &|param| srcs[param.arg().slot().expect("a parameter")].to_vec())
}

fn cast(value: i64, dtype: DType) -> Const {
    Const::Int(value).cast(dtype)
}

/// A source of rank 0 gives its one element everywhere.
fn elementwise(node: &UOp, srcs: &[&[Const]]) -> Vec<Const> {
    let element = |i: usize| {
        let operands: Vec<Const> =
            node.srcs().iter().zip(srcs).map(|(n, s)| pick(n, s, i)).collect();
        eval::eval(node.op(), node.dtype(), &operands)
            .unwrap_or_else(|| panic!("{node:?} of {operands:?}"))
    };
    (0..node.numel()).map(element).collect()
}

fn pick(node: &UOp, elements: &[Const], i: usize) -> Const {
    if node.shape().is_empty() { elements[0] } else { elements[i] }
}

/// Combines in row-major order, starting from the identity.
fn reduce(node: &UOp, src: &[Const]) -> Vec<Const> {
    let Arg::Reduce { op, axes } = node.arg() else { panic!("a reduction says how") };
    let shape = node.src(0).shape();
    let mut out = vec![op.identity(node.dtype()); node.numel()];
    for (flat, &x) in src.iter().enumerate() {
        let at = coordinates(flat, shape);
        let kept = (0..shape.len()).filter(|i| !axes.contains(i));
        let to = kept.fold(0, |to, i| to * shape[i] + at[i]);
        out[to] = eval::eval(op.alu(), node.dtype(), &[out[to], x]).expect("a reduction's meaning");
    }
    out
}

/// The base with the elements of the value put, or combined, where the positions say, one after the other.
fn update(node: &UOp, srcs: &[&[Const]]) -> Vec<Const> {
    let mut out = srcs[0].to_vec();
    for (i, &at) in srcs[2].iter().enumerate() {
        let x = pick(node.src(1), srcs[1], i);
        let Some(to) = position(at, out.len()) else { continue };
        out[to] = match node.arg().reduce_op() {
            Some(op) => eval::eval(op.alu(), node.dtype(), &[out[to], x]).expect("a combination"),
            None => x,
        };
    }
    out
}

fn gather(node: &UOp, srcs: &[&[Const]]) -> Vec<Const> {
    let zero = cast(0, node.dtype());
    let element = |&at: &Const| position(at, srcs[0].len()).map_or(zero, |i| srcs[0][i]);
    srcs[1].iter().map(element).collect()
}

/// The position as a number of an element, if there is one.
fn position(at: Const, n: usize) -> Option<usize> {
    let at = match at {
        Const::Int(i) => usize::try_from(i).ok()?,
        Const::UInt(u) => usize::try_from(u).ok()?,
        Const::Bool(_) | Const::Float(_) => panic!("positions are integers"),
    };
    (at < n).then_some(at)
}

/// A movement's argument with the starts that its other sources give, if it has any.
fn started(arg: &Arg, starts: &[&[Const]]) -> Arg {
    let mut arg = arg.clone();
    if let Arg::Slice(slices) = &mut arg {
        for (slice, start) in slices.iter_mut().zip(starts) {
            slice.start = start[0].as_i128().expect("a start is an index") as usize;
        }
    }
    arg
}

/// For each element after a movement, the number of the element that it shows; `None` in padding.
fn picks(arg: &Arg, from: &[usize], to: &[usize]) -> Vec<Option<usize>> {
    let count = to.iter().product();
    (0..count).map(|flat| pick_one(arg, from, flat, &coordinates(flat, to))).collect()
}

fn pick_one(arg: &Arg, from: &[usize], flat: usize, at: &[usize]) -> Option<usize> {
    let mut source = vec![0; from.len()];
    match arg {
        Arg::Axes(axes) => (0..at.len()).for_each(|i| source[axes[i]] = at[i]),
        Arg::Shape(shape) if is_expansion(from, shape) => {
            (0..at.len()).for_each(|i| source[i] = at[i].min(from[i] - 1));
        }
        Arg::Slice(slices) => {
            let along = |i: usize| slices[i].start as isize + slices[i].step * at[i] as isize;
            (0..at.len()).for_each(|i| source[i] = along(i) as usize);
        }
        Arg::Window(w) if at.len() > from.len() => {
            source = at.to_vec();
            source.remove(w.axis + 1);
            source[w.axis] = at[w.axis] * w.stride + at[w.axis + 1] * w.dilation;
        }
        Arg::Window(w) => {
            source = at.to_vec();
            let from_start = at[w.axis].checked_sub(at[w.axis + 1] * w.dilation)?;
            source[w.axis] = from_start / w.stride;
            if from_start % w.stride != 0 || source[w.axis] >= w.count() {
                return None;
            }
        }
        Arg::Pad(pads) => {
            for (i, pad) in pads.iter().enumerate() {
                let inside = at[i].checked_sub(pad.before)?;
                source[i] = inside / (pad.between + 1);
                if inside % (pad.between + 1) != 0 || source[i] >= from[i] {
                    return None;
                }
            }
        }
        _ => return Some(flat),
    }
    Some(source.iter().zip(from).fold(0, |sum, (c, n)| sum * n + c))
}

/// Whether the shapes are those of an `Expand` that does anything; else they are a `Reshape`'s.
fn is_expansion(from: &[usize], to: &[usize]) -> bool {
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    from.len() == to.len() && count(from) != count(to)
}

fn coordinates(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (c, &n) in at.iter_mut().zip(shape).rev() {
        (*c, flat) = (flat % n, flat / n);
    }
    at
}

/// Through bytes, little end first.
fn bitcast(src: &[Const], from: DType, to: DType) -> Vec<Const> {
    let bytes: Vec<u8> = src
        .iter()
        .flat_map(|&c| eval::to_bits(c, from).to_le_bytes().into_iter().take(from.size()))
        .collect();
    let number = |chunk: &[u8]| chunk.iter().rev().fold(0, |n, &b| n << 8 | b as u64);
    bytes.chunks(to.size()).map(|chunk| eval::from_bits(number(chunk), to)).collect()
}
