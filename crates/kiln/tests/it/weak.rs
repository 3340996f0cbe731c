//! Numbers beside tensors that the tensor's dtype does not hold: comparisons and bounds go by the number that was written.

use kiln::{DType, Tensor};
use std::cmp::Ordering;

const INTEGERS: [DType; 8] =
    [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];

fn bools(t: &Tensor) -> Vec<bool> {
    t.to_vec().expect("computes")
}

/// All comparisons of `t` with `number`, as what `order` says of each element.
fn check(what: &str, t: &Tensor, number: Number, order: &[Option<Ordering>]) {
    type Holds = fn(Ordering) -> bool;
    let wants =
        |holds: Holds| -> Vec<bool> { order.iter().map(|o| o.is_some_and(holds)).collect() };
    macro_rules! compared {
        ($($name:ident $holds:ident;)*) => { $(
            let got = bools(&match number {
                Number::Signed(n) => t.$name(n),
                Number::Unsigned(n) => t.$name(n),
                Number::Float(n) => t.$name(n),
            });
            assert_eq!(got, wants(Ordering::$holds), "{what}.{}({number:?})", stringify!($name));
        )* };
    }
    compared! { lt is_lt; le is_le; gt is_gt; ge is_ge; eq is_eq; }
    let differs: Vec<bool> = order.iter().map(|o| o.is_none_or(Ordering::is_ne)).collect();
    let got = match number {
        Number::Signed(n) => t.ne(n),
        Number::Unsigned(n) => t.ne(n),
        Number::Float(n) => t.ne(n),
    };
    assert_eq!(bools(&got), differs, "{what}.ne({number:?})");
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

/// The smallest and largest integers of a dtype, and some between.
fn samples(dtype: DType) -> Vec<i128> {
    let bits = dtype.size() * 8;
    let (low, high) = match dtype.is_signed() {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    vec![low, low + 1, 0, 1, 57, high - 1, high]
}

fn of(dtype: DType, integers: &[i128]) -> Tensor {
    match dtype {
        DType::U64 => Tensor::from(integers.iter().map(|&i| i as u64).collect::<Vec<_>>()),
        _ => Tensor::from(integers.iter().map(|&i| i as i64).collect::<Vec<_>>()).cast(dtype),
    }
}

#[test]
fn integers_compare_with_any_number() {
    for dtype in INTEGERS {
        let integers = samples(dtype);
        let t = of(dtype, &integers);
        let numbers = [-1, -129, 200, 256, 57, 65_536, 1 << 31, -(1 << 40), i64::MIN, i64::MAX];
        for number in numbers {
            let order: Vec<_> =
                integers.iter().map(|i| i.partial_cmp(&i128::from(number))).collect();
            check(dtype.name(), &t, Number::Signed(number), &order);
        }
        let number = u64::MAX - 1;
        let order: Vec<_> = integers.iter().map(|i| i.partial_cmp(&i128::from(number))).collect();
        check(dtype.name(), &t, Number::Unsigned(number), &order);
    }
}

#[test]
fn floats_compare_with_numbers_that_they_do_not_reach() {
    let data = [f32::NEG_INFINITY, f32::MIN, -1.0, 0.0, 65504.0, f32::MAX, f32::INFINITY, f32::NAN];
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let t = Tensor::from(data).cast(dtype);
        let held: Vec<f64> = t.cast(DType::F64).to_vec().expect("computes");
        let outside = [1e300, -1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let reached = if dtype == DType::F16 { 70_000.0 } else { 3.5e38 };
        for number in outside.into_iter().chain([reached, -reached]) {
            let order: Vec<_> = held.iter().map(|x| x.partial_cmp(&number)).collect();
            check(dtype.name(), &t, Number::Float(number), &order);
        }
    }
}

#[test]
fn integers_are_bounded_by_any_number() {
    for dtype in INTEGERS {
        let integers = samples(dtype);
        let (low, high) = (integers[0], *integers.last().expect("some"));
        let t = of(dtype, &integers);
        let read = |t: &Tensor| -> Vec<i128> {
            assert_eq!(t.dtype(), dtype);
            match dtype {
                DType::U64 => {
                    t.to_vec::<u64>().expect("computes").into_iter().map(i128::from).collect()
                }
                _ => t
                    .cast(DType::I64)
                    .to_vec::<i64>()
                    .expect("computes")
                    .into_iter()
                    .map(i128::from)
                    .collect(),
            }
        };
        for number in [-1, -129, 200, 256, 57, 1 << 31, -(1 << 40), i64::MIN, i64::MAX] {
            let end = i128::from(number).clamp(low, high);
            let each =
                |f: &dyn Fn(i128) -> i128| integers.iter().map(|&i| f(i)).collect::<Vec<_>>();
            assert_eq!(read(&t.maximum(number)), each(&|i| i.max(end)), "{dtype} {number}");
            assert_eq!(read(&t.minimum(number)), each(&|i| i.min(end)), "{dtype} {number}");
            assert_eq!(read(&t.clamp(number, u64::MAX)), each(&|i| i.max(end)), "{dtype} {number}");
            assert_eq!(read(&t.clamp(i64::MIN, number)), each(&|i| i.min(end)), "{dtype} {number}");
        }
    }
}

#[test]
fn diagonals_are_as_far_away_as_they_are() {
    let t = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    for far in [3i64, 1 << 31, 1 << 32, i64::MAX] {
        assert_eq!(t.tril(far).to_vec::<i32>().unwrap(), [1, 2, 3, 4, 5, 6], "{far}");
        assert_eq!(t.triu(far).to_vec::<i32>().unwrap(), [0; 6], "{far}");
        assert_eq!(t.tril(-far).to_vec::<i32>().unwrap(), [0; 6], "{far}");
        assert_eq!(t.triu(-far).to_vec::<i32>().unwrap(), [1, 2, 3, 4, 5, 6], "{far}");
    }
    assert_eq!(t.triu(i64::MIN).to_vec::<i32>().unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(t.tril(usize::MAX).to_vec::<i32>().unwrap(), [1, 2, 3, 4, 5, 6]);
    assert!(t.reshape([usize::MAX]).error().is_some());
}

#[test]
fn what_is_no_class_is_an_error() {
    for outside in [3, -1, i32::MAX, i32::MIN] {
        let known = Tensor::from([0, outside, 2]);
        let error = known.one_hot(3).error().expect("known").to_string();
        assert!(error.contains(&outside.to_string()) && error.contains("weak.rs"), "{error}");
        let computed = &known * 1 + 0;
        let error = (&computed + &computed - &computed).one_hot(3).to_vec::<i32>().unwrap_err();
        assert!(error.to_string().contains("one_hot"), "{error}");
    }
    let fine = Tensor::from([2u8, 0]).one_hot(3);
    assert_eq!(fine.to_vec::<i32>().unwrap(), [0, 0, 1, 1, 0, 0]);
    let computed = Tensor::from([2i64, 0]) * Tensor::from([1i64, 5]);
    assert_eq!(computed.one_hot(3).to_vec::<i32>().unwrap(), [0, 0, 1, 1, 0, 0]);
    assert!(Tensor::from([0]).one_hot(0).error().is_some());
}
