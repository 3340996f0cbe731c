//! Programs over lengths against plain loops: the same numbers, each bit of them.

use super::with_lengths;
use kiln::{DType, Tensor};
use std::fmt::Debug;

/// A name, a program over lengths, and the numbers that plain loops give.
pub(super) type Case<L> = (&'static str, fn(L) -> Tensor, fn(L) -> Vec<f64>);

/// The numbers of a tensor, whatever its dtype is.
pub(super) fn wide(t: &Tensor) -> Vec<f64> {
    fn read<T: kiln::Element>(t: &Tensor, f: fn(T) -> f64) -> Vec<f64> {
        t.to_vec::<T>().expect("computes").into_iter().map(f).collect()
    }
    match t.dtype() {
        DType::F32 => read(t, |x: f32| f64::from(x)),
        DType::F64 => read(t, |x: f64| x),
        DType::I32 => read(t, |x: i32| f64::from(x)),
        DType::U8 => read(t, |x: u8| f64::from(x)),
        DType::Bool => read(t, |x: bool| f64::from(u8::from(x))),
        _ => {
            t.realize().expect("computes");
            read(&t.cast(DType::F64), |x: f64| x)
        }
    }
}

/// Number `i` of the data of these tests.
pub(super) fn small(i: usize) -> f64 {
    ((i * 7 + 3) % 13) as f64 - 6.0
}

/// The data itself.
pub(super) fn line(n: usize) -> Vec<f64> {
    (0..n).map(small).collect()
}

/// Row by row, what `f` gives at row and column.
pub(super) fn table(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    (0..rows * columns).map(|at| f(at / columns, at % columns)).collect()
}

/// The sum of what `f` gives below `n`.
pub(super) fn sum(n: usize, f: impl Fn(usize) -> f64) -> f64 {
    (0..n).map(f).sum()
}

/// Each program at each of the lengths, with schedules that are remembered for other lengths.
pub(super) fn hold<L: Copy + Debug>(cases: &[Case<L>], lengths: &[L]) {
    for mode in [1, 2] {
        for (name, program, loops) in cases {
            with_lengths(mode, || {
                for &l in lengths {
                    assert_eq!(wide(&program(l)), loops(l), "{name} at {l:?}, LENGTHS={mode}");
                }
            });
        }
    }
}

/// The same, compiled and interpreted.
pub(super) fn hold_on_both<L: Copy + Debug>(cases: &[Case<L>], lengths: &[L]) {
    hold(cases, lengths);
    kiln::with([("DEV", "INTERP")], || hold(cases, lengths)).expect("settings");
}
