//! Steps that move elements: views, padding, joining, overwriting.

use super::grid::Grid;
use super::program::Program;
use kiln::{Index, Indices, Length, Tensor, s};

pub(super) fn movement(p: &mut Program) {
    let a = p.any();
    let (mut x, mut text) = (p.get(a), format!("v{a}"));
    for _ in 0..1 + p.rng.below(3) {
        let (moved, step) = moved(p, &x);
        text += &step;
        x = moved;
    }
    let grid = p.grid(a);
    p.push(x, grid, text, &[a]);
}

fn moved(p: &mut Program, x: &Tensor) -> (Tensor, String) {
    let rank = x.ndim();
    let axis = p.rng.below(rank.max(1));
    match p.rng.below(7) {
        0 => {
            let shape = refactored(p, x.numel());
            (x.reshape(&shape), format!(".reshape({shape:?})"))
        }
        1 if rank < 4 => (x.unsqueeze(axis), format!(".unsqueeze({axis})")),
        2 if rank > 0 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            (1..rank).for_each(|i| axes.swap(i, p.rng.below(i + 1)));
            (x.permute(&axes), format!(".permute({axes:?})"))
        }
        3 if rank > 0 => (x.flip(axis), format!(".flip({axis})")),
        4 => {
            let mut shape = x.shape().to_vec();
            for n in &mut shape {
                *n = if *n == 1 { 1 + p.rng.below(4) } else { *n };
            }
            (x.expand(&shape), format!(".expand({shape:?})"))
        }
        5 | 6 if rank > 0 => {
            let indices: Vec<Index> = x.shape().iter().map(|&n| index(p, n)).collect();
            let text = format!(".get({indices:?})");
            (x.get(Indices::new(indices)), text)
        }
        _ => (x.squeeze(..), ".squeeze(..)".to_owned()),
    }
}

/// Random lengths whose product is `n`.
fn refactored(p: &mut Program, mut n: usize) -> Vec<usize> {
    let mut shape = Vec::new();
    for _ in 0..p.rng.below(3) {
        let factors: Vec<usize> = (1..=n).filter(|f| n.is_multiple_of(*f)).collect();
        let factor = if factors.is_empty() { 1 } else { p.rng.pick(&factors) };
        shape.push(factor);
        n /= factor;
    }
    shape.push(n);
    shape
}

fn index(p: &mut Program, n: usize) -> Index {
    if p.rng.one_in(5) && n > 0 {
        return Index::from(p.rng.below(n));
    }
    if p.rng.one_in(3) {
        return Index::from(..);
    }
    let end = |p: &mut Program| (!p.rng.one_in(2)).then(|| p.rng.below(n + 1) as i64);
    let (a, b, step) = (end(p), end(p), p.rng.pick(&[1, 1, 2, 3, -1, -2]));
    let ordered = |a: Option<i64>, b: Option<i64>| match (a, b) {
        (Some(a), Some(b)) if (a > b) == (step > 0) => (Some(b), Some(a)),
        both => both,
    };
    let (start, stop) = ordered(a, b);
    Index::Slice { start: start.map(Length::from), stop: stop.map(Length::from), step }
}

pub(super) fn pad(p: &mut Program) {
    let a = p.any();
    let x = p.get(a);
    let pads: Vec<(usize, usize)> =
        x.shape().iter().map(|_| (p.rng.below(3), p.rng.below(3))).collect();
    let value = p.rng.pick(&[0, 0, 1, 3]);
    let grid = p.grid(a).map(|g| g.or(Grid { scale: 0, bits: 2 }));
    let padded = if value == 0 { x.pad(&pads) } else { x.pad_with(&pads, value) };
    p.push(padded, grid, format!("v{a}.pad_with({pads:?}, {value})"), &[a]);
}

pub(super) fn join(p: &mut Program) {
    let a = p.any();
    let x = p.get(a);
    if x.ndim() == 0 {
        return;
    }
    let (axis, parts, grid) = (p.rng.below(x.ndim()), 1 + p.rng.below(10), p.grid(a));
    match p.rng.below(4) {
        0 => {
            let chunks = x.chunk(parts, axis);
            let joined = Tensor::cat(chunks.iter().rev(), axis);
            p.push(joined, grid, format!("cat(v{a}.chunk({parts}, {axis}).rev(), {axis})"), &[a]);
        }
        1 => {
            let counts: Vec<usize> = x.shape().iter().map(|_| 1 + p.rng.below(3)).collect();
            p.push(x.repeat(&counts), grid, format!("v{a}.repeat({counts:?})"), &[a]);
        }
        2 => {
            let y = x.flip(axis);
            p.push(
                Tensor::stack([&x, &y], axis),
                grid,
                format!("stack([v{a}, v{a}.flip({axis})], {axis})"),
                &[a],
            );
        }
        _ => {
            let mut shape = x.shape().to_vec();
            shape[axis] = p.rng.below(4);
            let b = p.input(&shape);
            let grid = p.grid(a).zip(p.grid(b)).map(|(a, b)| a.or(b));
            p.push(
                Tensor::cat([x, p.get(b)], axis),
                grid,
                format!("cat([v{a}, v{b}], {axis})"),
                &[a, b],
            );
        }
    }
}

/// A copy of a value, part of which is overwritten.
pub(super) fn write(p: &mut Program) {
    let a = p.any();
    let x = p.get(a).copy();
    let indices: Vec<Index> = x.shape().iter().map(|&n| index(p, n)).collect();
    let text = format!("v{a}.copy().set({indices:?}");
    let region = x.get(Indices::new(indices.clone())).shape().to_vec();
    let b = p.input_of(&region, x.dtype());
    let grid = p.grid(a).zip(p.grid(b)).map(|(a, b)| a.or(b));
    x.set(Indices::new(indices), p.get(b));
    p.push(x, grid, format!("{text}, v{b})"), &[a, b]);
}

/// Overwrites rows of a copy, some of them twice. The results are the copy, and the gradient of its weighted sum for
/// the written rows.
pub(super) fn write_rows(p: &mut Program) {
    let a = p.any();
    let x = p.get(a);
    if x.ndim() == 0 || x.numel() == 0 {
        return;
    }
    let n = x.shape()[0] as i64;
    let places: Vec<i64> =
        (0..1 + p.rng.below(6)).map(|_| p.rng.below(2 * n as usize) as i64 - n).collect();
    let mut region = x.shape().to_vec();
    region[0] = places.len();
    let (b, weights) = (p.input_of(&region, x.dtype()), p.input_of(x.shape(), x.dtype()));
    let (written, copy) = (p.get(b).copy().set_requires_grad(x.dtype().is_float()), x.copy());
    copy.set(s![places.clone()], &written);
    let grid = p.grid(a).zip(p.grid(b)).map(|(a, b)| a.or(b));
    let text = format!("v{a}.copy().set({places:?}, v{b})");
    if x.dtype().is_float() {
        let loss = (&copy * p.get(weights)).sum(..);
        let grad = loss.gradient([&written]).map(|mut grads| grads.remove(0)).expect(&text);
        let text = format!("the gradient for v{b} of ({text} * v{weights}).sum() + 0");
        p.push(grad + 0, p.grid(weights), text, &[a, b, weights]);
    }
    p.push(copy, grid, text, &[a, b]);
}
