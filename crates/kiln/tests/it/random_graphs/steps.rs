//! The steps that programs are made of: which comes next, and those that compute element by element.

use super::grid::Grid;
use super::program::Program;
use super::{moves, sums};
use kiln::{DType, Tensor};

type Unary = fn(&Tensor) -> Tensor;
type Binary = fn(&Tensor, &Tensor) -> Tensor;
/// What becomes of the grid.
type OnGrid = fn(Grid) -> Option<Grid>;
type OnGrids = fn(Grid, Grid) -> Option<Grid>;

/// Adds one step.
pub(super) fn any(p: &mut Program) {
    match p.rng.below(24) {
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
        12 | 13 => moves::movement(p),
        14 => moves::pad(p),
        15 | 16 => sums::reduce(p),
        17 => sums::scan(p),
        18 => moves::join(p),
        19 => sums::product(p),
        20 => sums::windows(p),
        21 => sums::convolutions(p),
        22 => moves::write_rows(p),
        _ => moves::write(p),
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
    ("pow(-2)", |x| x.pow(-2.0), NONE),
    ("expm1", |x| x.expm1(), NONE),
    ("log1p", |x| x.log1p(), NONE),
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
        || !x.shape()[x.ndim() - 1].is_multiple_of(8) && x.dtype().size() != dtype.size()
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
