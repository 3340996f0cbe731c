//! What lengths that vary cost. Each program runs at five random sizes in one process; from the third on it may get general
//! kernels. Each time is compared, in turn, with that of kernels for its numbers alone (`LENGTHS=0`), and the first call with
//! the first call of those. Run with `KILN_CACHE=$(mktemp -d) cargo bench -p kiln --bench lengths`; `-- 7` takes other sizes,
//! those of seed 7.
//!
//! A ratio above 1 is what a general kernel loses. It saves the compilation at further lengths.
#![allow(clippy::print_stdout)]

use kiln::{Error, Tensor};
use std::time::{Duration, Instant};

/// Sizes of each program.
const SIZES: usize = 5;
/// How often each is timed, as long as it takes less than [`LONG`].
const ROUNDS: usize = 9;
const LONG: Duration = Duration::from_millis(60);

type Call = Box<dyn Fn() -> Tensor>;
/// From three lengths and a number of images or matrices, a program over arguments in memory.
type Program = fn([usize; 4]) -> Call;

fn main() -> Result<(), Error> {
    let seed = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(1);
    let mut ratios = Vec::new();
    println!("| program | sizes | general, ms | exact, ms | ratio | first calls, ms |");
    println!("|---|---|---|---|---|---|");
    for (number, (name, program)) in PROGRAMS.iter().enumerate() {
        for (round, sizes) in sizes(seed, number as u64).into_iter().enumerate() {
            let [general, exact] = timed(&program(sizes))?;
            let ratio = general.run.as_secs_f64() / exact.run.as_secs_f64();
            if round >= 2 {
                ratios.push(ratio);
            }
            let [a, b] = [&general, &exact].map(|t| t.run.as_secs_f64() * 1e3);
            let [c, d] = [&general, &exact].map(|t| t.first.as_secs_f64() * 1e3);
            println!("| {name} | {sizes:?} | {a:.3} | {b:.3} | {ratio:.2} | {c:.1}, {d:.1} |");
        }
    }
    let mean = ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64;
    let above = |least: f64| ratios.iter().filter(|r| **r > least).count();
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    println!("\nthird sizes and later: geometric mean {:.2}, worst {worst:.2}", mean.exp());
    println!("{} of {} above 1.5, {} above 3", above(1.5), ratios.len(), above(3.0));
    Ok(())
}

/// Sizes of a program. Some of the four vary, the others stay.
fn sizes(seed: u64, program: u64) -> Vec<[usize; 4]> {
    let mut state = seed.wrapping_mul(1000) + program;
    // Knuth's MMIX constants
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    let varying = 1 + next() % 15;
    let mut size = |most: f64| most.powf((next() % 1000) as f64 / 1000.0).ceil() as usize;
    let mut now = [400.0, 400.0, 400.0, 8.0].map(&mut size);
    let mut all = vec![now];
    for _ in 1..SIZES {
        (0..3).filter(|at| varying >> at & 1 == 1).for_each(|at| now[at] = size(400.0));
        all.push(now);
    }
    all
}

struct Timed {
    first: Duration,
    run: Duration,
}

/// A program with general kernels and without them.
fn timed(call: &Call) -> Result<[Timed; 2], Error> {
    let ways = [1, 0];
    let run = |way: i32| -> Result<Duration, Error> {
        let start = Instant::now();
        kiln::with([("LENGTHS", way)], || call().realize().map(drop))??;
        Ok(start.elapsed())
    };
    let first = [run(ways[0])?, run(ways[1])?];
    let mut times = [vec![], vec![]];
    let start = Instant::now();
    while times[0].len() < 3 || times[0].len() < ROUNDS && start.elapsed() < LONG {
        for (way, times) in ways.into_iter().zip(&mut times) {
            run(way)?;
            times.push(run(way)?);
        }
    }
    let least = times.map(|times| times.into_iter().min().expect("three at least"));
    let [a, b] = [0, 1].map(|w| Timed { first: first[w], run: least[w] });
    Ok([a, b])
}

fn given(shape: &[usize]) -> Tensor {
    let x = Tensor::rand(shape);
    x.realize().expect("there is memory");
    x
}

/// Positions in an axis of this length.
fn places(n: usize, shape: &[usize]) -> Tensor {
    let at = Tensor::randint(0, n, shape);
    at.realize().expect("there is memory");
    at
}

/// One argument of this shape.
fn of(shape: &[usize], f: impl Fn(&Tensor) -> Tensor + 'static) -> Call {
    let x = given(shape);
    Box::new(move || f(&x))
}

/// Two arguments of these shapes.
fn both(a: &[usize], b: &[usize], f: impl Fn(&Tensor, &Tensor) -> Tensor + 'static) -> Call {
    let (x, y) = (given(a), given(b));
    Box::new(move || f(&x, &y))
}

/// A convolution of squares.
fn convolved([c, size, outputs, n]: [usize; 4], window: usize, stride: usize) -> Call {
    let (c, outputs, size) = (c.min(128), outputs.min(128), size.clamp(window, 56));
    let weights = [outputs, c, window, window];
    both(&[n.min(2), c, size, size], &weights, move |x, w| {
        x.conv2d(w, None, 1, stride, 1, window / 2)
    })
}

/// A convolution with one list of weights, over images of 24 x 24 to 112 x 112.
fn of_images([a, b, c, _]: [usize; 4], [channels, outputs]: [usize; 2], window: usize) -> Call {
    let size = 24 + (a + b + c) % 89;
    let weights = [outputs, channels, window, window];
    both(&[1, channels, size, size], &weights, move |x, w| x.conv2d(w, None, 1, 1, 1, window / 2))
}

const PROGRAMS: &[(&str, Program)] = &[
    ("a b", |[a, b, c, _]| both(&[a, b], &[b, c], |x, y| x.matmul(y))),
    ("a bT", |[a, b, c, _]| both(&[a, b], &[c, b], |x, y| x.matmul(&y.t()))),
    ("aT b", |[a, b, c, _]| both(&[b, a], &[b, c], |x, y| x.t().matmul(y))),
    ("batched", |[a, b, c, n]| both(&[n, a, b], &[n, b, c], |x, y| x.matmul(y))),
    ("matrix by vector", |[a, b, ..]| both(&[a, b], &[b], |x, y| x.matmul(y))),
    ("vector by matrix", |[a, b, ..]| both(&[a], &[a, b], |x, y| x.matmul(y))),
    ("1x1", |d| convolved(d, 1, 1)),
    ("1x1/2", |d| convolved(d, 1, 2)),
    ("3x3", |d| convolved(d, 3, 1)),
    ("3x3/2", |d| convolved(d, 3, 2)),
    ("depthwise", |[c, size, _, n]| {
        let size = size.clamp(3, 56);
        both(&[n, c, size, size], &[c, 1, 3, 3], move |x, w| x.conv2d(w, None, c, 1, 1, 1))
    }),
    ("along a line", |[c, size, outputs, n]| {
        let (c, outputs) = (c.min(64), outputs.min(64));
        both(&[n, c, size], &[outputs, c, 3], |x, w| x.conv1d(w, None, 1, 1, 1, 1))
    }),
    ("max_pool2d", |[c, size, _, n]| of(&[n, c, size.clamp(2, 64), 32], |x| x.max_pool2d(2))),
    ("softmax(1)", |[a, b, ..]| of(&[a, b], |x| x.softmax(1))),
    ("softmax(0)", |[a, b, ..]| of(&[a, b], |x| x.softmax(0))),
    ("normalized", |[a, b, ..]| {
        of(&[a, b], |x| {
            let d = x - x.mean_keepdim(1);
            &d / (d.square().mean_keepdim(1) + 1e-5).sqrt()
        })
    }),
    ("sum(1)", |[a, b, ..]| of(&[a, b], |x| x.sum(1))),
    ("sum(0)", |[a, b, ..]| of(&[a, b], |x| x.sum(0))),
    ("argmax", |[a, b, ..]| of(&[a, b], |x| x.argmax(1))),
    ("cumsum(1)", |[a, b, ..]| of(&[a, b], |x| x.cumsum(1))),
    ("cumsum(0)", |[a, b, ..]| of(&[a, b], |x| x.cumsum(0))),
    ("t", |[a, b, ..]| of(&[a, b], |x| x.t().contiguous())),
    ("permute(0, 2, 1, 3)", |[a, b, _, n]| {
        of(&[n, a, b, 8], |x| x.permute([0, 2, 1, 3]).contiguous())
    }),
    ("permute(2, 0, 1)", |[a, b, _, n]| of(&[n, a, b], |x| x.permute([2, 0, 1]).contiguous())),
    ("rows", |[a, b, c, _]| {
        let at = places(a, &[c]);
        of(&[a, b], move |x| x.index_select(0, &at))
    }),
    ("gather", |[a, b, c, _]| {
        let at = places(b, &[a, c]);
        of(&[a, b], move |x| x.gather(1, &at))
    }),
    ("cat(0)", |[a, b, c, _]| both(&[a, b], &[c, b], |x, y| Tensor::cat([x, y], 0))),
    ("cat(1)", |[a, b, c, _]| both(&[a, b], &[a, c], |x, y| Tensor::cat([x, y], 1))),
    ("flip", |[a, b, ..]| of(&[a, b], |x| x.flip(1) + 1.0)),
    ("tril", |[a, b, ..]| of(&[a, b], |x| x.tril(0))),
    ("pad", |[a, b, ..]| of(&[a, b], |x| x.pad([(1, 2), (3, 1)]))),
    ("attention", |[a, _, _, n]| {
        of(&[n, a, 32], |x| x.matmul(&x.transpose(1, 2)).softmax(2).matmul(x))
    }),
    ("distances", |[a, b, c, _]| {
        let c = c.min(32);
        both(&[a, c], &[b, c], |x, y| (x.unsqueeze(1) - y.unsqueeze(0)).square().sum(2).sqrt())
    }),
    ("gradient of a layer", |[a, b, c, _]| {
        both(&[a, b], &[c, b], |x, w| {
            let w = w.copy().set_requires_grad(true);
            let loss = x.matmul(&w.t()).tanh().sum(..);
            loss.gradient([&w]).expect("depends on it").remove(0)
        })
    }),
    ("large a b", |d| {
        let [a, b, c, _] = d.map(|n| 200 + 2 * n);
        both(&[a, b], &[b, c], |x, y| x.matmul(y))
    }),
    ("large a bT", |d| {
        let [a, b, c, _] = d.map(|n| 200 + 2 * n);
        both(&[a, b], &[c, b], |x, y| x.matmul(&y.t()))
    }),
    ("large aT b", |d| {
        let [a, b, c, _] = d.map(|n| 200 + 2 * n);
        both(&[b, a], &[b, c], |x, y| x.t().matmul(y))
    }),
    ("3x3 of images", |d| of_images(d, [64, 64], 3)),
    ("1x1 of images", |d| of_images(d, [128, 128], 1)),
    ("7x7 of images", |d| of_images(d, [3, 32], 7)),
];
