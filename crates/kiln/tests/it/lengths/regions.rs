//! Regions that start and end at lengths: they are written while others of the same memory are read, and axes are
//! taken apart into others.

use super::loops::{Case, hold_on_both, small, sum, table};
use super::numbers;
use kiln::{DType, Tensor, s};

/// Where a region is written, where one is read, and how long both are.
type Place = (usize, usize, usize);

const LEN: usize = 130;

/// Numbers in memory that nobody else has.
fn memory(shape: &[usize]) -> Tensor {
    let t = numbers(shape);
    t.realize().expect("computes");
    t
}

/// The data after `write` has changed it, which is given the data before.
fn after(len: usize, write: impl Fn(&[f64], &mut [f64])) -> Vec<f64> {
    let before: Vec<f64> = (0..len).map(small).collect();
    let mut now = before.clone();
    write(&before, &mut now);
    now
}

const MOVES: &[Case<Place>] = &[
    (
        "moved",
        |(a, b, n)| {
            let t = memory(&[LEN]);
            t.set(s![a..a + n], t.get(s![b..b + n]));
            t
        },
        |(a, b, n)| after(LEN, |old, t| t[a..a + n].copy_from_slice(&old[b..b + n])),
    ),
    (
        "moved and turned around",
        |(a, b, n)| {
            let t = memory(&[LEN]);
            t.set(s![a..a + n], t.get(s![b..b + n]).flip(0) * 2.0);
            t
        },
        |(a, b, n)| after(LEN, |old, t| (0..n).for_each(|i| t[a + i] = 2.0 * old[b + n - 1 - i])),
    ),
    (
        "written through a view that is turned around",
        |(a, b, n)| {
            let t = memory(&[LEN]);
            t.flip(0).set(s![a..a + n], t.get(s![b..b + n]));
            t
        },
        |(a, b, n)| after(LEN, |old, t| (0..n).for_each(|i| t[LEN - 1 - a - i] = old[b + i])),
    ),
    (
        "spread",
        |(a, b, n)| {
            let t = memory(&[LEN]);
            t.set(s![a..a + 2 * n;2], t.get(s![b..b + n]) + 1.0);
            t
        },
        |(a, b, n)| after(LEN, |old, t| (0..n).for_each(|i| t[a + 2 * i] = old[b + i] + 1.0)),
    ),
    (
        "added",
        |(a, b, n)| {
            let t = memory(&[LEN]).cast(DType::I32);
            t.realize().expect("computes");
            t.set(s![a..a + n], t.get(s![a..a + n]) + t.get(s![b..b + n]) * 3);
            t
        },
        |(a, b, n)| after(LEN, |old, t| (0..n).for_each(|i| t[a + i] += 3.0 * old[b + i])),
    ),
    (
        "columns",
        |(a, b, n)| {
            let t = memory(&[3, LEN]);
            t.set(s![.., a..a + n], t.get(s![.., b..b + n]));
            t
        },
        |(a, b, n)| {
            let row = |old: &[f64], t: &mut [f64], at: usize| {
                t[at + a..at + a + n].copy_from_slice(&old[at + b..at + b + n]);
            };
            after(3 * LEN, |old, t| (0..3).for_each(|r| row(old, t, r * LEN)))
        },
    ),
    (
        "bytes there and back",
        |(a, b, n)| {
            let t = (memory(&[LEN]) + 6.0).cast(DType::U8);
            t.realize().expect("computes");
            t.set(s![a..a + n], t.get(s![b..b + n]));
            t.set(s![b..b + n], t.get(s![a..a + n]) + 1);
            t
        },
        |(a, b, n)| {
            let mut t: Vec<f64> = (0..LEN).map(|i| small(i) + 6.0).collect();
            t.copy_within(b..b + n, a);
            let old = t.clone();
            (0..n).for_each(|i| t[b + i] = old[a + i] + 1.0);
            t
        },
    ),
    (
        "read before and after",
        |(a, b, n)| {
            let t = memory(&[LEN]);
            let before = t.get(s![b..b + n]) * 10.0;
            t.set(s![a..a + n], t.get(s![b..b + n]) - 1.0);
            let sums = before + t.get(s![b..b + n]);
            Tensor::cat([&t, &sums], 0)
        },
        |(a, b, n)| {
            let t = after(LEN, |old, t| (0..n).for_each(|i| t[a + i] = old[b + i] - 1.0));
            let sums: Vec<f64> = (0..n).map(|i| small(b + i) * 10.0 + t[b + i]).collect();
            [t, sums].concat()
        },
    ),
];

#[test]
fn what_is_moved_is_read_before_it_is_written() {
    let near = [(0, 3, 5), (3, 0, 6), (2, 2, 7), (0, 1, 8), (1, 0, 9), (9, 4, 20), (4, 9, 21)];
    let far = [(0, 60, 25), (60, 0, 26), (5, 5, 40), (5, 6, 40), (6, 5, 41), (0, 1, 1), (1, 0, 2)];
    hold_on_both(MOVES, &[&near[..], &far].concat());
}

/// Position `i` of data that starts at `from` in zeros.
fn inside(i: usize, from: usize, len: usize) -> f64 {
    i.checked_sub(from).filter(|i| *i < len).map_or(0.0, small)
}

/// The slope of number `i`, which windows `n` to `n + 3` see.
fn slope(i: usize, n: usize) -> f64 {
    let of = |w: usize| i.checked_sub(2 * (n + w)).filter(|k| *k < 3).map(|k| small(3 * w + k));
    (0..3).filter_map(of).sum()
}

/// Their starts and lengths grow with one number, so at some numbers regions meet that are apart at others.
const MEETINGS: &[Case<usize>] = &[
    (
        "a region that passes another one",
        |n| {
            let t = memory(&[300]);
            t.set(s![n..n + 8], t.get(s![40..48]) + 1.0);
            t.get(s![..n + 60]) * 2.0
        },
        |n| {
            let t = after(300, |old, t| (0..8).for_each(|i| t[n + i] = old[40 + i] + 1.0));
            t[..n + 60].iter().map(|x| x * 2.0).collect()
        },
    ),
    (
        "both computed",
        |n| {
            let t = memory(&[300]);
            t.set(s![n..n + 8], t.get(s![40..48]) + 1.0);
            let sum = t.get(s![..n]).sum_keepdim(0);
            kiln::realize([&t, &sum]).expect("computes");
            Tensor::cat([&t, &sum], 0)
        },
        |n| {
            let mut t = after(300, |old, t| (0..8).for_each(|i| t[n + i] = old[40 + i] + 1.0));
            t.push(t[..n].iter().sum());
            t
        },
    ),
    (
        "a part is read that is behind, inside of and before what is written",
        |n| {
            let t = memory(&[300]);
            t.set(s![n..n + 3], -9.0);
            t.get(s![40..48]) + numbers(&[n]).sum(..)
        },
        |n| {
            let t = after(300, |_, t| t[n..n + 3].fill(-9.0));
            t[40..48].iter().map(|x| x + sum(n, small)).collect()
        },
    ),
    (
        "a part of a padding that grows",
        |n| numbers(&[10]).pad([(n, 300 - n)]).get(s![40..44]) * 2.0,
        |n| table(4, 1, |i, _| inside(40 + i, n, 10) * 2.0),
    ),
    (
        "a growing part of a padding",
        |n| numbers(&[10]).pad([(20, 300)]).get(s![n..n + 4]) + numbers(&[n]).sum(..),
        |n| table(4, 1, |i, _| inside(n + i, 20, 10) + sum(n, small)),
    ),
    (
        "a padding of a padding",
        |n| {
            let part = numbers(&[3]).pad([(n, 297 - n)]).get(s![40..48]);
            part.pad([(2, 1)]) - 1.0
        },
        |n| {
            table(
                11,
                1,
                |i, _| if (2..10).contains(&i) { inside(38 + i, n, 3) - 1.0 } else { -1.0 },
            )
        },
    ),
    (
        "a padding in each of two axes",
        |n| {
            let x = numbers(&[3, 10]).pad([(n, 300 - n), (20, n)]);
            x.get(s![40..44, 22..25]).sum(1)
        },
        |n| {
            let at =
                |i, j| if (n..n + 3).contains(&i) { small((i - n) * 10 + j - 20) } else { 0.0 };
            table(4, 1, |i, _| sum(3, |j| at(40 + i, 22 + j)))
        },
    ),
    (
        "zeros on both sides, joined",
        |n| {
            let sides = [n, 300 - n].map(|n| Tensor::zeros([n]));
            Tensor::cat([&sides[0], &numbers(&[3]), &sides[1]], 0).get(s![40..48]) + 1.0
        },
        |n| table(8, 1, |i, _| inside(40 + i, n, 3) + 1.0),
    ),
    (
        "positions that are compared from the end",
        |n| {
            let at = Tensor::arange(n + 8).flip(0).get(s![..8]);
            at.ge(100).logical_and(at.lt(104))
        },
        |n| table(8, 1, |i, _| f64::from(u8::from((100..104).contains(&(n + 7 - i))))),
    ),
    (
        "positions that are equal to some",
        |n| {
            let at = Tensor::arange(400).get(s![n..n + 8]).unsqueeze(1);
            at.eq(Tensor::arange(100..104).unsqueeze(0)).any(1).where_(1, numbers(&[n]).sum(..))
        },
        |n| table(8, 1, |i, _| if (100..104).contains(&(n + i)) { 1.0 } else { sum(n, small) }),
    ),
    (
        "positions of a slice in a range",
        |n| {
            let at = Tensor::arange(400).get(s![n..n + 8]);
            at.ge(100).logical_and(at.lt(104)).where_(1, numbers(&[n]).sum(..))
        },
        |n| table(8, 1, |i, _| if (100..104).contains(&(n + i)) { 1.0 } else { sum(n, small) }),
    ),
    (
        "a part of the slopes of windows",
        |n| {
            let x = numbers(&[600]).set_requires_grad(true);
            let windows = x.unfold(0, 3, 2).get(s![n..n + 3]) * numbers(&[3, 3]);
            let slopes = (windows.sum(..) * numbers(&[n]).sum(..)).gradient([&x]);
            slopes.expect("reached").remove(0).get(s![200..210]) + 1.0
        },
        |n| table(10, 1, |i, _| 1.0 + sum(n, small) * slope(200 + i, n)),
    ),
    (
        "a part of the slopes of a convolution",
        |n| {
            let x = numbers(&[1, 1, 600, 1]).set_requires_grad(true);
            let y = x.conv2d(&numbers(&[1, 1, 3, 1]), None, 1, (2, 1), 1, 0);
            let part = y.get(s![.., .., n..n + 3]).sum(..) * numbers(&[n]).sum(..);
            let slopes = part.gradient([&x]).expect("reached").remove(0);
            slopes.get(s![0, 0, 200..210, 0])
        },
        |n| {
            let of = |i: usize, w: usize| i.checked_sub(2 * (n + w)).filter(|k| *k < 3);
            let of = |i| (0..3).filter_map(|w| of(i, w)).map(small).sum::<f64>();
            table(10, 1, |i, _| sum(n, small) * of(200 + i))
        },
    ),
    (
        "a part of the sums of a part",
        |n| {
            let x = numbers(&[3, 8]).pad([(0, 0), (n, 300 - n)]);
            x.cumsum(0).get(s![.., 100..106]).sum(1) + 1.0
        },
        |n| {
            let at = |i: usize, j: usize| match j.checked_sub(n) {
                Some(j) if j < 8 => sum(i + 1, |k| small(8 * k + j)),
                _ => 0.0,
            };
            table(3, 1, |i, _| sum(6, |j| at(i, 100 + j)) + 1.0)
        },
    ),
    (
        "passed backwards",
        |n| {
            let t = memory(&[400]);
            let sum = t.get(s![..n]).sum_keepdim(0);
            t.set(s![290 - n..298 - n], t.get(s![240..248]).flip(0) * 3.0);
            kiln::realize([&t, &sum]).expect("computes");
            Tensor::cat([&t, &sum], 0)
        },
        |n| {
            let write = |old: &[f64], t: &mut [f64]| {
                (0..8).for_each(|i| t[290 - n + i] = 3.0 * old[247 - i])
            };
            [after(400, write), vec![sum(n, small)]].concat()
        },
    ),
    (
        "a region that grows into another one",
        |n| {
            let t = memory(&[700]);
            t.set(s![n..2 * n], t.get(s![50..50 + n]) - 1.0);
            t.realize().expect("computes");
            t
        },
        |n| after(700, |old, t| (0..n).for_each(|i| t[n + i] = old[50 + i] - 1.0)),
    ),
    (
        "the ends of two regions",
        |n| {
            let t = memory(&[4, 300]).cast(DType::I32);
            t.realize().expect("computes");
            t.set(s![.., 300 - n..], t.get(s![.., 100..100 + n]) * 2);
            t
        },
        |n| {
            let write = |old: &[f64], t: &mut [f64], r: usize| {
                (0..n).for_each(|i| t[r * 300 + 300 - n + i] = 2.0 * old[r * 300 + 100 + i]);
            };
            after(1200, |old, t| (0..4).for_each(|r| write(old, t, r)))
        },
    ),
    (
        "a square turned over",
        |n| {
            let t = memory(&[112, 112]);
            t.set(s![..n, ..n], t.get(s![..n, ..n]).t());
            t
        },
        |n| {
            let at = |i: usize, j: usize| {
                if i < n && j < n { small(112 * j + i) } else { small(112 * i + j) }
            };
            table(112, 112, at)
        },
    ),
];

#[test]
fn regions_that_meet_at_some_lengths() {
    let lengths = [
        5, 6, 7, 8, 17, 18, 19, 24, 28, 30, 31, 32, 33, 36, 39, 40, 41, 44, 47, 48, 49, 50, 51, 55,
        6, 2, 60, 92, 93, 95, 97, 98, 99, 100, 101, 102, 103, 104, 105, 110, 3, 92,
    ];
    hold_on_both(MEETINGS, &lengths);
}

/// Batches, and lengths.
const APART: &[Case<(usize, usize)>] = &[
    (
        "batches and lengths swapped",
        |(b, n)| numbers(&[b, n, 4]).reshape([b * n, 4]).reshape([n, b, 4]).sum(0),
        |(b, n)| table(b, 4, |i, d| sum(n, |k| small((k * b + i) * 4 + d))),
    ),
    (
        "permuted in between",
        |(b, n)| {
            let flat = numbers(&[b, n, 3]).permute([1, 0, 2]).reshape([b * n, 3]);
            flat.reshape([b, n, 3]).max(1)
        },
        |(b, n)| {
            // row r of the flat one is batch r % b at r / b
            let of = |r: usize, d: usize| small(((r % b) * n + r / b) * 3 + d);
            table(b, 3, |i, d| (0..n).map(|k| of(i * n + k, d)).fold(f64::MIN, f64::max))
        },
    ),
    (
        "turned around, and whole",
        |(b, n)| {
            let x = numbers(&[b, n, 4]).cast(DType::I32).flip([0, 2]);
            x.reshape([b * n, 4]).reshape([n, 4 * b]) * 2
        },
        |(b, n)| {
            let of = |at: usize| small(((b - 1 - at / (4 * n)) * n + at / 4 % n) * 4 + 3 - at % 4);
            (0..4 * b * n).map(|at| 2.0 * of(at)).collect()
        },
    ),
    (
        "every second one",
        |(b, n)| {
            let x = numbers(&[2 * b, n, 4]).get(s![1..;2]);
            x.reshape([n, b, 4]).permute([1, 2, 0]).sum(2)
        },
        |(b, n)| {
            let of = |at: usize| small((2 * (at / (4 * n)) + 1) * 4 * n + at % (4 * n));
            table(b, 4, |i, d| sum(n, |k| of((k * b + i) * 4 + d)))
        },
    ),
    (
        "a product in between",
        |(b, n)| {
            let rows = numbers(&[b, n, 4]).reshape([b * n, 4]).matmul(&numbers(&[4, 3]));
            rows.reshape([n, b, 3]) + numbers(&[b, 3])
        },
        |(b, n)| {
            let row = |r: usize, j: usize| sum(4, |k| small(4 * r + k) * small(3 * k + j));
            table(n * b, 3, |r, j| row(r, j) + small(r % b * 3 + j))
        },
    ),
    (
        "gradients",
        |(b, n)| {
            let x = numbers(&[b, n, 2]).set_requires_grad(true);
            let weight = numbers(&[n, b, 1]) + numbers(&[1, 1, 2]);
            let loss = (x.reshape([b * n, 2]).reshape([n, b, 2]) * weight).sum(..);
            loss.gradient([&x]).expect("reached").remove(0)
        },
        |(b, n)| table(b * n, 2, |r, d| small(r) + small(d)),
    ),
    (
        "columns of a flag",
        |(b, n)| {
            let flags = numbers(&[b, n]).gt(0.0).reshape([n * b]);
            flags.reshape([n, b]).t().any(1)
        },
        |(b, n)| table(b, 1, |i, _| f64::from(u8::from((0..n).any(|k| small(k * b + i) > 0.0)))),
    ),
];

#[test]
fn axes_that_become_others_of_the_same_size() {
    let equal = [(4, 6), (6, 4), (5, 5), (3, 8), (8, 3), (12, 2), (2, 12), (6, 6)];
    let others = [(7, 11), (11, 7), (1, 24), (24, 1), (9, 9), (10, 3), (4, 6)];
    hold_on_both(APART, &[&equal[..], &others].concat());
}
