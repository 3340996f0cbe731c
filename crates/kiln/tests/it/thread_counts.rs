//! The same bits with any number of threads: the order of a sum depends on its shape, its dtype and the processor.
//!
//! Each number of threads is a process of its own, which computes the same random expressions and says what their bits are.
//! Shapes are such that threads have something to share, and odd as often as not. `KILN_FUZZ=n` runs `n` times as many.

use crate::fuzz::{Rng, seeds};
use kiln::{DType, Tensor};
use std::process::{Command, Stdio};

/// By default.
const EXPRESSIONS: u64 = 60;

/// Numbers of which no sum is exact.
fn data(rng: &mut Rng, shape: &[usize]) -> Tensor {
    let n = shape.iter().product();
    let number = |_| (rng.next() >> 40) as f32 / (1u64 << 24) as f32 - 0.3;
    Tensor::from_vec((0..n).map(number).collect::<Vec<f32>>(), shape)
}

/// A length: odd, round, or between.
fn length(rng: &mut Rng, most: usize) -> usize {
    let n = 1 + rng.below(most);
    match rng.below(4) {
        0 => n.next_multiple_of(16),
        1 => n.next_power_of_two(),
        2 => n | 1,
        _ => n,
    }
}

/// Lengths of about `most` elements together.
fn shape(rng: &mut Rng, rank: usize, most: usize) -> Vec<usize> {
    let mut left = most;
    let mut shape: Vec<usize> = Vec::new();
    for i in 0..rank {
        let n = if i + 1 == rank { left } else { length(rng, left.isqrt().max(1)) };
        let n = n.clamp(1, 5000);
        shape.push(n);
        left = (left / n).max(1);
    }
    let turn = rng.below(rank);
    shape.rotate_left(turn);
    shape
}

/// What a seed computes, and a line that says so.
fn expression(seed: u64) -> (String, Vec<Tensor>) {
    let rng = &mut Rng(seed.wrapping_mul(31) + 7);
    match rng.below(9) {
        0 | 1 => reduction(rng),
        2 => product(rng),
        3 => convolution(rng),
        4 => attention(rng),
        5 => running(rng),
        6 => normalized(rng),
        7 => several(rng),
        _ => layers(rng),
    }
}

fn reduction(rng: &mut Rng) -> (String, Vec<Tensor>) {
    let rank = 1 + rng.below(4);
    let most = 1 << (10 + rng.below(11));
    let shape = shape(rng, rank, most);
    let x = data(rng, &shape);
    let x = if rng.one_in(4) { x.cast(DType::BF16) } else { x };
    let axes: Vec<i64> = (0..rank as i64).filter(|_| rng.one_in(2)).collect();
    let y = match rng.below(4) {
        0 => (&x * &x).sum(&axes[..]),
        1 => (&x * 0.1 + 1.0).prod(&axes[..]),
        2 => x.exp().mean(&axes[..]),
        _ => x.sum(&axes[..]),
    };
    (format!("reduction {shape:?} {axes:?} {}", x.dtype()), vec![y])
}

fn product(rng: &mut Rng) -> (String, Vec<Tensor>) {
    let [m, k, n] = [(); 3].map(|()| {
        let most = [4, 40, 300, 1500][rng.below(4)];
        length(rng, most)
    });
    let k = if m * k * n > 1 << 24 { 1 + k % 50 } else { k };
    let turned = [rng.one_in(2), rng.one_in(2)];
    let of = |rng: &mut Rng, a: usize, b: usize, turned: bool| match turned {
        true => data(rng, &[b, a]).transpose(0, 1),
        false => data(rng, &[a, b]),
    };
    let (x, y) = (of(rng, m, k, turned[0]), of(rng, k, n, turned[1]));
    let dtype = if rng.one_in(4) { DType::BF16 } else { DType::F32 };
    let z = x.cast(dtype).matmul(&y.cast(dtype));
    let z = if rng.one_in(2) { z.gelu() + 1.0 } else { z };
    (format!("product {m} {k} {n} {turned:?} {dtype}"), vec![z])
}

fn convolution(rng: &mut Rng) -> (String, Vec<Tensor>) {
    let (n, c, o) = (1 + rng.below(4), length(rng, 40), length(rng, 40));
    let (h, w, k) = (6 + rng.below(20), 6 + rng.below(20), 1 + rng.below(4));
    let (stride, dilation, padding) = (1 + rng.below(3), 1 + rng.below(2), rng.below(k));
    let groups = if c % 2 == 0 && o % 2 == 0 && rng.one_in(3) { 2 } else { 1 };
    let x = data(rng, &[n, c, h, w]).set_requires_grad(true).clone();
    let weight = data(rng, &[o, c / groups, k, k]).set_requires_grad(true).clone();
    let y = x.conv2d(&weight, None, groups, stride, dilation, padding);
    let text = format!(
        "convolution {n} {c} {o} {h} {w} {k} groups {groups} stride {stride} dilation {dilation} padding {padding}"
    );
    let gradients = y.square().sum(..).gradient([&x, &weight]).expect("gradients");
    (text, [vec![y], gradients].concat())
}

fn attention(rng: &mut Rng) -> (String, Vec<Tensor>) {
    let (heads, rows, keys, depth) =
        (1 + rng.below(6), length(rng, 120), length(rng, 200), length(rng, 48));
    let q = data(rng, &[heads, rows, depth]).set_requires_grad(true).clone();
    let k = data(rng, &[heads, keys, depth]).set_requires_grad(true).clone();
    let v = data(rng, &[heads, keys, depth]).set_requires_grad(true).clone();
    let causal = rng.one_in(2);
    let y = q.scaled_dot_product_attention(&k, &v, None, causal);
    let text = format!("attention {heads} {rows} {keys} {depth} {causal}");
    if rng.one_in(2) {
        return (text, vec![y]);
    }
    let gradients = y.square().sum(..).gradient([&q, &k, &v]).expect("gradients");
    (format!("{text} gradients"), [vec![y], gradients].concat())
}

fn running(rng: &mut Rng) -> (String, Vec<Tensor>) {
    let shape = shape(rng, 2, 1 << 17);
    let axis = rng.below(2) as i64;
    (format!("cumsum {shape:?} {axis}"), vec![data(rng, &shape).cumsum(axis)])
}

fn normalized(rng: &mut Rng) -> (String, Vec<Tensor>) {
    let shape = shape(rng, 2, 1 << 18);
    let x = data(rng, &shape);
    let y = match rng.below(4) {
        0 => x.softmax(-1),
        1 => x.softmax(0),
        2 => x.layernorm(-1),
        _ => x.log_softmax(-1).mean(0),
    };
    (format!("normalized {shape:?}"), vec![y, x.std(0), x.var(1)])
}

fn several(rng: &mut Rng) -> (String, Vec<Tensor>) {
    let shape = shape(rng, 3, 1 << 17);
    let x = data(rng, &shape);
    let centred = &x - x.mean_keepdim(1);
    let outputs = vec![centred.square().sum(0), centred.exp().sum(2), (&centred * &x).sum([0, 1])];
    (format!("several {shape:?}"), outputs)
}

fn layers(rng: &mut Rng) -> (String, Vec<Tensor>) {
    let (batch, a, b) = (length(rng, 100), length(rng, 200), length(rng, 200));
    let x = data(rng, &[batch, a]);
    let w = data(rng, &[b, a]).set_requires_grad(true).clone();
    let bias = data(rng, &[b]).set_requires_grad(true).clone();
    let y = (x.matmul(&w.transpose(0, 1)) * 0.1 + &bias).relu();
    let loss = y.log_softmax(-1).mean(..);
    let gradients = loss.gradient([&w, &bias]).expect("gradients");
    (format!("layers {batch} {a} {b}"), [vec![loss], gradients].concat())
}

/// What once depended on the number of threads.
fn known() -> Vec<(String, Vec<Tensor>)> {
    let rng = &mut Rng(1);
    let sum = data(rng, &[64, 4099]).sum(0);
    let product = data(rng, &[1, 4099]).matmul(&data(rng, &[4099, 1031]));
    vec![("known sum".to_owned(), vec![sum]), ("known product".to_owned(), vec![product])]
}

fn bits(tensor: &Tensor) -> u64 {
    let numbers = tensor.cast(DType::F32).to_vec::<f32>().expect("computes");
    numbers.iter().fold(numbers.len() as u64, |all, x| {
        all.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(x.to_bits())
    })
}

/// What every child does: computes all expressions and prints their bits.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
#[allow(clippy::print_stdout)]
fn child() {
    let number = |name: &str| std::env::var(name).expect("set").parse::<u64>().expect("a number");
    let random = (number("KILN_TEST_FIRST")..number("KILN_TEST_LAST")).map(|seed| {
        let (text, outputs) = expression(seed);
        (format!("seed {seed} {text}"), outputs)
    });
    for (text, outputs) in known().into_iter().chain(random) {
        kiln::realize(&outputs).unwrap_or_else(|error| panic!("{text}: {error}"));
        let bits: Vec<String> = outputs.iter().map(|t| format!("{:x}", bits(t))).collect();
        println!("SAID {text}: {}", bits.join(" "));
    }
}

/// What a child says with so many threads, under these variables.
fn said(threads: usize, seeds: &[u64], more: &[(&str, &str)]) -> Vec<String> {
    let (first, last) = (seeds[0], seeds[seeds.len() - 1] + 1);
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--ignored", "--exact", "thread_counts::child", "--nocapture"]);
    // `KILN_THREADS` is about the CPU
    command.env("DEV", "CPU").env("KILN_THREADS", threads.to_string()).envs(more.iter().copied());
    command.env("KILN_TEST_FIRST", first.to_string()).env("KILN_TEST_LAST", last.to_string());
    let output = command.stderr(Stdio::inherit()).output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{threads} threads: {text}");
    // the first line begins behind what the harness prints
    let lines = text.lines().filter_map(|l| l.split_once("SAID ")).map(|(_, said)| said.to_owned());
    lines.collect()
}

#[test]
fn sums_have_the_same_bits_with_any_number_of_threads() {
    let seeds = seeds(EXPRESSIONS);
    let one = said(1, &seeds, &[]);
    assert_eq!(one.len(), known().len() + seeds.len());
    for threads in [2, 3, 8, 16] {
        let other = said(threads, &seeds, &[]);
        let differ = one.iter().zip(&other).filter(|(a, b)| a != b);
        let lines: Vec<String> = differ.map(|(a, b)| format!("{a}\n{b}")).collect();
        assert!(lines.is_empty(), "1 thread, {threads} threads:\n{}", lines.join("\n"));
    }
}

#[test]
fn a_search_changes_no_bit() {
    let folder = std::env::temp_dir().join(format!("kiln-thread-counts-{}", std::process::id()));
    let cache = folder.to_str().expect("a path that is text");
    let seeds: Vec<u64> = (0..5).collect();
    // no general schedule is made in a search
    let lengths = ("LENGTHS", "1");
    let searched = [lengths, ("BEAM", "1"), ("BEAM_SECONDS", "4"), ("KILN_CACHE", cache)];
    let (plain, searched) = (said(2, &seeds, &[lengths]), said(2, &seeds, &searched));
    std::fs::remove_dir_all(&folder).expect("ours");
    assert_eq!(plain, searched);
}
