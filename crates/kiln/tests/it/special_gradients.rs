//! Gradients of reductions, bounds and steps where numbers are infinite, equal or none, as PyTorch 2.15 has them, and
//! numbers that once went wrong.

use half::{bf16, f16};
use kiln::{Element, Tensor};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Equal, NaN to NaN, or apart by rounding.
#[track_caller]
fn check(got: &Tensor, want: &[f64]) {
    let got = got.cast(kiln::DType::F64).to_vec::<f64>().expect("computes");
    let same = |(&got, &want): (&f64, &f64)| {
        got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= 1e-6 * want.abs()
    };
    assert!(got.len() == want.len() && got.iter().zip(want).all(same), "{got:?}, not {want:?}");
}

fn gradient(x: &Tensor, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    x.set_requires_grad(true);
    f(x).sum(..).gradient([x]).expect("reached").remove(0)
}

fn of<T: Element>(x: &[T], f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    gradient(&Tensor::from_vec(x.to_vec(), [x.len()]), f)
}

#[test]
fn logsumexp_beside_infinity() {
    check(&of(&[INF, 1000.0, 2.0], |x| x.logsumexp(0)), &[NAN, 0.0, 0.0]);
    check(&of(&[f32::INFINITY, 100.0, 2.0], |x| x.logsumexp(0)), &[NAN, 0.0, 0.0]);
    check(&of(&[-INF, 1.0], |x| x.logsumexp(0)), &[0.0, 1.0]);
    check(&of(&[-INF, -INF], |x| x.logsumexp(0)), &[NAN, NAN]);
    check(&Tensor::from([INF, 1000.0]).logsumexp(0), &[INF]);
    check(&Tensor::from([-INF, -INF]).logsumexp(0), &[-INF]);
}

/// The product of the others, where PyTorch divides infinity by infinity.
#[test]
fn products_of_infinities() {
    check(&of(&[INF, 1.0, 2.0], |x| x.prod(0)), &[2.0, INF, INF]);
    check(&of(&[INF, -INF, 2.0], |x| x.prod(0)), &[-INF, INF, -INF]);
    check(&of(&[INF, 0.0, 2.0], |x| x.prod(0)), &[0.0, INF, NAN]);
    check(&of(&[0.0, 0.0, 2.0], |x| x.prod(0)), &[0.0, 0.0, 0.0]);
    check(&of(&[0.0, 3.0, 2.0], |x| x.prod(0)), &[6.0, 0.0, 0.0]);
}

#[test]
fn equal_values_do_not_spread() {
    check(&of(&[1.0, 1.0, 1.0], |x| x.std(0)), &[0.0; 3]);
    check(
        &of(&[1.0f32, 1.0, 1.0, 3.0], |x| x.reshape([2, 2]).std(1)),
        &[0.0, 0.0, -FRAC_1_SQRT_2, FRAC_1_SQRT_2],
    );
    check(&of(&[INF, 1.0], |x| x.std(0)), &[NAN, NAN]);
}

#[test]
fn bounds_are_not_inside() {
    let x = [NAN, -1.0, 1.0, -2.0, 3.0, 0.0, INF];
    check(&of(&x, |x| x.clamp(-1, 1)), &[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    check(&of(&x, |x| x.clamp(2, 1)), &[0.0; 7]);
    check(&Tensor::from(x).clamp(-1, 1), &[NAN, -1.0, 1.0, -1.0, 1.0, 0.0, 1.0]);
    check(&Tensor::from(x).clamp(2, 1), &[NAN, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    let bounds = |v: f64| Tensor::from([v; 7]);
    check(&of(&x, |x| x.clamp(bounds(-1.0), bounds(1.0))), &[1.0, 0.5, 0.5, 0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn nan_is_the_largest_and_the_smallest() {
    check(&of(&[NAN, 1.0, 2.0], |x| x.max(0)), &[1.0, 0.0, 0.0]);
    check(&of(&[NAN, 1.0, NAN], |x| x.min(0)), &[0.5, 0.0, 0.5]);
    check(&of(&[2.0, 1.0, 2.0], |x| x.max(0)), &[0.5, 0.0, 0.5]);
    check(&of(&[NAN, 1.0, 2.0], |x| x.maximum(Tensor::from([1.0, 1.0, NAN]))), &[1.0, 0.5, 1.0]);
}

#[test]
fn what_moves_in_steps_has_zeros() -> Result<(), kiln::Error> {
    let x = Tensor::from([0.5, NAN]).set_requires_grad(true);
    for y in [x.round(), x.floor(), x.ceil(), x.trunc(), x.pow(0), x.sign(), x.floor_div(2.0)] {
        y.sum(..).backward()?;
    }
    check(&x.grad().expect("reached"), &[0.0, 0.0]);
    assert!(x.gt(0.0).cast(kiln::DType::F64).sum(..).backward().is_err(), "no float on the way");
    Ok(())
}

#[test]
fn powers_are_as_exact_as_their_type() {
    let power = |x: &Tensor, e: f64| x.pow(Tensor::from([e]).cast(x.dtype()));
    check(&power(&Tensor::from([bf16::from_f64(10.0)]), 2.0), &[100.0]);
    check(&power(&Tensor::from([f16::from_f64(100.0)]), 2.0), &[10000.0]);
    check(&Tensor::from([1e23f32]).pow(1.0), &[1e23f32 as f64]);
    let exact = (1..=10).map(|e| 10f64.powi(e)).collect::<Vec<f64>>();
    let exponents: Vec<f32> = (1..=10).map(|e| e as f32).collect();
    let got = Tensor::from(exponents).exp10().to_vec::<f32>().expect("computes");
    assert_eq!(got.iter().map(|&x| x as f64).collect::<Vec<f64>>(), exact);
}

#[test]
fn powers_have_the_special_cases_of_ieee() {
    let two = |x: [f32; 8], e: [f32; 8]| Tensor::from(x).pow(Tensor::from(e)).to_vec::<f32>();
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let got = two(
        [-0.0, -0.0, -1.0, 1.0, nan, -8.0, -inf, -0.0],
        [-1.0, 3.0, inf, nan, 0.0, 1.0 / 3.0, -3.0, 0.5],
    );
    let want = [-inf, -0.0, 1.0, 1.0, 1.0, nan, -0.0, 0.0f32];
    for (got, want) in got.expect("computes").into_iter().zip(want) {
        let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        assert!(same, "{got:?}, not {want:?}");
    }
}

#[test]
fn gradients_of_powers() {
    check(&of(&[1.0, 2.0], |x| x.pow(1.5)), &[1.5, 2.121320343559643]);
    check(&of(&[0.0], |e| Tensor::from([3.0]).pow(e)), &[3f64.ln()]);
    check(&of(&[0.0, 1.0, 2.5], |e| Tensor::from([0.0]).pow(e)), &[0.0; 3]);
    check(&of(&[0.0], |x| x.pow(Tensor::from([1.0]))), &[1.0]);
    check(&of(&[-8.0], |x| x.pow(1.0 / 3.0)), &[NAN]);
    check(&of(&[0.0, -INF], |x| x.pow(0.3)), &[INF, 0.0]);
    check(&of(&[0.0], |x| x.pow(-0.3)), &[-INF]);
    check(&of(&[INF, -INF], |x| x.pow(Tensor::from([0.0]))), &[0.0, 0.0]);
}

#[test]
fn integers_have_no_negative_powers() {
    let x = Tensor::from([2, 3]);
    assert!(x.pow(-2).error().is_some());
    check(&x.pow(2), &[4.0, 9.0]);
    check(&x.pow(-2.0), &[0.25, 1.0 / 9.0]);
    check(&x.pow(0), &[1.0, 1.0]);
}

#[test]
fn gates_far_from_zero() {
    let x = [-60.0f32, -88.0, -100.0, 60.0, 1e30, -1e30];
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let slope = |x: f64| sigmoid(x) * sigmoid(-x);
    check(&of(&x[..2], |x| x.sigmoid()), &[slope(-60.0), slope(-88.0)]);
    check(&of(&x[..2], |x| x.silu()), &[-59.0 * sigmoid(-60.0), -87.0 * sigmoid(-88.0)]);
    check(&of(&x[3..], |x| x.gelu()), &[1.0, 1.0, 0.0]);
    check(&of(&x[3..], |x| x.silu()), &[1.0, 1.0, 0.0]);
    let halves = x[..3].iter().map(|&x| f16::from_f32(x / 8.0)).collect::<Vec<f16>>();
    assert!(
        of(&halves, |x| x.sigmoid())
            .to_vec::<f16>()
            .expect("computes")
            .iter()
            .all(|g| g.to_f32() > 0.0)
    );
    check(&Tensor::from([-17.0f32]).softplus(), &[(-17f64).exp().ln_1p()]);
    check(&Tensor::from([-1e-9f32]).elu(1.0), &[-1e-9f32 as f64]);
}

#[test]
fn remainders_of_large_quotients() {
    let f32s = |a: [f32; 4], b: [f32; 4]| [Tensor::from(a), Tensor::from(b)];
    let [a, b] = f32s([987767.94, 1e9, 5.0, -1.0], [3.06, 3.0, f32::INFINITY, f32::INFINITY]);
    check(&a.modulo(&b), &[(987767.94f32 % 3.06) as f64, 1.0, 5.0, INF]);
    check(
        &Tensor::from([-1.0f32, 1.0]).floor_div(Tensor::from([f32::INFINITY, 0.1])),
        &[-1.0, 9.0],
    );
    let [x, y] = [5.0, -5.0].map(|x| Tensor::from([x]).set_requires_grad(true));
    let grads = x.modulo(&y).sum(..).gradient([&x, &y]).expect("reached");
    check(&grads[0], &[1.0]);
    check(&grads[1], &[1.0]);
    check(&of(&[6.0], |x| x.modulo(3.0)), &[1.0]);
}

/// A Gaussian bell, and not the slope of the polynomials that the error function is computed by.
#[test]
fn error_functions() {
    let at = [-INF, -3.0, -0.75, 0.0, 0.25, 1.0, 2.5, INF, NAN];
    let want = at.map(|x| FRAC_2_SQRT_PI * (-x * x).exp());
    check(&of(&at, Tensor::erf), &want);
    check(&of(&at, Tensor::erfc), &want.map(|slope| -slope));
    check(&of(&at.map(|x| x as f32), Tensor::erf), &want);
}

#[test]
fn share_of_the_normal_distribution() {
    let at = [-INF, -50.0, -6.0, -0.5, 0.0, 0.5, 50.0, INF, NAN];
    // of PyTorch: the share below x, and x times the density at x
    let want = [
        0.0,
        0.0,
        -3.546_870_945_402_639e-8,
        0.132_504_875_343_837_12,
        0.5,
        0.867_495_124_656_162_9,
        1.0,
        1.0,
        NAN,
    ];
    check(&of(&at, Tensor::gelu_erf), &want);
    let at = at.map(|x| x as f32);
    check(&of(&at, Tensor::gelu_erf), &want);
}

#[test]
fn the_exact_gelu_keeps_its_places_where_little_is_left() {
    let at: Vec<f32> = (0..1201).map(|i| i as f32 / 64.0 - 12.5).collect();
    let wide: Vec<f64> = at.iter().map(|x| f64::from(*x)).collect();
    let y: Vec<f32> = Tensor::from(at.clone()).gelu_erf().to_vec().expect("computes");
    let want: Vec<f64> = Tensor::from(wide).gelu_erf().to_vec().expect("computes");
    for ((x, y), want) in at.iter().zip(y).zip(want) {
        let off = (f64::from(y) - want).abs() / want.abs().max(f64::from(f32::MIN_POSITIVE));
        assert!(off < 8.0 * f64::from(f32::EPSILON) / 2.0, "{x}: {y}, not {want}");
    }
}

/// The gradient of a training step reads what the layer before gives, and nothing that the error function is computed by.
#[test]
fn the_error_function_keeps_nothing_for_its_gradient() {
    let (x, w) = (Tensor::randn([64, 64]), Tensor::randn([64, 64]));
    kiln::realize([&x, &w]).expect("data");
    w.set_requires_grad(true);
    let step =
        || w.matmul(&x).gelu_erf().matmul(&x).sum(..).gradient([&w]).expect("reached").remove(0);
    let (done, counts) = kiln::measure(|| step().realize().map(drop));
    done.expect("computes");
    assert!(counts.kernels <= 4, "{} kernels", counts.kernels);
}

/// Sines: numbers in no order.
fn wave(shape: &[usize], step: f64) -> Tensor {
    let n = shape.iter().product::<usize>() as i64;
    let wave = (Tensor::arange(n).cast(kiln::DType::F64) * step).sin().reshape(shape);
    wave.realize().expect("computes");
    wave
}

/// Every extreme passes on its gradient of 1, also if it was read before the gradient is computed, and was found in values
/// that are not in memory. Then other kernels compute the values again, and add up their products in another order.
#[test]
fn extremes_of_what_is_computed_again_have_gradients() -> Result<(), kiln::Error> {
    let extremes: [fn(&Tensor) -> Tensor; 5] = [
        |x| x.unsqueeze(0).max_pool1d(2),
        |x| x.max(-1),
        |x| x.min(0),
        |x| of_fifths(x, "amax"),
        |x| of_fifths(x, "amin"),
    ];
    for (m, k, n) in [(7, 7, 7), (5, 7, 7), (4, 33, 6), (1, 7, 7)] {
        for dtype in [kiln::DType::F32, kiln::DType::F64] {
            for (i, extreme) in extremes.iter().enumerate() {
                for is_read in [false, true] {
                    let bias = wave(&[m, n], 2.1).cast(dtype).copy().set_requires_grad(true);
                    let [a, b] = [wave(&[m, k], 0.7), wave(&[k, n], 1.3)].map(|x| x.cast(dtype));
                    let y = extreme(&((a.matmul(&b) * 0.3 + &bias).sin() * 1.5));
                    if is_read {
                        y.realize()?;
                    }
                    // near the top of a sine the slope is small, and so its roundings count much
                    let slope = (a.matmul(&b) * 0.3 + bias.detach()).cos() * 1.5;
                    y.sum(..).backward()?;
                    let passed = (bias.grad().expect("reached") / slope).cast(kiln::DType::F64);
                    let (passed, wanted) = (passed.sum(..).item::<f64>()?, y.numel() as f64);
                    let case = format!("{i} of {m} x {k} x {n} in {dtype}, read {is_read}");
                    assert!((passed - wanted).abs() < 1e-3, "{case}: {passed}, not {wanted}");
                }
            }
        }
    }
    Ok(())
}

/// The extremes of every fifth element. Each of them has some.
fn of_fifths(x: &Tensor, reduce: &str) -> Tensor {
    let at = (Tensor::arange(x.numel() as i64) * 7).modulo(5);
    let base = Tensor::zeros_with([5], x.dtype());
    base.scatter_reduce(0, &at, &x.flatten(), reduce, false)
}

/// What wants a gradient is computed, then written to, and the gradient is read after the next value.
#[test]
fn what_a_gradient_reads_is_not_overwritten() -> Result<(), kiln::Error> {
    let functions: [fn(&Tensor) -> Tensor; 3] = [|x| x * 1.0, Tensor::exp, Tensor::sin];
    for f in functions {
        let x = Tensor::from([1.0, 2.0, 3.0]).set_requires_grad(true);
        let v = f(&x);
        v.realize()?;
        v.set(kiln::s![1], 0.25);
        let loss = v.square().sum(..);
        loss.backward()?;
        loss.realize()?;
        let slope = f(&x.detach()) * of(&[1.0, 2.0, 3.0], f) * 2.0;
        let mut want = slope.to_vec::<f64>()?;
        want[1] = 0.0;
        check(&x.grad().expect("reached"), &want);
        let mut want = f(&x.detach()).to_vec::<f64>()?;
        want[1] = 0.25;
        check(&v.detach(), &want);
    }
    Ok(())
}

#[test]
fn the_norm_of_a_window_of_zeros_is_flat() {
    let x = [0.0, 0.0, 3.0, 4.0];
    check(&of(&x, |x| x.reshape([1, 1, 4]).lp_pool1d(2.0, 2)), &[0.0, 0.0, 0.6, 0.8]);
    check(&of(&x, |x| x.reshape([1, 2, 2]).lp_pool2d(2.0, 2)), &[0.0, 0.0, 0.6, 0.8]);
}

/// Every second element is in one window, the others are in two or in none. In the kernel, every second lane of a quotient is
/// 0 / 0, and nothing uses it.
#[test]
fn the_gradient_of_pooled_windows_that_overlap() -> Result<(), kiln::Error> {
    for (rows, n, size, stride) in [(21, 69, 3, 2), (6, 91, 4, 2), (8, 40, 3, 2), (5, 70, 5, 3)] {
        let values: Vec<f64> = (0..rows * n).map(|i| ((i * 7919) % 1009) as f64).collect();
        let x = Tensor::from_vec(values.clone(), [rows, n]);
        x.realize()?;
        let x = x.set_requires_grad(true);
        let y = x.max_pool1d(kiln::PoolOptions::new(size).stride(stride));
        let windows = y.shape()[1];
        let seed = (Tensor::arange(rows * windows).cast(kiln::DType::F64) + 1.0).contiguous();
        let seed = seed.reshape([rows, windows]);
        seed.realize()?;
        let slope = y.gradient_with([&x], &seed)?.remove(0);
        let mut want = vec![0.0; rows * n];
        for (row, window) in (0..rows).flat_map(|row| (0..windows).map(move |w| (row, w))) {
            let places = (0..size).map(|i| row * n + window * stride + i);
            let most = places.max_by(|&a, &b| values[a].total_cmp(&values[b]));
            want[most.expect("a window")] += (row * windows + window + 1) as f64;
        }
        check(&slope, &want);
    }
    Ok(())
}
