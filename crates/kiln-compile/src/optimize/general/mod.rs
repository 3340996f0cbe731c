//! Beside stage `optimize`, for families of kernels: one general kernel for many numbers.
//!
//! Lengths, strides and positions are constants of a kernel. A loop that decodes text makes the same kernels again and
//! again, with other constants. A general kernel has launch-time scalars for the constants that vary.
//!
//! What varies is guessed from the kernels that have been seen. In `a[3*n + i]` for `i < n`, seen with `n` as 5 and 6,
//! the numbers are `(15, 5)` and `(18, 6)`: one scalar `n`, and the expressions `3*n` and `n`. Planes of `n * m` elements
//! are a product of two scalars; so it can be shown of two planes that they do not overlap. A guess that is wrong for
//! another kernel costs a compilation and nothing else: each number of each kernel is compared with what the general
//! kernel would compute ([`General::fits`]).
//!
//! A loop that runs `n` times becomes a loop with a constant bound, the largest `n`, in which what is done from `n` on has
//! a predicate. Pass `trim` then ends the loop at `n`. So all other passes see loops of constant length.

mod profitable;
mod skeleton;
mod work;

pub use profitable::is_profitable;
pub use skeleton::Skeleton;
pub use work::{Counting, Work};

use super::gate::gate;
use kiln_ir::arg::ANY_LEN;
use kiln_ir::uop::find_all;
use kiln_ir::{Const, DType, Op, UOp};
use smallvec::{SmallVec, smallvec};

/// A kernel with launch-time scalars in place of numbers.
#[derive(Clone, Debug)]
pub struct General {
    /// The kernel.
    pub ast: UOp,
    /// The number of the first scalar that stands for a number; before it come those that the kernels have anyway.
    pub slot: usize,
    /// By use of a number: what the kernel has there.
    forms: Vec<Form>,
    scalars: Vec<Scalar>,
}

/// What a general kernel has in place of a number.
#[derive(Clone, Debug)]
enum Form {
    /// The number itself.
    Fixed(Const),
    /// A product of affine functions of scalars.
    Product(SmallVec<[Linear; 2]>),
}

/// A multiple of a scalar plus a number.
#[derive(Clone, Copy, Debug)]
struct Linear {
    scalar: usize,
    times: i64,
    plus: i64,
}

impl Linear {
    /// The scalar itself.
    fn of(scalar: usize) -> Linear {
        Linear { scalar, times: 1, plus: 0 }
    }

    fn at(&self, n: i64) -> Option<i64> {
        n.checked_mul(self.times)?.checked_add(self.plus)
    }
}

/// A launch-time scalar.
#[derive(Clone, Debug)]
struct Scalar {
    /// The use that has it unchanged.
    at: usize,
    dtype: DType,
    /// The values that an integer may have.
    min: i64,
    max: i64,
}

/// The least upper bound of a scalar.
const LEAST_BOUND: i64 = 256;

/// How much larger than what was seen a scalar may become.
const GROWTH: i64 = 4;

/// The lengths of a kernel for few of them differ by this factor, at most.
const NEAR: i64 = 8;

/// What the least upper bound of such a length is.
const LEAST_NEAR: u64 = 16;

/// A loop that would be longer is not made general.
pub(super) const LONGEST: i64 = 1 << 24;

impl General {
    /// A kernel for all of these lists of numbers, which belong to kernels with the same skeleton. Those of `skeleton` itself must
    /// be one of them. None if they are not, if no number varies, or if a loop could become too long.
    ///
    /// Of a single list the trip counts vary, and all numbers that equal one of them.
    pub fn of(skeleton: &Skeleton, seen: &[Vec<Const>]) -> Option<General> {
        // what is the same in all of them stays as the skeleton has it
        if !seen.contains(&skeleton.numbers) {
            return None;
        }
        let (forms, scalars) = forms(skeleton, seen);
        if scalars.is_empty() {
            return None;
        }
        let slot = first_free(&skeleton.ast);
        let ast = written(skeleton, &forms, &vars(slot, &scalars))?;
        Some(General { ast, slot, forms, scalars })
    }

    /// The same kernel for lengths near these values of the scalars: up to the next power of two, and down to an eighth of it. Its options
    /// may suit them better. None if this kernel is for no other lengths.
    pub fn near(&self, skeleton: &Skeleton, values: &[(Const, DType)]) -> Option<General> {
        let mut scalars = self.scalars.clone();
        for (scalar, (value, _)) in scalars.iter_mut().zip(values) {
            let n =
                int(*value).filter(|n| scalar.dtype == DType::Index && (0..LONGEST).contains(n));
            if let Some(n) = n {
                let max = LEAST_NEAR.max(n as u64).next_power_of_two() as i64;
                let min = (max / NEAR).min(n);
                (scalar.min, scalar.max) = (min.max(scalar.min), max.min(scalar.max));
            }
        }
        let is_same = |(a, b): (&Scalar, &Scalar)| (a.min, a.max) == (b.min, b.max);
        if scalars.iter().zip(&self.scalars).all(is_same) {
            return None;
        }
        let ast = written(skeleton, &self.forms, &vars(self.slot, &scalars))?;
        Some(General { ast, scalars, ..self.clone() })
    }

    /// The values of the scalars with which this kernel has exactly these numbers, if there are such.
    pub fn fits(&self, numbers: &[Const]) -> Option<Vec<(Const, DType)>> {
        let of = |s: &Scalar| {
            let value = numbers[s.at];
            let inside = int(value).is_none_or(|n| (s.min..=s.max).contains(&n));
            inside.then_some((value, s.dtype))
        };
        let values: Vec<_> = self.scalars.iter().map(of).collect::<Option<_>>()?;
        let has = |(form, number): (&Form, &Const)| match form {
            Form::Fixed(fixed) => fixed == number,
            Form::Product(factors) => match int(*number) {
                Some(number) => product(factors, |scalar| int(values[scalar].0)) == Some(number),
                None => values[factors[0].scalar].0 == *number,
            },
        };
        self.forms.iter().zip(numbers).all(has).then_some(values)
    }
}

/// The launch-time scalars, numbered from `slot` on.
fn vars(slot: usize, scalars: &[Scalar]) -> Vec<UOp> {
    let var = |(slot, s): (usize, &Scalar)| UOp::var(slot, s.dtype, s.min, s.max);
    (slot..).zip(scalars).map(var).collect()
}

/// The first number that no launch-time scalar has.
fn first_free(ast: &UOp) -> usize {
    let slots = find_all(ast, |n| n.op() == Op::Var);
    slots.iter().filter_map(|n| n.arg().slot()).max().map_or(0, |slot| slot + 1)
}

fn int(value: Const) -> Option<i64> {
    match value {
        Const::Float(_) => None,
        value => value.as_i128()?.try_into().ok(),
    }
}

/// The product for these values of the scalars.
fn product(factors: &[Linear], value: impl Fn(usize) -> Option<i64>) -> Option<i64> {
    factors.iter().try_fold(1i64, |all, f| all.checked_mul(f.at(value(f.scalar)?)?))
}

/// The numbers of one use in all kernels that were seen.
fn column(seen: &[Vec<Const>], at: usize) -> Vec<Const> {
    seen.iter().map(|numbers| numbers[at]).collect()
}

/// The form of each number. Numbers that vary least come first: `n` becomes a scalar, and `3*n` a multiple of it.
fn forms(skeleton: &Skeleton, seen: &[Vec<Const>]) -> (Vec<Form>, Vec<Scalar>) {
    let numbers = &seen[0];
    let columns: Vec<Vec<Const>> = (0..numbers.len()).map(|at| column(seen, at)).collect();
    let counts: Vec<Const> = (skeleton.uses.iter().zip(numbers))
        .filter(|(u, n)| u.is_trip_count() && int(**n).is_some_and(|n| n > 1))
        .map(|(_, n)| *n)
        .collect();
    let varies = |at: &usize| match seen.len() {
        1 => skeleton.uses[*at].dtype() == DType::Index && counts.contains(&numbers[*at]),
        _ => columns[*at].iter().any(|n| *n != numbers[*at]),
    };
    let mut varying: Vec<usize> = (0..numbers.len()).filter(varies).collect();
    let is_count = |at: usize| skeleton.uses[at].is_trip_count();
    varying.sort_by_key(|&at| (spread(&columns[at]), !is_count(at), at));
    let mut forms: Vec<Form> = numbers.iter().map(|n| Form::Fixed(*n)).collect();
    let mut scalars: Vec<Scalar> = Vec::new();
    let mut known = Known::default();
    for at in varying {
        let (dtype, column) = (skeleton.uses[at].dtype(), &columns[at]);
        let of_dtype = scalars.iter().enumerate().filter(|(_, s)| s.dtype == dtype);
        let tied = of_dtype.filter_map(|(scalar, s)| tied(scalar, &columns[s.at], column));
        // a loop's bound is the product of its scalars' bounds: far more than it may need
        let may_be_product = dtype == DType::Index && !is_count(at);
        let form = known.form(column, &tied.collect::<Vec<Linear>>(), may_be_product);
        let form = form.unwrap_or_else(|| {
            scalars.push(Scalar::of(at, dtype, column));
            smallvec![Linear::of(scalars.len() - 1)]
        });
        if dtype == DType::Index {
            known.add(column, &form);
        }
        forms[at] = Form::Product(form);
    }
    (forms, scalars)
}

/// The different columns of indices so far, each with its form.
#[derive(Default)]
struct Known(Vec<(Vec<i64>, SmallVec<[Linear; 2]>)>);

impl Known {
    fn add(&mut self, column: &[Const], form: &SmallVec<[Linear; 2]>) {
        let column = ints(column).expect("indices");
        if !self.0.iter().any(|(known, _)| *known == column) {
            self.0.push((column, form.clone()));
        }
    }

    /// A column as a multiple of a scalar, else as a product, else as a multiple plus a number; `tied` says to which scalars
    /// it is tied.
    fn form(
        &self,
        column: &[Const],
        tied: &[Linear],
        may_be_product: bool,
    ) -> Option<SmallVec<[Linear; 2]>> {
        let one = |linear: &Linear| smallvec![*linear];
        let multiple = tied.iter().find(|linear| linear.plus == 0).map(one);
        let product = || may_be_product.then(|| self.product(column)).flatten();
        multiple.or_else(product).or_else(|| tied.first().map(one))
    }

    /// A column as a multiple of the product of two others.
    fn product(&self, column: &[Const]) -> Option<SmallVec<[Linear; 2]>> {
        let column = ints(column).filter(|column| column.len() > 1)?;
        self.0.iter().enumerate().find_map(|(i, (a, of_a))| {
            self.0[i..].iter().find_map(|(b, of_b)| {
                let times = multiple(&column, a, b)?;
                let mut factors: SmallVec<[Linear; 2]> = of_a.iter().chain(of_b).copied().collect();
                let first = factors.first_mut()?;
                first.times = first.times.checked_mul(times)?;
                first.plus = first.plus.checked_mul(times)?;
                Some(factors)
            })
        })
    }
}

/// `n` if each number is `n` times the product of two others.
fn multiple(column: &[i64], a: &[i64], b: &[i64]) -> Option<i64> {
    let product = |i: usize| a[i].checked_mul(b[i]);
    let first = product(0).filter(|&n| n != 0)?;
    let times = column[0] / first;
    let holds = |i: usize| product(i).and_then(|n| n.checked_mul(times)) == Some(column[i]);
    (times != 0 && (0..column.len()).all(holds)).then_some(times)
}

/// How far apart the numbers of a use are.
fn spread(column: &[Const]) -> i128 {
    let numbers = || column.iter().filter_map(|n| int(*n)).map(i128::from);
    numbers().max().unwrap_or(0) - numbers().min().unwrap_or(0)
}

/// The numbers `ys` as a multiple of a scalar with the numbers `xs`, plus a number, if they are one. Numbers that are no integers are
/// the same or have nothing to do with each other.
fn tied(scalar: usize, xs: &[Const], ys: &[Const]) -> Option<Linear> {
    if xs == ys {
        return Some(Linear::of(scalar));
    }
    let (xs, ys) = (ints(xs)?, ints(ys)?);
    let other = xs.iter().position(|x| *x != xs[0])?;
    let (run, rise) = (xs[other].checked_sub(xs[0])?, ys[other].checked_sub(ys[0])?);
    let times = (rise.checked_rem(run)? == 0).then(|| rise / run)?;
    let plus = ys[0].checked_sub(xs[0].checked_mul(times)?)?;
    let linear = Linear { scalar, times, plus };
    xs.iter().zip(&ys).all(|(x, y)| linear.at(*x) == Some(*y)).then_some(linear)
}

/// A column of integers.
fn ints(column: &[Const]) -> Option<Vec<i64>> {
    column.iter().map(|n| int(*n)).collect()
}

impl Scalar {
    /// A scalar for a use that had these numbers.
    fn of(at: usize, dtype: DType, column: &[Const]) -> Scalar {
        let numbers = || column.iter().filter_map(|n| int(*n));
        let (least, most) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
        let (min, max) = match dtype {
            DType::Index => (least.min(2), bound(most)),
            _ => dtype.int_bounds(),
        };
        Scalar { at, dtype, min, max }
    }
}

/// How large a scalar may become that has been as large as this: a power of two, so that it seldom has to grow.
fn bound(most: i64) -> i64 {
    let room = most.saturating_mul(GROWTH).max(LEAST_BOUND) as u64;
    room.checked_next_power_of_two().and_then(|n| n.try_into().ok()).unwrap_or(i64::MAX)
}

/// The kernel over its scalars.
fn written(skeleton: &Skeleton, forms: &[Form], vars: &[UOp]) -> Option<UOp> {
    let linear = |f: &Linear| match (f.times, f.plus) {
        (1, 0) => vars[f.scalar].clone(),
        (times, plus) => &vars[f.scalar] * times + plus,
    };
    let value = |at: usize| match &forms[at] {
        Form::Fixed(_) => None,
        Form::Product(factors) => factors.iter().map(linear).reduce(|a, b| a * b),
    };
    let is_count = |at: usize| skeleton.uses[at].is_trip_count();
    if (0..forms.len()).any(|at| is_count(at) && value(at).is_some_and(|n| n.max() > LONGEST)) {
        return None;
    }
    let source = |at: usize, old: &UOp| match value(at) {
        None => old.clone(),
        Some(count) if is_count(at) => UOp::index(count.max()),
        Some(value) => value,
    };
    let ast = skeleton.rebuilt(source, |at| length(skeleton, at, value(at)));
    let counts = (0..forms.len()).filter(|&at| is_count(at));
    let bounded = counts.filter_map(|at| Some((&skeleton.uses[at].node, value(at)?)));
    Some(bounded.fold(ast, |ast, (old, count)| {
        let (axis, kind) = old.arg().range().expect("a loop");
        let range = UOp::range(axis, kind, count.max() as usize);
        gate(&ast, &range, &range.lt(&count), |_| true)[&ast].clone()
    }))
}

/// The length of a memory: of scratch what it may have to be.
fn length(skeleton: &Skeleton, at: usize, value: Option<UOp>) -> usize {
    let node = &skeleton.uses[at].node;
    match value {
        None => node.known_len().expect("a kernel of fixed numbers"),
        Some(_) if node.op() == Op::Param => ANY_LEN,
        Some(len) => len.max().max(1) as usize,
    }
}
