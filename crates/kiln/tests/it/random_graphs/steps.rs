//! The steps that programs are made of.

use super::grid::Grid;
use super::program::Program;
use kiln::{DType, Index, Indices, Tensor};

type Unary = fn(&Tensor) -> Tensor;
type Binary = fn(&Tensor, &Tensor) -> Tensor;
/// What becomes of the grid.
type OnGrid = fn(Grid) -> Option<Grid>;
type OnGrids = fn(Grid, Grid) -> Option<Grid>;

/// Adds one step.
pub(super) fn any(p: &mut Program) {
    match p.rng.below(22) {
        0 => {
            let shape = p.shape();
            p.input(&shape);
        }
        1 => create(p),
        2..=4 => unary(p),
        5..=7 => binary(p),
        8 => with_number(p),
        9 => choice(p),
        10 => cast(p),
        11 => bitcast(p),
        12 | 13 => movement(p),
        14 => pad(p),
        15 | 16 => reduce(p),
        17 => scan(p),
        18 => join(p),
        19 => product(p),
        20 => windows(p),
        _ => write(p),
    }
}

const NONE: OnGrid = |_| None;
const SAME: OnGrid = Some;
const ROUND: OnGrid = |g| Some(g.whole());
const UNARY: &[(&str, Unary, OnGrid)] = &[
    ("sqrt", |x| x.sqrt(), NONE),
    ("exp", |x| x.exp(), NONE),
    ("exp2", |x| x.exp2(), NONE),
    ("exp10", |x| x.exp10(), NONE),
    ("log", |x| x.log(), NONE),
    ("log2", |x| x.log2(), NONE),
    ("log10", |x| x.log10(), NONE),
    ("sin", |x| x.sin(), NONE),
    ("cos", |x| x.cos(), NONE),
    ("tan", |x| x.tan(), NONE),
    ("tanh", |x| x.tanh(), NONE),
    ("rsqrt", |x| x.rsqrt(), NONE),
    ("reciprocal", |x| x.reciprocal(), NONE),
    ("sigmoid", |x| x.sigmoid(), NONE),
    ("silu", |x| x.silu(), NONE),
    ("gelu", |x| x.gelu(), NONE),
    ("elu", |x| x.elu(0.5), NONE),
    ("softplus", |x| x.softplus(), NONE),
    ("leaky_relu", |x| x.leaky_relu(0.25), |g| Some(Grid { scale: g.scale + 2, ..g })),
    ("relu", |x| x.relu(), SAME),
    ("neg", |x| x.neg(), SAME),
    ("abs", |x| x.abs(), SAME),
    ("sign", |x| x.sign(), |_| Some(Grid { scale: 0, bits: 0 })),
    ("square", |x| x.square(), |g| Some(g.times(g))),
    ("trunc", |x| x.trunc(), ROUND),
    ("floor", |x| x.floor(), ROUND),
    ("ceil", |x| x.ceil(), ROUND),
    ("round", |x| x.round(), ROUND),
    ("isnan", |x| x.isnan(), NONE),
    ("isinf", |x| x.isinf(), NONE),
    ("logical_not", |x| x.logical_not(), NONE),
    ("pow(3)", |x| x.pow(3), |g| Some(g.times(g).times(g))),
    ("pow(-2)", |x| x.pow(-2), NONE),
    ("pow(1.5)", |x| x.pow(1.5), NONE),
    ("detach", |x| x.detach(), SAME),
    ("contiguous", |x| x.contiguous(), SAME),
    ("copy", |x| x.copy(), SAME),
];

fn unary(p: &mut Program) {
    let (a, (name, f, on_grid)) = (p.any(), p.rng.pick(UNARY));
    let grid = p.grid(a).and_then(on_grid);
    let (x, realized) = (p.get(a), p.rng.one_in(12));
    if realized {
        x.realize().expect("realizes");
    }
    let note = if realized { " realized" } else { "" };
    p.push(f(&x), grid, format!("v{a}{note}.{name}()"), &[a]);
}

const NEITHER: OnGrids = |_, _| None;
const EITHER: OnGrids = |a, b| Some(a.or(b));
const BINARY: &[(&str, Binary, OnGrids)] = &[
    ("add", |a, b| a + b, |a, b| Some(a.plus(b))),
    ("sub", |a, b| a - b, |a, b| Some(a.plus(b))),
    ("mul", |a, b| a * b, |a, b| Some(a.times(b))),
    ("div", |a, b| a / b, NEITHER),
    ("maximum", |a, b| a.maximum(b), EITHER),
    ("minimum", |a, b| a.minimum(b), EITHER),
    ("floor_div", |a, b| a.floor_div(b), NEITHER),
    ("modulo", |a, b| a.modulo(b), NEITHER),
    ("pow", |a, b| a.pow(b), NEITHER),
    ("eq", |a, b| a.eq(b), NEITHER),
    ("ne", |a, b| a.ne(b), NEITHER),
    ("lt", |a, b| a.lt(b), NEITHER),
    ("gt", |a, b| a.gt(b), NEITHER),
    ("le", |a, b| a.le(b), NEITHER),
    ("ge", |a, b| a.ge(b), NEITHER),
];
/// Only of integers, some also of bool.
const BITWISE: &[(&str, Binary, OnGrids)] = &[
    ("and", |a, b| a & b, NEITHER),
    ("or", |a, b| a | b, NEITHER),
    ("xor", |a, b| a ^ b, NEITHER),
    ("shl", |a, b| a << b, NEITHER),
    ("shr", |a, b| a >> b, NEITHER),
];

/// A value that broadcasts with `a`: one there is, or a new one with some axes of length 1.
fn partner(p: &mut Program, a: usize) -> usize {
    let shape = p.get(a).shape().to_vec();
    let other = p.any();
    let fits = |a: &[usize], b: &[usize]| {
        a.iter().rev().zip(b.iter().rev()).all(|(m, n)| m == n || *m == 1 || *n == 1)
    };
    if fits(&shape, p.get(other).shape()) {
        return other;
    }
    let kept = p.rng.below(shape.len() + 1);
    let mut own = shape[kept..].to_vec();
    for n in &mut own {
        *n = if p.rng.one_in(3) { 1 } else { *n };
    }
    p.input(&own)
}

fn binary(p: &mut Program) {
    let a = p.any();
    let b = partner(p, a);
    let (x, y) = (p.get(a), p.get(b));
    let ints = !x.dtype().promote(y.dtype()).is_float();
    let logic = x.dtype() == DType::Bool && y.dtype() == DType::Bool;
    let (name, f, on_grid) = match ints && p.rng.one_in(3) {
        true => p.rng.pick(if logic { &BITWISE[..3] } else { BITWISE }),
        false => p.rng.pick(BINARY),
    };
    let grid = p.grid(a).zip(p.grid(b)).and_then(|(a, b)| on_grid(a, b));
    p.push(f(&x, &y), grid, format!("v{a}.{name}(v{b})"), &[a, b]);
}

fn with_number(p: &mut Program) {
    let (a, n) = (p.any(), p.rng.below(9) as i32 - 3);
    let half = n as f64 / 2.0;
    let (x, grid) = (p.get(a), p.grid(a));
    let by = Grid { scale: 1, bits: 3 };
    let (result, grid, text) = match p.rng.below(10) {
        0 => (&x + n, grid.map(|g| g.plus(by)), format!("v{a} + {n}")),
        1 => (half - &x, grid.map(|g| g.plus(by)), format!("{half:?} - v{a}")),
        2 => (&x * half, grid.map(|g| g.times(by)), format!("v{a} * {half:?}")),
        3 => (&x * n, grid.map(|g| g.times(by)), format!("v{a} * {n}")),
        4 => (n / &x, None, format!("{n} / v{a}")),
        5 => (x.floor_div(n), None, format!("v{a}.floor_div({n})")),
        6 => (&x % n, None, format!("v{a} % {n}")),
        7 => (x.clamp(-2, n), grid.map(|g| g.or(by)), format!("v{a}.clamp(-2, {n})")),
        8 => (x.lt(n), None, format!("v{a}.lt({n})")),
        _ => (x.maximum(half), grid.map(|g| g.or(by)), format!("v{a}.maximum({half:?})")),
    };
    p.push(result, grid, text, &[a]);
}

fn choice(p: &mut Program) {
    let a = p.any();
    let b = partner(p, a);
    let (x, y) = (p.get(a), p.get(b));
    let grid = p.grid(a).zip(p.grid(b)).map(|(a, b)| a.or(b));
    let (result, text) = match p.rng.below(3) {
        0 => (x.lt(&y).where_(&x, &y), format!("v{a}.lt(v{b}).where_(v{a}, v{b})")),
        1 => (y.cast(DType::Bool).where_(&x, 0), format!("v{b}.cast(bool).where_(v{a}, 0)")),
        _ => (x.masked_fill(&y.isnan(), &y), format!("v{a}.masked_fill(v{b}.isnan(), v{b})")),
    };
    p.push(result, grid, text, &[a, b]);
}

fn cast(p: &mut Program) {
    let (a, dtype) = (p.any(), p.rng.pick(&DType::STORAGE));
    let grid = p.grid(a);
    p.push(p.get(a).cast(dtype), grid, format!("v{a}.cast({dtype})"), &[a]);
}

fn bitcast(p: &mut Program) {
    let (a, dtype) = (p.any(), p.rng.pick(&DType::STORAGE[1..]));
    let x = p.get(a);
    if x.dtype() == DType::Bool
        || x.ndim() == 0
        || x.shape()[x.ndim() - 1] % 8 != 0 && x.dtype().size() != dtype.size()
    {
        return;
    }
    // the bits of NaN are open
    let (source, text) = match x.dtype().is_float() {
        true => (x.isnan().where_(0, &x), format!("v{a}.isnan().where_(0, v{a})")),
        false => (x, format!("v{a}")),
    };
    p.push(source.bitcast(dtype), None, format!("{text}.bitcast({dtype})"), &[a]);
}

fn create(p: &mut Program) {
    let (dtype, n) = (p.rng.pick(&DType::STORAGE), p.rng.below(20));
    let grid = Some(Grid { scale: 0, bits: 5 });
    let options = (dtype, p.device.clone());
    let (tensor, text) = match p.rng.below(4) {
        0 => (Tensor::eye_with(n, options), format!("eye({n})")),
        1 => (Tensor::full_with([n, 2], 3, options), format!("full([{n}, 2], 3)")),
        _ => (Tensor::arange_with(n, options), format!("arange({n})")),
    };
    p.push(tensor, grid, text, &[]);
}

fn movement(p: &mut Program) {
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
        return Index::At(p.rng.below(n) as i64);
    }
    if p.rng.one_in(3) {
        return Index::Slice { start: None, stop: None, step: 1 };
    }
    let end = |p: &mut Program| (!p.rng.one_in(2)).then(|| p.rng.below(n + 1) as i64);
    let (a, b, step) = (end(p), end(p), p.rng.pick(&[1, 1, 2, 3, -1, -2]));
    let ordered = |a: Option<i64>, b: Option<i64>| match (a, b) {
        (Some(a), Some(b)) if (a > b) == (step > 0) => (Some(b), Some(a)),
        both => both,
    };
    let (start, stop) = ordered(a, b);
    Index::Slice { start, stop, step }
}

fn pad(p: &mut Program) {
    let a = p.any();
    let x = p.get(a);
    let pads: Vec<(usize, usize)> =
        x.shape().iter().map(|_| (p.rng.below(3), p.rng.below(3))).collect();
    let value = p.rng.pick(&[0, 0, 1, 3]);
    let grid = p.grid(a).map(|g| g.or(Grid { scale: 0, bits: 2 }));
    let padded = if value == 0 { x.pad(&pads) } else { x.pad_with(&pads, value) };
    p.push(padded, grid, format!("v{a}.pad_with({pads:?}, {value})"), &[a]);
}

/// The value itself, or for floats one near it whose sums of `n` are exact.
fn summable(p: &mut Program, a: usize, exact: impl Fn(Grid) -> bool) -> usize {
    if p.grid(a).is_some_and(exact) || !p.get(a).dtype().is_float() {
        return a;
    }
    let coarse = p.get(a).clamp(-8, 8).round();
    p.push(coarse, Some(Grid { scale: 0, bits: 3 }), format!("v{a}.clamp(-8, 8).round()"), &[a])
}

fn reduce(p: &mut Program) {
    let a = p.any();
    let x = p.get(a);
    let mut axes: Vec<usize> = (0..x.ndim()).collect();
    axes.retain(|_| p.rng.one_in(2));
    let n: usize = axes.iter().map(|&i| x.shape()[i]).product();
    let dtype = x.dtype();
    match p.rng.below(9) {
        0..=2 => {
            let a = summable(p, a, |g| g.summed(n).is_exact(dtype));
            let (x, grid) = (p.get(a), p.grid(a).map(|g| g.summed(n)));
            let (sum, keep) = (p.rng.one_in(2), p.rng.one_in(2));
            let floats = if sum || dtype.is_float() { x } else { x.modulo(8) };
            let result = match (sum, keep) {
                (true, false) => floats.sum(&axes),
                (true, true) => floats.sum_keepdim(&axes),
                _ => floats.mean(&axes),
            };
            // the sign of a sum of negative zeros is open; adding 0 hides it
            let result = if dtype.is_float() { result + 0 } else { result };
            let grid = grid.filter(|_| sum);
            p.push(result, grid, format!("v{a}.sum({axes:?}) sum {sum} keep {keep} + 0"), &[a]);
        }
        3 if n <= 3 => {
            let a = summable(p, a, |g| g.multiplied(n.max(1)).is_exact(dtype));
            let (x, grid) = (p.get(a), p.grid(a).map(|g| g.multiplied(n.max(1))));
            p.push(x.prod(&axes), grid, format!("v{a}.prod({axes:?})"), &[a]);
        }
        4 => drop(p.push(x.any(&axes), None, format!("v{a}.any({axes:?})"), &[a])),
        5 => drop(p.push(x.all(&axes), None, format!("v{a}.all({axes:?})"), &[a])),
        _ if n == 0 => {}
        6 if x.ndim() > 0 => {
            let axis = p.rng.below(x.ndim());
            if x.shape()[axis] > 0 {
                p.push(x.argmax(axis), None, format!("v{a}.argmax({axis})"), &[a]);
                p.push(x.argmin(axis), None, format!("v{a}.argmin({axis})"), &[a]);
            }
        }
        _ => {
            // which of two zeros is the largest is open; adding 0 hides it
            let largest = p.rng.one_in(2);
            let result = if largest { x.max(&axes) } else { x.min_keepdim(&axes) };
            let result = if dtype.is_float() { result + 0 } else { result };
            let grid = p.grid(a);
            p.push(result, grid, format!("v{a}.max/min({axes:?}) max {largest} + 0"), &[a]);
        }
    }
}

fn scan(p: &mut Program) {
    let a = p.any();
    let x = p.get(a);
    if x.ndim() == 0 {
        return;
    }
    let (axis, shift, dtype) = (p.rng.below(x.ndim()), p.rng.below(5) as i64 - 2, x.dtype());
    let (n, grid) = (x.shape()[axis], p.grid(a));
    match p.rng.below(3) {
        0 if x.ndim() > 1 => drop(p.push(x.tril(shift), grid, format!("v{a}.tril({shift})"), &[a])),
        1 if x.ndim() > 1 => drop(p.push(x.triu(shift), grid, format!("v{a}.triu({shift})"), &[a])),
        _ => {
            let a = summable(p, a, |g| g.summed(n).is_exact(dtype));
            let grid = p.grid(a).map(|g| g.summed(n));
            p.push(p.get(a).cumsum(axis) + 0, grid, format!("v{a}.cumsum({axis}) + 0"), &[a]);
        }
    }
}

fn join(p: &mut Program) {
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

fn product(p: &mut Program) {
    let a = p.any();
    let x = p.get(a);
    if x.ndim() < 2 {
        return;
    }
    let (inner, columns) = (x.shape()[x.ndim() - 1], 1 + p.rng.below(9));
    let dtype = if p.rng.one_in(3) { p.rng.pick(&DType::STORAGE) } else { x.dtype() };
    let b = p.input_of(&[inner, columns], dtype);
    let wide = dtype.promote(x.dtype());
    let by = p.grid(b).expect("data has a grid");
    let a = summable(p, a, |g| g.times(by).summed(inner).is_exact(wide));
    let b = summable(p, b, |g| g.bits < 8 || wide.is_float() && g.bits + 20 < 24);
    let grids = p.grid(a).zip(p.grid(b)).map(|(a, b)| a.times(b).summed(inner));
    let (x, y) = (p.get(a), p.get(b));
    if grids.is_some_and(|g| g.is_exact(x.dtype().promote(y.dtype()))) {
        p.push(x.matmul(&y) + 0, grids, format!("v{a}.matmul(v{b}) + 0"), &[a, b]);
    }
}

fn windows(p: &mut Program) {
    let a = p.any();
    let x = p.get(a);
    if x.ndim() != 4 || x.shape()[2] < 2 || x.shape()[3] < 2 || x.numel() == 0 {
        return;
    }
    let (stride, dilation, padding) = (1 + p.rng.below(2), 1, p.rng.below(2));
    let text = format!("stride {stride} padding {padding}");
    match p.rng.below(3) {
        0 => {
            let pooled = x.max_pool2d_with(2, stride, dilation, padding) + 0;
            let grid = p.grid(a).filter(|_| padding == 0);
            p.push(pooled, grid, format!("v{a}.max_pool2d_with(2) {text} + 0"), &[a]);
        }
        1 => {
            let a = summable(p, a, |g| g.summed(4).is_exact(x.dtype()));
            let x = p.get(a);
            let x = if x.dtype().is_float() { x } else { x.modulo(8) };
            p.push(
                x.avg_pool2d_with(2, stride, padding) + 0,
                None,
                format!("v{a}.avg_pool2d_with(2) {text}"),
                &[a],
            );
        }
        _ => {
            let dtype = x.dtype();
            let b = p.input_of(&[2, x.shape()[1], 2, 2], dtype);
            let (terms, by) = (x.shape()[1] * 4, p.grid(b).expect("data has a grid"));
            let a = summable(p, a, |g| g.times(by).summed(terms).is_exact(dtype));
            let grid = p.grid(a).map(|g| g.times(by).summed(terms));
            let (x, w) = (p.get(a), p.get(b));
            p.push(
                x.conv2d(&w, None, 1, stride, 1, padding) + 0,
                grid,
                format!("v{a}.conv2d(v{b}) {text}"),
                &[a, b],
            );
        }
    }
}

/// A copy of a value, part of which is overwritten.
fn write(p: &mut Program) {
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
