//! What runs of writes cost, cold and warm: loops that write element by element, with and without reads between, steps of
//! a cache at moving offsets, one element of a tensor in memory. Run with `cargo bench -p kiln --bench writes`;
//! `-- kept` runs those whose name has the word.
//!
//! Cold is the first time in the process (for cold figures of the compiler use an empty `KILN_CACHE`), warm the median
//! of further times; both from the first line of the loop to the result in memory.
#![allow(clippy::print_stdout)]

use kiln::{Counts, DType, Error, Tensor, measure, realize, s};
use std::time::Instant;

/// How often each loop runs after the first time.
const ROUNDS: usize = 9;

fn main() -> Result<(), Error> {
    println!("| loop | n | kernels | compiled | cold, ms | warm, ms |\n|---|---|---|---|---|---|");
    for n in [10, 1_000, 10_000] {
        for dtype in [DType::F32, DType::I32] {
            report(&format!("c[i] = i, empty {dtype:?}"), n, |_| counted(empty(n, dtype)))?;
            let base = realized(n, dtype)?;
            report(&format!("c[i] = i, computed {dtype:?}"), n, |_| counted(&base * 2 + 1))?;
            report(&format!("c[i] = i, realized {dtype:?}"), n, |_| counted(base.clone()))?;
        }
    }
    for n in [1_000, 10_000] {
        report("c[i] = c[i - 1] + 1, empty", n, |_| each_from_the_last(empty(n, DType::F32)))?;
        let base = realized(n, DType::F32)?;
        report("c[i] = c[i - 1] + 1, realized", n, |_| each_from_the_last(base.clone()))?;
        report("c[i] = i, c[i] * 1 kept, c[i] = i + 1", n, |_| with_snapshots(n))?;
    }
    let cache = realized(512 * 64, DType::F32)?.reshape([512, 64]);
    report("a row of a cache of 512 rows", 400, |round| steps(&cache, 400, round))?;
    let t = realized(1 << 20, DType::F32)?;
    report("one element of 2^20", 1, |round| {
        t.set(s![3], round as f32);
        t.realize().map(drop)
    })
}

fn empty(n: usize, dtype: DType) -> Tensor {
    Tensor::empty_with([n], dtype)
}

fn realized(n: usize, dtype: DType) -> Result<Tensor, Error> {
    let base = Tensor::arange_with(n, dtype).contiguous();
    base.realize()?;
    Ok(base)
}

fn counted(c: Tensor) -> Result<(), Error> {
    for i in 0..c.numel() {
        c.set(s![i], i);
    }
    c.realize().map(drop)
}

fn each_from_the_last(c: Tensor) -> Result<(), Error> {
    for i in 1..c.numel() {
        c.set(s![i], c.get(s![i - 1]) + 1.0);
    }
    c.realize().map(drop)
}

fn with_snapshots(n: usize) -> Result<(), Error> {
    let c = empty(n, DType::F32);
    let mut snaps = vec![c.clone()];
    for i in 0..n {
        c.set(s![i], i);
        snaps.push(c.get(s![i]) * 1.0);
        c.set(s![i], i + 1);
    }
    realize(&snaps)
}

/// Each step computes what it writes from what it wrote before.
fn steps(cache: &Tensor, n: usize, round: usize) -> Result<(), Error> {
    for i in 0..n {
        let row = cache.get(s![(i + 7 * round) % 512]) * 0.5 + i as f32;
        cache.set(s![(i + 7 * round + 1) % 512], row);
        cache.realize()?;
    }
    Ok(())
}

/// A line of the table; what is run is given the number of the round.
fn report(what: &str, n: usize, run: impl Fn(usize) -> Result<(), Error>) -> Result<(), Error> {
    if std::env::args().skip(1).any(|wanted| !wanted.starts_with('-') && !what.contains(&wanted)) {
        return Ok(());
    }
    let timed = |round| -> Result<(f64, Counts), Error> {
        let start = Instant::now();
        let (done, counts) = measure(|| run(round));
        done.map(|()| (start.elapsed().as_secs_f64() * 1e3, counts))
    };
    let (cold, counts) = timed(0)?;
    let mut warm =
        (1..=ROUNDS).map(|round| Ok(timed(round)?.0)).collect::<Result<Vec<f64>, Error>>()?;
    warm.sort_by(f64::total_cmp);
    let compiled = counts.compiled + counts.loaded;
    println!(
        "| {what} | {n} | {} | {compiled} | {cold:.2} | {:.3} |",
        counts.kernels,
        warm[ROUNDS / 2]
    );
    Ok(())
}
