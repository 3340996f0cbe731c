//! Elements by their numbers in an order, which nobody makes: the rank of such an element is found digit by digit, from the
//! highest on. Each digit takes one look at all elements: how many are below each number that has one more there?

use super::Tensor;
use super::order::{first_places, inside, rank};
use super::reduce::positions;
use super::scan::running_sum;
use crate::error::Fault;
use kiln_ir::arg::{Axes, ReduceOp, Shape};
use kiln_ir::{DType, UOp};

/// Bits of a digit.
const DIGIT: u32 = 4;

/// Axes of up to so many elements are sorted: counting what is before each is one look, too.
const SHORT: usize = 256;

/// The same of longer ones with up to so many comparisons, which vectors do in less time than the host needs for the looks.
const COMPARISONS: usize = 1 << 20;

/// Whether an axis of `n` is sorted, of so many elements in all.
pub(super) fn is_short(n: usize, elements: usize) -> bool {
    n <= SHORT || n * elements <= COMPARISONS
}

/// The positions along the last axis of `x`, `[rows, n]`, of the elements whose numbers in order are `numbers`, `[rows, m]`. i32;
/// equal elements keep their order.
pub(super) fn places_of(x: &UOp, numbers: &UOp) -> UOp {
    let (rows, n, m) = (x.shape()[0], x.shape()[1], numbers.shape()[1]);
    if is_short(n, x.numel()) {
        let order = first_places(&x.permute(&[1, 0][..]), n, false, true).permute(&[1, 0][..]);
        let row = positions(numbers.shape(), 0) * n as i64;
        return order.gather(&(row + numbers));
    }
    let wide = x.dtype().size() == 8;
    let ranks = rank(x).cast(if wide { DType::I64 } else { DType::I32 }).contiguous();
    let of_all = |x: &UOp, axis: usize| {
        let mut shape = Shape::from_slice(&[rows, m, n]);
        shape[axis] = 1;
        x.reshape(shape).expand(Shape::from_slice(&[rows, m, n]))
    };
    let found = ranks_of(&ranks, numbers);
    let (each, all) = (of_all(&found, 2), of_all(&ranks, 1));
    let left = numbers - count(&all.lt(&each), 2);
    // equal ones: as many come before as are left
    let is_equal = all.eq_(&each).cast(DType::I32).reshape([rows * m, n, 1].as_slice());
    let so_far = running_sum(&is_equal).cast(DType::I32).reshape([rows, m, n].as_slice());
    count(&of_all(&left, 2).lt(&so_far).not(), 2)
}

/// How often something holds along an axis.
fn count(holds: &UOp, axis: usize) -> UOp {
    holds.cast(DType::I32).reduce(ReduceOp::Add, Axes::from_slice(&[axis]))
}

/// The ranks of the elements with these numbers, `[rows, m]`.
fn ranks_of(ranks: &UOp, numbers: &UOp) -> UOp {
    let dtype = ranks.dtype();
    let (rows, n, m) = (ranks.shape()[0], ranks.shape()[1], numbers.shape()[1]);
    let more = (1 << DIGIT) - 1;
    let [steps, looks] = [[rows, m, more, 1], [rows, m, more, n]].map(|s| Shape::from_slice(&s));
    let by = |x: &UOp, shape: [usize; 4]| x.reshape(shape.as_slice());
    let all = by(ranks, [rows, 1, 1, n]).expand(looks.clone());
    let (least, _) = dtype.int_bounds();
    let mut found = UOp::constant(least, dtype).broadcast_to(numbers.shape());
    for digit in (0..dtype.bits() / DIGIT).rev() {
        let unit = 1i64 << (digit * DIGIT);
        let larger = (positions(&steps, 2).cast(dtype) + 1) * unit;
        let larger = by(&found, [rows, m, 1, 1]).expand(steps.clone()) + larger;
        let below = count(&all.lt(&larger.expand(looks.clone())), 3);
        let numbers = numbers.reshape([rows, m, 1].as_slice()).expand(below.shape().clone());
        // at most as many elements are below it as are to be
        let reached = numbers.lt(&below).not().cast(dtype);
        let times = reached.reduce(ReduceOp::Add, Axes::from_slice(&[2]));
        found = (found + times * unit).contiguous();
    }
    found
}

impl Tensor {
    /// The positions along `axis` of the elements whose numbers in order, from 0 on, are `numbers`, i32: as many as there are
    /// along that axis. Equal elements keep their order.
    #[track_caller]
    pub(super) fn places_in_order(&self, axis: usize, numbers: &Tensor) -> Tensor {
        let places = || -> Result<UOp, Fault> {
            let (x, numbers) = (self.value()?.detach(), numbers.value()?.cast(DType::I32));
            let rank = x.shape().len();
            let mut last: Axes = (0..rank).collect();
            last.swap(axis, rank - 1);
            let [x, numbers] = [x, numbers].map(|x| x.permute(last.clone()));
            let rows = |x: &UOp| {
                let n = x.shape()[rank - 1];
                x.reshape([x.numel() / n, n].as_slice())
            };
            if numbers.numel() == 0 {
                return Ok(numbers.permute(last));
            }
            let places = places_of(&rows(&x), &rows(&numbers));
            let places = inside(&places, x.shape()[rank - 1]);
            Ok(places.reshape(numbers.shape().clone()).permute(last))
        };
        self.lift("places_in_order", places())
    }

    /// The elements whose numbers in order are these.
    #[track_caller]
    pub(super) fn at_in_order(&self, axis: usize, numbers: &Tensor) -> Tensor {
        self.gather(axis, &self.places_in_order(axis, numbers))
    }

    /// These numbers for each row along `axis`, of `n` elements; for a row with a NaN that of the last element, which is one.
    #[track_caller]
    pub(super) fn numbers_or_nan(&self, axis: usize, n: usize, numbers: &[usize]) -> Tensor {
        let mut line = vec![1; self.ndim()];
        line[axis] = numbers.len();
        let own: Vec<i32> = numbers.iter().map(|&k| k as i32).collect();
        let own = Tensor::from_vec_on(own, line, self.device());
        let mut shape = self.shape().to_vec();
        shape[axis] = numbers.len();
        if !self.dtype().is_float() {
            return own.expand(shape);
        }
        self.isnan().any_keepdim(axis).where_(n as i64 - 1, own).expand(shape)
    }
}
