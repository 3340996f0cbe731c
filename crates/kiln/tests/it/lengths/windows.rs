//! Windows whose number is rounded down, and running sums, whose graphs depend on how many levels they have.

use super::loops::{Case, hold, hold_on_both, line, small, sum, table};
use super::numbers;
use kiln::{DType, Tensor, s};

fn whole(shape: &[usize]) -> Tensor {
    numbers(shape).cast(DType::I32)
}

/// How many windows there are.
fn count(n: usize, size: usize, step: usize) -> usize {
    (n - size) / step + 1
}

fn largest(n: usize, f: impl Fn(usize) -> f64) -> f64 {
    (0..n).map(f).fold(f64::NEG_INFINITY, f64::max)
}

/// `f(padded[i])` where a row of zeros is before and behind.
fn padded(i: usize, n: usize, f: impl Fn(usize) -> f64) -> f64 {
    i.checked_sub(1).filter(|i| *i < n).map_or(0.0, f)
}

/// A convolution in steps of 2 along rows of one column.
fn convolved(x: &Tensor, kernel: &Tensor) -> Tensor {
    x.conv2d(kernel, None, 1, (2, 1), 1, (1, 0))
}

/// The inputs of it.
fn image(n: usize) -> (Tensor, Tensor) {
    (numbers(&[1, 2, n, 1]), numbers(&[3, 2, 3, 1]))
}

/// Row `i` of channel `c`, where rows of zeros are around.
fn pixel(n: usize, c: usize, i: usize) -> f64 {
    padded(i, n, |i| small(c * n + i))
}

const WINDOWS: &[Case<usize>] = &[
    (
        "sums in steps of 2",
        |n| numbers(&[n]).unfold(0, 3, 2).sum(-1),
        |n| table(count(n, 3, 2), 1, |w, _| sum(3, |k| small(2 * w + k))),
    ),
    (
        "largest in steps of 3",
        |n| whole(&[2, n]).unfold(1, 5, 3).max(-1),
        |n| table(2, count(n, 5, 3), |r, w| largest(5, |k| small(r * n + 3 * w + k))),
    ),
    (
        "of every second one, turned around",
        |n| numbers(&[2 * n]).get(s![..;2]).flip(0).unfold(0, 4, 3).sum(-1),
        |n| table(count(n, 4, 3), 1, |w, _| sum(4, |k| small(2 * (n - 1 - 3 * w - k)))),
    ),
    (
        "whether any is positive",
        |n| numbers(&[n]).gt(4.0).unfold(0, 2, 4).any(-1),
        |n| {
            let is = |w| (0..2).any(|k| small(4 * w + k) > 4.0);
            table(count(n, 2, 4), 1, |w, _| f64::from(u8::from(is(w))))
        },
    ),
    (
        "a convolution in steps of 2",
        |n| convolved(&image(n).0, &image(n).1),
        |n| {
            let at = |o: usize, w: usize| {
                sum(6, |ck| small(6 * o + ck) * pixel(n, ck / 3, 2 * w + ck % 3))
            };
            table(3, count(n + 2, 3, 2), at)
        },
    ),
    (
        "pooled",
        |n| numbers(&[1, 2, n, 1]).max_pool2d_with((3, 1), (2, 1), 1, 0),
        |n| table(2, count(n, 3, 2), |c, w| largest(3, |k| small(c * n + 2 * w + k))),
    ),
    (
        "gradients",
        |n| {
            let x = numbers(&[n]).set_requires_grad(true);
            let weights = numbers(&[count(n, 3, 2), 3]);
            let loss = (x.unfold(0, 3, 2) * weights).sum(..);
            loss.gradient([&x]).expect("reached").remove(0)
        },
        |n| {
            let mut slope = vec![0.0; n];
            (0..3 * count(n, 3, 2)).for_each(|at| slope[2 * (at / 3) + at % 3] += small(at));
            slope
        },
    ),
    (
        "gradients of a convolution for its weights",
        |n| {
            let (x, kernel) = image(n);
            let y = convolved(&x, &kernel.set_requires_grad(true));
            let loss = (&y * numbers(y.shape())).sum(..);
            loss.gradient([&kernel]).expect("reached").remove(0)
        },
        |n| {
            let windows = count(n + 2, 3, 2);
            let of = |o: usize, ck: usize| {
                sum(windows, |w| small(o * windows + w) * pixel(n, ck / 3, 2 * w + ck % 3))
            };
            table(3, 6, of)
        },
    ),
    (
        "gradients of a convolution for its input",
        |n| {
            let (x, kernel) = image(n);
            let y = convolved(&x.set_requires_grad(true), &kernel);
            let loss = (&y * numbers(y.shape())).sum(..);
            loss.gradient([&x]).expect("reached").remove(0)
        },
        |n| {
            let windows = count(n + 2, 3, 2);
            let mut slope = vec![0.0; 2 * n];
            for at in 0..3 * windows * 6 {
                let (o, w, c, k) = (at / 6 / windows, at / 6 % windows, at % 6 / 3, at % 3);
                let row = (2 * w + k).checked_sub(1).filter(|i| *i < n);
                let by = small(o * windows + w) * small(6 * o + at % 6);
                row.into_iter().for_each(|i| slope[c * n + i] += by);
            }
            slope
        },
    ),
];

#[test]
fn windows_in_steps_are_counted_down() {
    hold_on_both(WINDOWS, &[7, 9, 11, 8, 12, 13, 14, 10, 6, 5, 40, 41, 16]);
}

/// The running result of a row.
fn running(row: &[f64], f: fn(f64, f64) -> f64) -> Vec<f64> {
    let next = |now: &mut Option<f64>, &x: &f64| {
        *now = Some(now.map_or(x, |now| f(now, x)));
        *now
    };
    row.iter().scan(None, next).collect()
}

fn sums(row: &[f64]) -> Vec<f64> {
    running(row, |a, b| a + b)
}

const RUNNING: &[Case<usize>] = &[
    ("sums", |n| numbers(&[n]).cumsum(0), |n| sums(&line(n))),
    (
        "whole sums",
        |n| whole(&[2, n]).cumsum(1),
        |n| line(2 * n).chunks(n).flat_map(sums).collect(),
    ),
    (
        "sums of columns",
        |n| numbers(&[n, 3]).cumsum(0),
        |n| {
            let columns: Vec<_> =
                (0..3).map(|j| sums(&table(n, 1, |i, _| small(3 * i + j)))).collect();
            table(n, 3, |i, j| columns[j][i])
        },
    ),
    (
        "sums from the end",
        |n| numbers(&[2 * n]).get(s![1..;2]).flip(0).cumsum(0),
        |n| sums(&table(n, 1, |i, _| small(2 * (n - 1 - i) + 1))),
    ),
    ("sums of halves", |n| numbers(&[n]).cast(DType::F16).cumsum(0), |n| sums(&line(n))),
    (
        "signs of products",
        |n| numbers(&[n]).gt(0.0).where_(1.0, -1.0).cumprod(0),
        |n| {
            let signs: Vec<f64> =
                line(n).iter().map(|x| if *x > 0.0 { 1.0 } else { -1.0 }).collect();
            running(&signs, |a, b| a * b)
        },
    ),
    (
        "the largest so far",
        |n| (whole(&[n]) + Tensor::arange(n).floor_div(3)).cummax(0).0,
        |n| running(&table(n, 1, |i, _| small(i) + (i / 3) as f64), f64::max),
    ),
    (
        "gradients of sums",
        |n| {
            let x = numbers(&[n]).set_requires_grad(true);
            let loss = (x.cumsum(0) * numbers(&[n]).flip(0)).sum(..);
            loss.gradient([&x]).expect("reached").remove(0)
        },
        |n| {
            let mut slope = sums(&line(n));
            slope.reverse();
            slope
        },
    ),
];

const SORTED: &[Case<usize>] = &[
    (
        "sorted",
        |n| numbers(&[n]).sort(0, true).0,
        |n| {
            let mut all = line(n);
            all.sort_by(|a, b| b.total_cmp(a));
            all
        },
    ),
    (
        "the largest five",
        |n| whole(&[n]).topk(5, 0, true).0,
        |n| {
            let mut all = line(n);
            all.sort_by(|a, b| b.total_cmp(a));
            all.truncate(5);
            all
        },
    ),
];

#[test]
fn running_sums_have_as_many_levels_as_they_need() {
    hold_on_both(RUNNING, &[15, 16, 17, 33, 16, 2, 1, 31]);
    hold(RUNNING, &[1023, 1024, 1025, 257, 16, 1030]);
}

#[test]
fn sorting_has_as_many_levels_as_it_needs() {
    hold_on_both(SORTED, &[15, 16, 17, 18, 19, 20, 31, 9]);
    hold(SORTED, &[1023, 1024, 1025]);
}
