//! Whether the scheduler does right to compute a value where it is needed, or to store it first: what many methods give,
//! read by many others. Run with `cargo bench -p kiln --bench between`; `-- shuffle sums` runs one pair, `-- any sums`
//! all of one reader.
//!
//! For each pair it prints the least time of the program as it is, and that with `contiguous` between both. A ratio far above 1
//! says that the scheduler should have stored the value.
#![allow(clippy::print_stdout)]

use kiln::{Error, Resize, Sampling, Tensor, s};
use std::time::{Duration, Instant};

/// How long each program is repeated.
const SECONDS: f64 = 0.25;
const CHANNELS: usize = 64;
const SIDE: usize = 32;

/// Gives a value `[1, channels, height, width]` from two images `[1, 64, 32, 32]`.
type Giver = fn(&Tensor, &Tensor) -> Tensor;
/// Reads a value, beside a row of weights.
type Reader = fn(&Tensor, &Tensor) -> Tensor;

const GIVERS: [(&str, Giver); 18] = [
    ("exp", |x, _| x.exp()),
    ("gelu", |x, _| x.gelu()),
    ("repeated", |x, _| x.repeat_interleave(2, 2).repeat_interleave(2, 3)),
    ("thrice", |x, _| x.repeat_interleave(3, 2).repeat_interleave(3, 3)),
    ("nearest", |x, _| x.interpolate(&Resize::by(2.0))),
    ("linear", |x, _| x.interpolate(&Resize::by(2.0).sampling(Sampling::Linear))),
    ("cat", |x, y| Tensor::cat([x, y], 1)),
    ("rows", |x, y| Tensor::cat([x, y], 2)),
    ("flip", |x, _| x.flip([2])),
    ("roll", |x, _| x.roll(5, 3)),
    ("shuffle", |x, _| x.pixel_shuffle(2)),
    ("turned", |x, _| x.transpose(2, 3)),
    ("permuted", |x, _| x.permute([0, 3, 1, 2])),
    ("strided", |x, _| x.get(s![.., .., ..;2, ..;2])),
    ("sum", |x, y| x + y),
    ("norm", |x, y| (x - y.mean([0, 2, 3]).reshape([1, CHANNELS, 1, 1])).relu()),
    ("max", |x, _| x.max_pool2d([2, 2])),
    ("mean", |x, _| x.avg_pool2d([2, 2])),
];

const READERS: [(&str, Reader); 12] = [
    ("conv", |v, w| v.conv2d(&kernels(v, w, 3), None, 1, 1, 1, 1)),
    ("conv/2", |v, w| v.conv2d(&kernels(v, w, 3), None, 1, 2, 1, 1)),
    ("conv1", |v, w| v.conv2d(&kernels(v, w, 1), None, 1, 1, 1, 0)),
    ("depthwise", |v, w| {
        let channels = v.shape()[1];
        v.conv2d(&weights(w, &[channels, 1, 3, 3]), None, channels, 1, 1, 1)
    }),
    ("left", |v, w| flat(v).matmul(&weights(w, &[v.shape()[2] * v.shape()[3], 64]))),
    ("right", |v, w| weights(w, &[64, v.shape()[1]]).matmul(&flat(v))),
    ("gram", |v, _| flat(v).transpose(0, 1).matmul(&flat(v))),
    ("softmax", |v, _| flat(v).softmax(1)),
    ("sums", |v, _| flat(v).sum(1)),
    ("columns", |v, _| flat(v).sum(0)),
    ("scan", |v, _| flat(v).cumsum(1)),
    ("across", |v, _| flat(v).transpose(0, 1).contiguous()),
];

fn main() -> Result<(), Error> {
    let asked: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let is_asked = |i: usize, name: &str| asked.get(i).is_none_or(|a| a == "any" || a == name);
    let image = || Tensor::rand([1, CHANNELS, SIDE, SIDE]);
    let (x, y, w) = (image(), image(), Tensor::rand([1 << 20]));
    kiln::realize([&x, &y, &w])?;
    println!("| value | reader | as it is, us | stored, us | ratio |\n|---|---|---|---|---|");
    for (giver, give) in GIVERS.iter().filter(|(name, _)| is_asked(0, name)) {
        for (reader, read) in READERS.iter().filter(|(name, _)| is_asked(1, name)) {
            let direct = least(|| read(&give(&x, &y), &w))?;
            let stored = least(|| read(&give(&x, &y).contiguous(), &w))?;
            let ratio = direct / stored;
            println!("| {giver} | {reader} | {direct:.0} | {stored:.0} | {ratio:.2} |");
        }
    }
    Ok(())
}

/// The least time to compute it, in microseconds, over at least five times.
fn least(program: impl Fn() -> Tensor) -> Result<f64, Error> {
    let (start, mut least) = (Instant::now(), f64::INFINITY);
    let mut rounds = 0;
    while rounds < 5 || start.elapsed() < Duration::from_secs_f64(SECONDS) {
        let value = program();
        let begin = Instant::now();
        value.realize()?;
        least = least.min(begin.elapsed().as_secs_f64() * 1e6);
        rounds += 1;
    }
    Ok(least)
}

/// A row for each channel.
fn flat(v: &Tensor) -> Tensor {
    v.reshape([v.shape()[1], v.shape()[2] * v.shape()[3]])
}

fn kernels(v: &Tensor, w: &Tensor, side: usize) -> Tensor {
    weights(w, &[64, v.shape()[1], side, side])
}

fn weights(w: &Tensor, shape: &[usize]) -> Tensor {
    w.get(s![..shape.iter().product::<usize>()]).reshape(shape)
}
