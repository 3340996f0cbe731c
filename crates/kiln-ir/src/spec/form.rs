//! What must hold for a node to exist at all, at every stage: the number of sources, the argument's variant, and shapes
//! that fit. Constructors trust their callers. Text from outside is checked here first, and the verifier checks every
//! node again.

use crate::arg::{Arg, PadAxis, Shape, SliceAxis, WindowArg};
use crate::dtype::DType;
use crate::op::{Group, Op};
use crate::uop::UOp;

/// `Ok` where `holds`, else the reason.
pub(super) fn ensure(holds: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(reason()) }
}

/// Whether the parts make a node; the error is a reason that follows the op's name.
pub fn check(op: Op, dtype: DType, lanes: u16, srcs: &[UOp], arg: &Arg) -> Result<(), String> {
    let (least, most) = arity(op);
    if srcs.len() < least || srcs.len() > most {
        return Err(format!("has {} sources, wants {}", srcs.len(), arity_text(least, most)));
    }
    if !arg_fits(op, srcs, arg) {
        return Err(format!("the argument {arg:?} is not this op's"));
    }
    if lanes == 0 {
        return Err("a value has at least one lane".to_string());
    }
    match op {
        Op::Const => constant(dtype, lanes, arg),
        Op::Stack if srcs.len() != lanes as usize => {
            Err(format!("{} sources do not make {lanes} lanes", srcs.len()))
        }
        Op::Lane if arg.lane().is_none_or(|i| i >= srcs[0].lanes()) => {
            Err(format!("the source has {} lanes", srcs[0].lanes()))
        }
        Op::Var => match arg {
            Arg::Var { min, max, .. } if min > max => Err("the bounds are empty".to_string()),
            _ => Ok(()),
        },
        Op::Bitcast => bitcast(dtype, &srcs[0]),
        Op::Contiguous | Op::Detach | Op::Mark | Op::Copy => Ok(()),
        _ if op.is_elementwise() => same_shapes(srcs),
        _ => shape(op, srcs, arg),
    }
}

/// The argument of an `After`: the same as that of the memory that it orders.
pub fn after_arg(memory: &UOp) -> Arg {
    match memory.arg() {
        arg @ Arg::Memory { .. } => arg.clone(),
        _ => Arg::None,
    }
}

/// The smallest and largest number of sources.
fn arity(op: Op) -> (usize, usize) {
    match op {
        Op::Update => (3, 3),
        Op::Slice => (1, usize::MAX),
        Op::Gather => (2, 2),
        Op::Vjp => (2, usize::MAX),
        Op::Copy | Op::Range | Op::If | Op::EndIf | Op::Splat | Op::Lane | Op::Shuffle => (1, 1),
        Op::Mma => (3, 3),
        Op::Reduce | Op::After | Op::Remat | Op::Composite | Op::End | Op::Stack => (1, usize::MAX),
        Op::Sink | Op::Barrier => (0, usize::MAX),
        Op::Local => (0, 0),
        Op::Load => (2, 3),
        Op::Prefetch => (2, 2),
        Op::Store => (3, 4),
        _ => match op.group() {
            Group::Leaf => (0, 0),
            Group::Movement | Group::Unary | Group::Convert | Group::Note => (1, 1),
            Group::Binary => (2, 2),
            Group::Ternary => (3, 3),
            Group::Reduce | Group::Memory | Group::Control | Group::Vector => (0, usize::MAX),
        },
    }
}

fn arity_text(least: usize, most: usize) -> String {
    match most {
        usize::MAX => format!("at least {least}"),
        most if most == least => least.to_string(),
        most => format!("{least} to {most}"),
    }
}

fn arg_fits(op: Op, srcs: &[UOp], arg: &Arg) -> bool {
    match op {
        Op::Const => matches!(arg, Arg::Const(_)),
        Op::Iota | Op::Reshape | Op::Expand => matches!(arg, Arg::Shape(_)),
        Op::Permute => matches!(arg, Arg::Axes(_)),
        Op::Pad => matches!(arg, Arg::Pad(_)),
        Op::Window | Op::Unwindow => matches!(arg, Arg::Window(_)),
        Op::Slice => matches!(arg, Arg::Slice(_)),
        Op::Reduce => matches!(arg, Arg::Reduce { .. }),
        Op::Buffer => matches!(arg, Arg::Buffer { .. }),
        Op::Param => matches!(arg, Arg::Param { .. }),
        Op::Var => matches!(arg, Arg::Var { .. }),
        Op::Range => matches!(arg, Arg::Range { .. }),
        Op::Local => matches!(arg, Arg::Memory { .. }),
        Op::Lane => matches!(arg, Arg::Lane(_)),
        Op::Shuffle => matches!(arg, Arg::Mask(_)),
        Op::Prefetch => matches!(arg, Arg::Prefetch(_)),
        Op::Dot => matches!(arg, Arg::Parts(parts) if packable(*parts)),
        Op::Mma => matches!(arg, Arg::Mma { parts, .. } if packable(*parts)),
        Op::Mark => matches!(arg, Arg::Mark { .. }),
        Op::Vjp => matches!(arg, Arg::None | Arg::Derivative(_)),
        Op::Composite => matches!(arg, Arg::Composite { .. }),
        Op::Update => match arg {
            Arg::Reduce { axes, .. } => axes.is_empty(),
            other => *other == Arg::None,
        },
        Op::Copy => matches!(arg, Arg::Device(_)),
        Op::Sink => matches!(arg, Arg::None | Arg::Kernel { .. }),
        Op::After if matches!(arg, Arg::Check(_)) => {
            matches!(srcs, [_, wrong] if wrong.dtype() == DType::Bool && wrong.shape().is_empty())
        }
        Op::After => *arg == after_arg(&srcs[0]),
        _ => *arg == Arg::None,
    }
}

/// Whether both types are of a size of which several make 32 bits.
fn packable([x, y]: [DType; 2]) -> bool {
    x.size() == y.size() && [1, 2].contains(&x.size())
}

/// Constants are scalars in their type's own variant, so that equal ones are equal nodes.
fn constant(dtype: DType, lanes: u16, arg: &Arg) -> Result<(), String> {
    match arg.constant() {
        Some(c) if dtype != DType::Void && lanes == 1 && c.cast(dtype) == c => Ok(()),
        _ => Err(format!("{arg:?} is no scalar constant of type {dtype}")),
    }
}

fn same_shapes(srcs: &[UOp]) -> Result<(), String> {
    let mut shapes = srcs.iter().map(UOp::shape).filter(|s| !s.is_empty());
    let Some(first) = shapes.next() else { return Ok(()) };
    match shapes.find(|s| *s != first) {
        Some(other) => Err(format!("the shapes {first:?} and {other:?} differ")),
        None => Ok(()),
    }
}

fn bitcast(dtype: DType, src: &UOp) -> Result<(), String> {
    let (from, to) = (src.dtype().size(), dtype.size());
    let fits = match src.shape().last() {
        _ if from == 0 || to == 0 => false,
        _ if from == to => true,
        Some(&last) => last.checked_mul(from).is_some_and(|bytes| bytes % to == 0),
        None => false,
    };
    match fits {
        true => Ok(()),
        false => Err(format!("{} {:?} has no whole number of {dtype}", src.dtype(), src.shape())),
    }
}

/// Shapes that the argument gives, alone or from the source's.
fn shape(op: Op, srcs: &[UOp], arg: &Arg) -> Result<(), String> {
    let of_src: &[usize] = srcs.first().map_or(&[], |s| s.shape());
    let fits = match arg {
        Arg::Shape(new) => match op {
            Op::Iota => new.len() == 1 && countable(new),
            Op::Reshape => {
                countable(new) && new.iter().product::<usize>() == of_src.iter().product()
            }
            _ => countable(new) && expands(of_src, new),
        },
        Arg::Axes(axes) => is_permutation(axes, of_src.len()),
        Arg::Pad(pads) => padded(pads, of_src).is_some_and(|s| countable(&s)),
        Arg::Window(w) => window_fits(op, *w, of_src),
        Arg::Slice(slices) => {
            slices.len() == of_src.len()
                && match &srcs[1..] {
                    [] => slices.iter().zip(of_src).all(|(s, &n)| slice_fits(s, n)),
                    starts => starts_fit(slices, starts, of_src),
                }
        }
        Arg::Reduce { axes, .. } => {
            axes.windows(2).all(|w| w[0] < w[1]) && axes.last().is_none_or(|&a| a < of_src.len())
        }
        Arg::Buffer { shape, .. } | Arg::Param { shape, .. } => countable(shape),
        _ => true,
    };
    match fits {
        true => Ok(()),
        false => Err(format!("{arg:?} does not fit the shape {of_src:?}")),
    }
}

/// Whether the number of elements, and of each part of them, can be counted.
fn countable(shape: &[usize]) -> bool {
    let product = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)));
    product.is_some_and(|n| n <= isize::MAX as usize)
}

fn expands(from: &[usize], to: &[usize]) -> bool {
    from.len() == to.len() && from.iter().zip(to).all(|(&a, &b)| a == b || a == 1)
}

fn is_permutation(axes: &[usize], rank: usize) -> bool {
    let mut seen = vec![false; rank];
    for &axis in axes {
        match seen.get_mut(axis) {
            Some(s) if !*s => *s = true,
            _ => return false,
        }
    }
    axes.len() == rank
}

fn padded(pads: &[PadAxis], shape: &[usize]) -> Option<Shape> {
    let axis = |(p, &n): (&PadAxis, &usize)| {
        let between = p.between.checked_mul(n.saturating_sub(1))?;
        p.before.checked_add(p.after)?.checked_add(n)?.checked_add(between)
    };
    pads.iter()
        .zip(shape)
        .map(axis)
        .collect::<Option<Shape>>()
        .filter(|_| pads.len() == shape.len())
}

fn window_fits(op: Op, w: WindowArg, shape: &[usize]) -> bool {
    let reach = w.size.checked_sub(1).and_then(|n| n.checked_mul(w.dilation));
    let sane = w.stride > 0 && w.dilation > 0 && reach.is_some_and(|r| r < w.len);
    let expected: &[usize] = match op {
        Op::Window => &[w.len],
        _ if sane => &[w.count(), w.size],
        _ => return false,
    };
    sane && shape.get(w.axis..w.axis.saturating_add(expected.len())) == Some(expected)
}

fn slice_fits(s: &SliceAxis, n: usize) -> bool {
    let last = s.start as i128 + s.step as i128 * (s.len as i128 - 1);
    let inside = s.start < n && 0 <= last && last < n as i128;
    s.step != 0 && (s.len == 0 || inside)
}

/// Whether every start that the sources can give fits its axis.
fn starts_fit(slices: &[SliceAxis], starts: &[UOp], shape: &[usize]) -> bool {
    let fits = |((s, start), &n): ((&SliceAxis, &UOp), &usize)| {
        let at = |start: i64| {
            usize::try_from(start).is_ok_and(|start| slice_fits(&SliceAxis { start, ..*s }, n))
        };
        s.start == 0 && start.shape().is_empty() && at(start.min()) && at(start.max())
    };
    starts.len() == slices.len() && slices.iter().zip(starts).zip(shape).all(fits)
}
