//! Steps that reduce. Float sums are taken only where they are exact in every order.

use super::grid::Grid;
use super::program::Program;
use kiln::DType;

/// The value itself, or for floats one near it whose sums are exact.
fn summable(p: &mut Program, a: usize, exact: impl Fn(Grid) -> bool) -> usize {
    if p.grid(a).is_some_and(exact) || !p.get(a).dtype().is_float() {
        return a;
    }
    let coarse = p.get(a).clamp(-8, 8).round();
    p.push(coarse, Some(Grid { scale: 0, bits: 3 }), format!("v{a}.clamp(-8, 8).round()"), &[a])
}

pub(super) fn reduce(p: &mut Program) {
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

pub(super) fn scan(p: &mut Program) {
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

pub(super) fn product(p: &mut Program) {
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

pub(super) fn windows(p: &mut Program) {
    let a = p.any();
    let x = p.get(a);
    if x.ndim() != 4 || x.shape()[2] < 2 || x.shape()[3] < 2 || x.numel() == 0 {
        return;
    }
    let (stride, dilation, padding) = (1 + p.rng.below(2), 1, p.rng.below(2));
    let text = format!("stride {stride} padding {padding}");
    match p.rng.below(4) {
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
        2 => windows_gradient(p, x.shape()),
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

/// The gradient of a convolution for its image of this shape, which does not matter otherwise.
fn windows_gradient(p: &mut Program, shape: &[usize]) {
    let &[n, channels, h, w] = shape else { return };
    let (size, stride, dilation) = (1 + p.rng.below(3), 1 + p.rng.below(3), 1 + p.rng.below(2));
    let padding = p.rng.below(3);
    let reach = dilation * (size - 1) + 1;
    let count = |n: usize| (n + 2 * padding).checked_sub(reach).map(|rest| rest / stride + 1);
    let (Some(rows), Some(columns)) = (count(h), count(w)) else { return };
    // now and then enough to do that it is done in parts
    let outputs = if p.rng.one_in(8) { 128 } else { 1 + p.rng.below(4) };
    let dtype = p.rng.pick(&[DType::F32, DType::F64]);
    let weights = p.input_of(&[outputs, channels, size, size], dtype);
    let by = p.input_of(&[n, outputs, rows, columns], dtype);
    let grids = p.grid(weights).zip(p.grid(by));
    let grid = grids.map(|(a, b)| a.times(b).summed(outputs * size * size));
    if !grid.is_some_and(|g| g.is_exact(dtype)) {
        return;
    }
    let image = p.input_of(shape, dtype);
    let image = p.get(image).copy().set_requires_grad(true);
    let seen = image.conv2d(&p.get(weights), None, 1, stride, dilation, padding);
    let loss = (seen * p.get(by)).sum(..);
    let grad = loss.gradient([&image]).map(|mut grads| grads.remove(0)).expect("a gradient");
    let text = format!("conv2d(v{weights}, stride {stride} dilation {dilation} padding {padding})");
    p.push(grad + 0, grid, format!("the gradient of ({text} * v{by}).sum() + 0"), &[weights, by]);
}

/// The sum of two convolutions of one image, over windows of different sizes.
pub(super) fn convolutions(p: &mut Program) {
    let dtype = p.rng.pick(&[DType::F32, DType::F64, DType::I32]);
    let (channels, outputs) = (p.rng.pick(&[1, 3, 8, 33]), p.rng.pick(&[1, 2, 5, 16]));
    let (images, side, stride) = (1 + p.rng.below(2), 4 + p.rng.below(5), 1 + p.rng.below(2));
    let image = p.input_of(&[images, channels, side, side], dtype);
    let wide = p.input_of(&[outputs, channels, 3, 3], dtype);
    let narrow = p.input_of(&[outputs, channels, 1, 1], dtype);
    let of = |x: usize, padding: usize, p: &Program| {
        p.get(image).conv2d(&p.get(x), None, 1, stride, 1, padding)
    };
    let sum = of(wide, 1, p) + of(narrow, 0, p) + 0;
    let grids = p.grid(image).zip(p.grid(wide)).zip(p.grid(narrow));
    let grid =
        grids.map(|((x, a), b)| x.times(a).summed(9 * channels).plus(x.times(b).summed(channels)));
    if grid.is_some_and(|g| g.is_exact(dtype)) {
        let text = format!(
            "v{image}.conv2d(v{wide}, stride {stride} padding 1) + v{image}.conv2d(v{narrow}, stride {stride}) + 0"
        );
        p.push(sum, grid, text, &[image, wide, narrow]);
    }
}
