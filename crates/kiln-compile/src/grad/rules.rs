//! The gradient of every op: what a node's gradient becomes for each of its sources. For `x * y` and a gradient `g`
//! these are `g * y` and `g * x`.

use kiln_ir::arg::{Arg, Axes, Derivative, PadAxis, ReduceOp, Shape, SliceAxis, WindowArg};
use kiln_ir::derivative::{Gradients, derived};
use kiln_ir::uop::{device_of, substitute};
use kiln_ir::{DType, Op, UOp, derivative, region};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::f64::consts::LN_2;

/// From a node and its gradient to those of its sources.
pub(super) type Rule = fn(&UOp, &UOp) -> Gradients;

/// The op's rule; `None` for ops that gradients do not pass: they step, compare, count or reinterpret.
pub(super) fn rule(op: Op) -> Option<Rule> {
    Some(match op {
        Op::Neg => |_, g| one(-g),
        Op::Sqrt => |y, g| one(div(&(g * y.const_like(0.5)), y)),
        Op::Exp => |y, g| one(g * y),
        Op::Exp2 => |y, g| one(g * y * y.const_like(LN_2)),
        Op::Log => |y, g| one(div(g, y.src(0))),
        Op::Log2 => |y, g| one(div(g, &(y.src(0) * y.const_like(LN_2)))),
        Op::Sin => |y, g| one(g * UOp::unary(Op::Cos, y.src(0))),
        Op::Cos => |y, g| one(-&(g * UOp::unary(Op::Sin, y.src(0)))),
        Op::Tanh => |y, g| one(g * (y.const_like(1) - y * y)),
        // not from the value, whose last places are those of 1
        Op::Expm1 => |y, g| one(g * UOp::unary(Op::Exp, y.src(0))),
        Op::Log1p => |y, g| one(div(g, &(y.src(0) + 1))),
        Op::Sigmoid => |y, g| one(g * y * UOp::unary(Op::Sigmoid, &-y.src(0))),
        Op::Add => |_, g| two(g.clone(), g.clone()),
        Op::Sub => |_, g| two(g.clone(), -g),
        Op::Mul => |y, g| two(g * y.src(1), g * y.src(0)),
        Op::Div => |y, g| {
            let numerator = div(g, y.src(1));
            let denominator = -&(&numerator * y);
            two(numerator, denominator)
        },
        Op::Pow => power,
        // by the divisor: how often it was taken off
        Op::FloorMod => |y, g| {
            let times = UOp::binary(Op::FloorDiv, y.src(0), y.src(1));
            two(g.clone(), -&(g * times))
        },
        Op::Max => |y, g| two(of_winner(g, y.src(1), y.src(0)), of_winner(g, y.src(0), y.src(1))),
        Op::Min => |y, g| two(of_winner(g, y.src(0), y.src(1)), of_winner(g, y.src(1), y.src(0))),
        Op::Where => |y, g| {
            let (condition, zero) = (y.src(0), &y.const_like(0));
            smallvec![None, Some(condition.where_(g, zero)), Some(condition.where_(zero, g))]
        },
        Op::MulAdd => |y, g| smallvec![Some(g * y.src(1)), Some(g * y.src(0)), Some(g.clone())],
        Op::Cast => |y, g| one(g.cast(y.src(0).dtype())),
        Op::Reduce => reduce,
        Op::Reshape
        | Op::Permute
        | Op::Expand
        | Op::Pad
        | Op::Slice
        | Op::Window
        | Op::Unwindow => |y, g| {
            let grad = adjoint(y.arg(), y.op(), y.src(0).shape(), g);
            grad.name_around(y);
            one(grad)
        },
        Op::Contiguous | Op::Mark => |_, g| one(g.clone()),
        // what comes first gets nothing
        Op::After | Op::Remat => |_, g| one(g.clone()),
        // the gradient of what it is written out as
        Op::Composite => |_, g| one(g.clone()),
        Op::Vjp => vjp,
        Op::Update => update,
        Op::Gather => gather,
        Op::Copy => copy,
        Op::Trunc | Op::Detach | Op::Bitcast => return None,
        Op::Not | Op::FloorDiv | Op::TruncDiv | Op::TruncMod => return None,
        Op::Shl | Op::Shr | Op::And | Op::Or | Op::Xor => return None,
        Op::CmpLt | Op::CmpEq | Op::CmpNe | Op::Dot => return None,
        Op::Const | Op::Iota | Op::Buffer | Op::Param | Op::Var => return None,
        Op::Range | Op::End | Op::Sink | Op::Barrier | Op::If | Op::EndIf => return None,
        Op::Local | Op::Load | Op::Store | Op::Prefetch => return None,
        Op::Stack | Op::Splat | Op::Lane | Op::Mma | Op::Shuffle => return None,
    })
}

fn vjp(y: &UOp, g: &UOp) -> Gradients {
    derived(y, g).unwrap_or_else(|| given(y, g))
}

/// Each input gets the gradient that follows it, in which the seed stands for the value's.
fn given(y: &UOp, g: &UOp) -> Gradients {
    let [_, seed, inputs @ ..] = y.srcs() else { return Gradients::new() };
    let slopes: Vec<UOp> = inputs.iter().skip(1).step_by(2).cloned().collect();
    // what an input was computed from does not know the seed, and need not be looked into
    let known = inputs.iter().step_by(2).map(|x| (x.clone(), x.clone()));
    let given: FxHashMap<UOp, UOp> = known.chain([(seed.clone(), g.clone())]).collect();
    let slopes = substitute(&slopes, &given);
    [None, None].into_iter().chain(slopes.into_iter().flat_map(|d| [Some(d), None])).collect()
}

fn one(grad: UOp) -> Gradients {
    smallvec![Some(grad)]
}

fn two(a: UOp, b: UOp) -> Gradients {
    smallvec![Some(a), Some(b)]
}

fn div(a: &UOp, b: &UOp) -> UOp {
    UOp::binary(Op::Div, a, b)
}

/// The gradient of the operand that is `high`, unless it is below `low`; equal operands share. Beside NaN both have it.
fn of_winner(grad: &UOp, low: &UOp, high: &UOp) -> UOp {
    let shared = low.eq_(high).where_(&(grad * grad.const_like(0.5)), grad);
    high.lt(low).where_(&grad.const_like(0), &shared)
}

/// `x^e`. Where `e` is 0 the power is 1 for every `x`; from 0 on `0^e` does not grow with `e`.
fn power(y: &UOp, g: &UOp) -> Gradients {
    let (x, e, zero) = (y.src(0), y.src(1), &y.const_like(0));
    let by_base = || {
        let slope = e * x.pow(&less_one(e));
        g * e.eq_(zero).where_(zero, &slope)
    };
    let by_exponent = || {
        let flat = x.eq_(zero) & (zero.lt(e) | zero.eq_(e));
        g * flat.where_(zero, &(y * UOp::unary(Op::Log, x)))
    };
    let varies = |x: &UOp| x.op() != Op::Const;
    smallvec![varies(x).then(by_base), varies(e).then(by_exponent)]
}

/// `e - 1`; of a constant a constant, of which a power may be a product.
fn less_one(e: &UOp) -> UOp {
    match e.as_const() {
        Some(c) => e.const_like(c.as_f64() - 1.0),
        None => e - 1,
    }
}

fn reduce(y: &UOp, g: &UOp) -> Gradients {
    let Arg::Reduce { op, axes } = y.arg() else { return smallvec![None] };
    let x = y.src(0);
    let whole = |value: &UOp| unreduce(value, axes, x.shape());
    match op {
        ReduceOp::Add => one(whole(g)),
        ReduceOp::Mul => one(whole(g) * others_with_derivative(x, axes)),
        ReduceOp::Max | ReduceOp::Min => one(shared_by_ties(x, &whole(y), g, axes)),
    }
}

/// The reduced axes put back and repeated.
fn unreduce(value: &UOp, axes: &Axes, shape: &[usize]) -> UOp {
    let kept = |(i, &n): (usize, &usize)| if axes.contains(&i) { 1 } else { n };
    let with_ones: Shape = shape.iter().enumerate().map(kept).collect();
    value.reshape(with_ones).expand(shape)
}

/// For each element the product of all others. Zeros are replaced by 1 and infinities by their sign in the product of
/// all; dividing by the element leaves the others. Then it is multiplied by 0 if another element is 0, and by infinity
/// if another is infinite.
fn product_of_others(x: &UOp, axes: &Axes) -> UOp {
    let (zero, one) = (&x.const_like(0), &x.const_like(1));
    let whole = |value: UOp| unreduce(&value, axes, x.shape());
    let [up, down] = [f64::INFINITY, f64::NEG_INFINITY].map(|x_| x.const_like(x_));
    let (is_up, is_down, is_zero) = (x.eq_(&up), x.eq_(&down), x.eq_(zero));
    let sign = is_down.where_(&x.const_like(-1), x);
    let number = &(&is_up | &is_zero).where_(one, &sign);
    let product = whole(number.reduce(ReduceOp::Mul, axes.clone()));
    let others_are = |which: &UOp| {
        let count = &which.where_(one, zero);
        (whole(count.reduce(ReduceOp::Add, axes.clone())) - count).ne_(zero)
    };
    let (some_zero, some_infinite) = (others_are(&is_zero), others_are(&(is_up | is_down)));
    let factor = some_zero.where_(zero, one) * some_infinite.where_(&up, one);
    div(&product, number) * factor
}

/// [`product_of_others`] with the derivative of [`others_in_halves`]. It puts constants in place of zeros, so the derivative of
/// its own steps is wrong there. Only gradients of gradients compute the halves.
fn others_with_derivative(x: &UOp, axes: &Axes) -> UOp {
    product_of_others(x, axes).with_derivative(AS_OTHERS, [others_in_halves(x, axes)])
}

const AS_OTHERS: Derivative = derivative!("product of others", as_input);

fn as_input(_: &UOp, g: &UOp) -> Gradients {
    smallvec![None, Some(g.clone())]
}

/// For each element the product of all others, without a division. Products of halves of halves go up to the product of
/// all; on the way down, each half's others are those of the whole and the other half.
fn others_in_halves(x: &UOp, axes: &Axes) -> UOp {
    let (mut product, mut wholes) = (x.clone(), Vec::new());
    for &axis in axes {
        while product.shape()[axis] > 1 {
            let [first, second] = halves(&product, axis);
            wholes.push((product, axis));
            product = first * second;
        }
    }
    let all_others = product.const_like(1).broadcast_to(product.shape());
    wholes.iter().rev().fold(all_others, |others, (whole, axis)| {
        let [first, second] = halves(whole, *axis);
        let (n, half) = (whole.shape()[*axis], first.shape()[*axis]);
        let of_second = (&others * first).part(*axis, 0, n - half);
        UOp::joined(&[others * second, of_second], *axis)
    })
}

/// Both halves of an axis. If the second is shorter, a one follows it.
fn halves(x: &UOp, axis: usize) -> [UOp; 2] {
    let n = x.shape()[axis];
    let half = n.div_ceil(2);
    let (first, second) = (x.part(axis, 0, half), x.part(axis, half, n - half));
    if 2 * half == n {
        return [first, second];
    }
    let one = x.const_like(1).broadcast_to(x.part(axis, 0, 1).shape());
    [first, UOp::joined(&[second, one], axis)]
}

/// The elements that are the extreme one share its gradient evenly; if that is NaN, those that are NaN.
fn shared_by_ties(x: &UOp, extreme: &UOp, g: &UOp, axes: &Axes) -> UOp {
    let (zero, one) = (&x.const_like(0), &x.const_like(1));
    let ties = &(x.eq_(extreme) | x.ne_(x));
    let count = ties.where_(one, zero).reduce(ReduceOp::Add, axes.clone());
    let share = unreduce(&div(g, &count), axes, x.shape());
    ties.where_(&share, zero)
}

/// A gradient of a view, brought to the shape that was viewed: every element goes back to where it came from.
fn adjoint(arg: &Arg, op: Op, shape: &[usize], g: &UOp) -> UOp {
    match (op, arg) {
        (Op::Permute, Arg::Axes(axes)) => {
            let mut inverse: Axes = smallvec![0; axes.len()];
            axes.iter().enumerate().for_each(|(i, &axis)| inverse[axis] = i);
            g.permute(inverse)
        }
        (Op::Expand, _) => {
            let repeated = |&i: &usize| shape[i] == 1 && g.shape()[i] != 1;
            let axes: Axes = (0..shape.len()).filter(repeated).collect();
            g.reduce(ReduceOp::Add, axes).reshape(shape)
        }
        (Op::Window, Arg::Window(w)) => g.unwindow(*w).reduce(ReduceOp::Add, &[w.axis + 1][..]),
        (Op::Unwindow, Arg::Window(w)) => unwindow(g, *w),
        (Op::Pad, Arg::Pad(pads)) => {
            g.slice(&pads.iter().zip(shape).map(inside).collect::<Slices>())
        }
        (Op::Slice, Arg::Slice(slices)) => {
            let ascending = g.slice(&slices.iter().map(flip).collect::<Slices>());
            let around: SmallVec<[PadAxis; 2]> = slices.iter().zip(shape).map(outside).collect();
            ascending.pad(&around)
        }
        _ => g.reshape(shape),
    }
}

type Slices = SmallVec<[SliceAxis; 2]>;

/// Position `p` of a window gets the gradient that position `p` of the result has at the window's place.
fn unwindow(grad: &UOp, w: WindowArg) -> UOp {
    let windows = grad.window(w); // [.., windows, place, position, ..]
    let along = |axis: usize| {
        let mut line: Shape = windows.shape().iter().map(|_| 1).collect();
        line[axis] = w.size;
        UOp::iota(w.size, DType::I32).reshape(line).expand(windows.shape().clone())
    };
    let same = along(w.axis + 1).eq_(&along(w.axis + 2));
    same.where_(&windows, &windows.const_like(0)).reduce(ReduceOp::Add, &[w.axis + 1][..])
}

/// What was there before the padding.
fn inside((pad, &len): (&PadAxis, &usize)) -> SliceAxis {
    match len {
        0 => SliceAxis { start: 0, step: 1, len },
        _ => SliceAxis { start: pad.before, step: pad.between as isize + 1, len },
    }
}

/// Backwards, if the slice goes backwards.
fn flip(slice: &SliceAxis) -> SliceAxis {
    match slice.len {
        len if slice.step < 0 && len > 1 => SliceAxis { start: len - 1, step: -1, len },
        len => SliceAxis::full(len),
    }
}

/// The padding that puts the elements of an ascending slice back to their places in an axis of `n`.
fn outside((slice, &n): (&SliceAxis, &usize)) -> PadAxis {
    if slice.len == 0 {
        return PadAxis { before: n, between: 0, after: 0 };
    }
    let step = if slice.len == 1 { 1 } else { slice.step };
    let span = (slice.len - 1) * step.unsigned_abs();
    let before = if step < 0 { slice.start - span } else { slice.start };
    PadAxis { before, between: step.unsigned_abs() - 1, after: n - before - span - 1 }
}

/// What was overwritten gets nothing; the value gets what became of it.
fn update(y: &UOp, g: &UOp) -> Gradients {
    let (base, value, at) = (y.src(0), y.src(1), y.src(2));
    let (zero, one) = (&g.const_like(0), &g.const_like(1));
    let landed = |x: &UOp| region::view(x, at).unwrap_or_else(|| x.gather(at));
    let (kept, written) = match y.arg().reduce_op() {
        None if region::is_one_to_one(at, base.numel()) => (g.update(zero, at), landed(g)),
        None => (g.update(zero, at), of_last(&landed(g), base, at)),
        Some(ReduceOp::Add) => (g.clone(), landed(g)),
        Some(ReduceOp::Mul) => {
            // the product of all the others: of what is not 0, if no other is
            let is_zero = |x: &UOp| x.eq_(zero).where_(one, zero);
            let nonzero = |x: &UOp| x.eq_(zero).where_(one, x);
            let product = nonzero(base).update_with(Some(ReduceOp::Mul), &nonzero(value), at);
            let zeros = is_zero(base).update_with(Some(ReduceOp::Add), &is_zero(value), at);
            let others = |x: &UOp, product: &UOp, zeros: &UOp| {
                (zeros - is_zero(x)).eq_(zero).where_(&div(product, &nonzero(x)), zero)
            };
            (
                g * others(base, &product, &zeros),
                landed(g) * others(value, &landed(&product), &landed(&zeros)),
            )
        }
        Some(ReduceOp::Max | ReduceOp::Min) => {
            let wins = |x: &UOp, of: &UOp| x.eq_(of).where_(one, zero);
            let (mine, theirs) = (wins(base, y), wins(value, &landed(y)));
            let count = mine.update_with(Some(ReduceOp::Add), &theirs, at);
            let share = div(g, &count);
            (&mine * &share, theirs * landed(&share))
        }
    };
    smallvec![Some(kept), Some(summed_to(&written, value)), None]
}

/// The gradients of what stays: of equal positions, the last write does.
fn of_last(grad: &UOp, base: &UOp, at: &UOp) -> UOp {
    if at.numel() <= 1 {
        return grad.clone();
    }
    let counter = if i32::try_from(at.numel()).is_ok() { DType::I32 } else { DType::I64 };
    let number = UOp::iota(at.numel(), counter).reshape(at.shape().clone());
    let nobody = number.const_like(0).broadcast_to(base.shape());
    let last = nobody.update(&number, at).gather(at);
    last.eq_(&number).where_(grad, &grad.const_like(0))
}

/// The gradient of a value that may have been one scalar for all positions.
fn summed_to(grad: &UOp, value: &UOp) -> UOp {
    match value.shape().is_empty() {
        true => grad.reduce(ReduceOp::Add, (0..grad.shape().len()).collect::<Axes>()),
        false => grad.clone(),
    }
}

/// Every element adds up where it was taken from.
fn gather(y: &UOp, g: &UOp) -> Gradients {
    let nothing = g.const_like(0).broadcast_to(y.src(0).shape());
    smallvec![Some(nothing.update_with(Some(ReduceOp::Add), g, y.src(1))), None]
}

/// Back to the device that the source is on.
fn copy(y: &UOp, g: &UOp) -> Gradients {
    let (Some(from), Some(to)) = (device_of(y.src(0)), y.arg().device()) else {
        return one(g.clone());
    };
    // first where the gradient is: what it is made of may not say so
    one(g.on_device(to).on_device(from))
}
