//! Lengths that are equal by chance, lengths of 0 and 1, and constants that equal a length by chance.

use super::loops::{Case, hold, hold_on_both, line, small, sum, table};
use super::{numbers, with_lengths};
use kiln::{DType, Tensor, s};

fn whole(shape: &[usize]) -> Tensor {
    numbers(shape).cast(DType::I32)
}

/// Both computed at once, then joined.
fn at_once(a: &Tensor, b: &Tensor) -> Tensor {
    kiln::realize([a, b]).expect("computes");
    Tensor::cat([a, b], 0)
}

const TWO: &[Case<(usize, usize)>] = &[
    (
        "two sums",
        |(n, m)| numbers(&[n]).sum(..) + numbers(&[m]).sum(..) * 3.0,
        |(n, m)| vec![sum(n, small) + 3.0 * sum(m, small)],
    ),
    (
        "a difference of each pair",
        |(n, m)| whole(&[n, 1]) - whole(&[1, m]),
        |(n, m)| table(n, m, |i, j| small(i) - small(j)),
    ),
    (
        "a diagonal",
        |(n, m)| Tensor::arange(n).unsqueeze(1).eq(Tensor::arange(m).unsqueeze(0)),
        |(n, m)| table(n, m, |i, j| f64::from(u8::from(i == j))),
    ),
    (
        "a product",
        |(n, m)| whole(&[n, m]).matmul(&whole(&[m, n])),
        |(n, m)| table(n, n, |i, j| sum(m, |k| small(i * m + k) * small(k * n + j))),
    ),
    (
        "two parts of one",
        |(n, m)| {
            let x = numbers(&[40]);
            x.realize().expect("computes");
            at_once(&(x.get(s![..n]) * 2.0), &(x.get(s![..m]) + 1.0))
        },
        |(n, m)| [table(n, 1, |i, _| small(i) * 2.0), table(m, 1, |i, _| small(i) + 1.0)].concat(),
    ),
    (
        "two rows of sums",
        |(n, m)| at_once(&numbers(&[n, 5]).sum(1), &numbers(&[m, 5]).sum(1)),
        |(n, m)| {
            let sums = |n: usize| table(n, 1, |i, _| sum(5, |k| small(5 * i + k)));
            [sums(n), sums(m)].concat()
        },
    ),
    (
        "the largest halves",
        |(n, m)| numbers(&[n, m]).cast(DType::F16).flip(1).max(0),
        |(n, m)| {
            let largest = |j| (0..n).map(|i| small(i * m + m - 1 - j)).fold(f64::MIN, f64::max);
            (0..m).map(largest).collect()
        },
    ),
    (
        "gradients",
        |(n, m)| {
            let [x, y] = [n, m].map(|n| numbers(&[n]).set_requires_grad(true));
            let loss = (x.unsqueeze(1) * y.unsqueeze(0) * numbers(&[n, m])).sum(..);
            let both = loss.gradient([&x, &y]).expect("reached");
            at_once(&both[0], &both[1])
        },
        |(n, m)| {
            let of_x = |i, _| sum(m, |j| small(j) * small(i * m + j));
            let of_y = |j, _| sum(n, |i| small(i) * small(i * m + j));
            [table(n, 1, of_x), table(m, 1, of_y)].concat()
        },
    ),
];

#[test]
fn lengths_that_are_equal_by_chance_are_two() {
    let apart = [(7, 7), (8, 8), (7, 9), (9, 7), (10, 10), (11, 4), (4, 11), (12, 12)];
    let small = [(1, 1), (1, 7), (7, 1), (2, 2), (2, 3), (7, 7)];
    hold(TWO, &[&apart[..], &small].concat());
    kiln::with([("DEV", "INTERP")], || hold(TWO, &apart[..5])).expect("settings");
}

#[test]
fn lengths_that_were_always_equal_may_differ() {
    let others = [(5, 5), (6, 6), (7, 7), (9, 9), (9, 8), (8, 9), (13, 2), (9, 9)];
    hold(TWO, &others);
}

const ANY: &[Case<usize>] = &[
    (
        "a side beside a side",
        |n| numbers(&[n, 1]) + numbers(&[1, n]),
        |n| table(n, n, |i, j| small(i) + small(j)),
    ),
    (
        "whether any is less",
        |n| numbers(&[n, 1]).lt(&numbers(&[1, n])).any(0),
        |n| table(n, 1, |j, _| f64::from(u8::from((0..n).any(|i| small(i) < small(j))))),
    ),
    (
        "whether all are less",
        |n| whole(&[2, n]).lt(5).all(1),
        |n| table(2, 1, |i, _| f64::from(u8::from((0..n).all(|j| small(i * n + j) < 5.0)))),
    ),
    (
        "a sum of a product",
        |n| whole(&[n, 1]).matmul(&whole(&[1, n])).sum(0),
        |n| table(n, 1, |j, _| small(j) * sum(n, small)),
    ),
    (
        "a product of nothing",
        |n| numbers(&[3, n]).matmul(&numbers(&[n, 2])),
        |n| table(3, 2, |i, j| sum(n, |k| small(i * n + k) * small(2 * k + j))),
    ),
    (
        "joined with twice as many",
        |n| Tensor::cat([numbers(&[n]), numbers(&[2 * n]) * 2.0], 0).flip(0),
        |n| {
            let twice = line(2 * n).into_iter().map(|x| 2.0 * x);
            line(n).into_iter().chain(twice).rev().collect()
        },
    ),
    (
        "gradients",
        |n| {
            let x = numbers(&[n]).set_requires_grad(true);
            let loss = (x.unsqueeze(1) * x.unsqueeze(0)).sum(..) + x.sum(..);
            loss.gradient([&x]).expect("reached").remove(0)
        },
        |n| vec![2.0 * sum(n, small) + 1.0; n],
    ),
];

/// 251 is where a schedule ends that is made for 7.
#[test]
fn lengths_become_one_none_and_more_than_a_schedule_is_for() {
    hold(ANY, &[5, 6, 7, 1, 0, 2, 8, 250, 251, 252, 257, 5, 0, 1, 3, 260]);
}

#[test]
fn lengths_shrink_back() {
    kiln::with([("DEV", "INTERP")], || hold(ANY, &[90, 60, 45, 44, 2, 3, 1, 0, 45, 91, 5]))
        .expect("settings");
}

/// How many elements, and every how many of them, from the last one back. Such a slice can start nowhere else.
const STEPS: &[Case<(usize, isize)>] = &[
    (
        "from the last one back",
        |(n, step)| (numbers(&[n]) * 2.0 + 1.0).get(s![..; -step]),
        |(n, step)| {
            let at = (0..n).rev().step_by(step.unsigned_abs());
            at.map(|i| 2.0 * small(i) + 1.0).collect()
        },
    ),
    (
        "columns of a window, far apart",
        |(n, step)| numbers(&[2, n]).unfold(1, 2, step.unsigned_abs()).sum(1),
        |(n, step)| {
            let windows = n.saturating_sub(2) / step.unsigned_abs() + 1;
            let at = |row: usize, k: usize| {
                sum(windows, |i| small(row * n + i * step.unsigned_abs() + k))
            };
            table(2, 2, at)
        },
    ),
];

#[test]
fn the_step_of_a_slice_is_no_length() {
    let others = [
        (15, 2),
        (7, 2),
        (9, 2),
        (9, 1),
        (35, 2),
        (37, 2),
        (40, 3),
        (76, 1),
        (43, 3),
        (7, 1),
        (9, 4),
    ];
    hold_on_both(STEPS, &others);
}

/// A number for each length that follows no formula.
fn any_number(n: usize) -> i32 {
    [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8][n % 12]
}

const CONSTANTS: &[Case<usize>] = &[
    (
        "a seventh of a sum",
        |n| numbers(&[n, 3]).sum(0) / 7.0,
        |n| table(3, 1, |j, _| f64::from((sum(n, |i| small(3 * i + j)) / 7.0) as f32)),
    ),
    (
        "a length's part of a sum",
        |n| numbers(&[n, 3]).sum(0) / n as f32 + numbers(&[n, 3]).sum(0) / 7.0,
        |n| {
            let sums = |j, _| {
                let sum = sum(n, |i| small(3 * i + j)) as f32;
                f64::from(sum / n as f32 + sum / 7.0)
            };
            table(3, 1, sums)
        },
    ),
    (
        "what is less than 7",
        |n| Tensor::arange(n).lt(7),
        |n| table(n, 1, |i, _| f64::from(u8::from(i < 7))),
    ),
    (
        "what is less than 7 or a length",
        |n| {
            let at = Tensor::arange(2 * n);
            at.lt(7).where_(1, 0) + at.lt(n as i32).where_(10, 0)
        },
        |n| table(2 * n, 1, |i, _| f64::from(i32::from(i < 7) + 10 * i32::from(i < n))),
    ),
    (
        "a constant that is a length for a while",
        |n| (whole(&[n]) * if n < 10 { n as i32 } else { 3 }).sum(..),
        |n| vec![sum(n, small) * if n < 10 { n as f64 } else { 3.0 }],
    ),
    (
        "constants of no formula",
        |n| whole(&[n]) * any_number(n) + Tensor::arange(n) * any_number(n + 5),
        |n| {
            let [a, b] = [n, n + 5].map(|n| f64::from(any_number(n)));
            table(n, 1, |i, _| small(i) * a + i as f64 * b)
        },
    ),
    (
        "a pad of no formula",
        |n| numbers(&[n, 2]).pad([(any_number(n) as usize, 7), (1, 0)]).sum(1) + 1.0,
        |n| {
            let before = any_number(n) as usize;
            let sums = |i: usize| match i.checked_sub(before) {
                Some(i) if i < n => small(2 * i) + small(2 * i + 1) + 1.0,
                _ => 1.0,
            };
            (0..before + n + 7).map(sums).collect()
        },
    ),
    (
        "halves and squares",
        |n| Tensor::arange(n) % (n as i32 / 2) + (n * n) as i32,
        |n| table(n, 1, |i, _| (i % (n / 2) + n * n) as f64),
    ),
    (
        "a column of 7",
        |n| numbers(&[n, 7]).sum(0) + numbers(&[7]),
        |n| table(7, 1, |j, _| sum(n, |i| small(7 * i + j)) + small(j)),
    ),
    (
        "rows of 7 and 7 rows",
        |n| {
            numbers(&[7 * n]).reshape([n, 7]).sum(1).sum(..)
                + numbers(&[7 * n]).reshape([7, n]).max(1)
        },
        |n| {
            let all = sum(7 * n, small);
            table(7, 1, |i, _| all + (0..n).map(|j| small(i * n + j)).fold(f64::MIN, f64::max))
        },
    ),
    (
        "a start of 7 or of a length",
        |n| numbers(&[60]).get(s![7..7 + n]) - numbers(&[60]).get(s![n..2 * n]) * 2.0,
        |n| table(n, 1, |i, _| small(7 + i) - 2.0 * small(n + i)),
    ),
    (
        "steps of 7",
        |n| Tensor::arange(7 * n).get(s![3..;7]) - Tensor::arange(n).flip(0) * n as i32,
        |n| table(n, 1, |i, _| (3 + 7 * i) as f64 - ((n - 1 - i) * n) as f64),
    ),
    (
        "halves that are cut off",
        |n| numbers(&[n]).cast(DType::F16).clamp(-(n as f32) / 4.0, 2.0) * 7.0,
        |n| table(n, 1, |i, _| small(i).clamp(-(n as f64) / 4.0, 2.0) * 7.0),
    ),
];

#[test]
fn constants_that_equal_a_length_by_chance() {
    hold_on_both(CONSTANTS, &[7, 8, 9, 10, 11, 7, 21, 4, 8, 14, 20]);
}

#[test]
fn constants_that_equalled_a_length_each_time() {
    let all: Vec<Case<usize>> =
        CONSTANTS.iter().filter(|(name, ..)| name.contains("constant")).copied().collect();
    hold_on_both(&all, &[4, 6, 8, 9, 7, 12, 5, 24, 16, 8]);
}

/// The kernel of a graph that is too large for any memory is no pattern for those of other lengths.
#[test]
fn lengths_after_one_that_is_too_large() {
    for mode in [1, 2] {
        with_lengths(mode, || {
            let fill = |value: f32, shape: [usize; 2]| Tensor::full(shape, value).contiguous();
            assert!(fill(1.0, [1 << 40, 1 << 10]).to_vec::<f32>().is_err());
            for (value, n) in [(0.0, 8), (0.0, 40), (0.0, 41), (2.0, 9), (3.0, 2), (0.0, 77)] {
                let found = fill(value, [n, 2]).to_vec::<f32>().expect("computes");
                assert_eq!(found, vec![value; 2 * n], "{n}, LENGTHS={mode}");
            }
        });
    }
}
