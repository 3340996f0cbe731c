//! Gradients of every differentiable operation against central differences in f64, and gradients of gradients.
//!
//! With a step of 1e-5 a central difference is off by about 1e-10 from the curvature it ignores and about as much from
//! the rounding of two nearly equal values; a millionth of the slope is far from both, and any wrong factor is far from it.

use kiln::{DType, Tensor, s};

const STEP: f64 = 1e-5;
const TOLERANCE: f64 = 1e-6;

type Function = fn(&Tensor) -> Tensor;

/// Twelve numbers without ties, away from where functions have corners.
fn point() -> Vec<f64> {
    (0..12).map(|i| ((i * 7 + 3) as f64 * 1.37).sin() * 1.8 + 0.05).collect()
}

/// A number from `f`, to which every output contributes with a weight of its own.
fn weighted(y: &Tensor) -> Tensor {
    let weights = (Tensor::arange(y.numel()).cast(DType::F64) * 1.7 + 0.4).sin();
    (y.flatten() * weights).sum(..)
}

fn gradient(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> Result<Tensor, kiln::Error> {
    Ok(f(x).gradient([x])?.remove(0))
}

/// What differs between the gradient of `f` at `x` and differences.
fn mismatch(x: &[f64], f: impl Fn(&Tensor) -> Tensor) -> Result<Option<String>, kiln::Error> {
    let variable = |x: &[f64]| Tensor::from(x.to_vec()).set_requires_grad(true);
    let exact = gradient(&f, &variable(x))?.to_vec::<f64>()?;
    for i in 0..x.len() {
        let at = |by: f64| {
            let mut moved = x.to_vec();
            moved[i] += by;
            f(&variable(&moved)).item::<f64>()
        };
        let slope = (at(STEP)? - at(-STEP)?) / (2.0 * STEP);
        let close = (exact[i] - slope).abs() <= TOLERANCE * (1.0 + slope.abs());
        if !close {
            return Ok(Some(format!("element {i}: {} is not {slope}", exact[i])));
        }
    }
    Ok(None)
}

fn check(order: usize, cases: &[(&str, Function)]) {
    let x = point();
    let failure = |(name, f): &(&str, Function)| {
        let first = |x: &Tensor| weighted(&f(x));
        let second = |x: &Tensor| match gradient(first, x) {
            Ok(g) => weighted(&g),
            Err(error) => panic!("{name}: {error}"),
        };
        let found = if order == 1 { mismatch(&x, first) } else { mismatch(&x, second) };
        match found {
            Ok(None) => None,
            Ok(Some(what)) => Some(format!("{name}: {what}")),
            Err(error) => Some(format!("{name}: {error}")),
        }
    };
    let failures: Vec<String> = cases.iter().filter_map(failure).collect();
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn functions_of_one_number() {
    check(
        1,
        &[
            ("sqrt", |x| (x.square() + 0.5).sqrt()),
            ("exp", |x| x.exp()),
            ("exp2", |x| x.exp2()),
            ("exp10", |x| x.exp10()),
            ("log", |x| (x.abs() + 0.5).log()),
            ("log2", |x| (x.abs() + 0.5).log2()),
            ("log10", |x| (x.abs() + 0.5).log10()),
            ("sin", |x| x.sin()),
            ("cos", |x| x.cos()),
            ("tan", |x| (x * 0.5).tan()),
            ("tanh", |x| x.tanh()),
            ("rsqrt", |x| (x.square() + 0.5).rsqrt()),
            ("reciprocal", |x| (x + 3.0).reciprocal()),
            ("neg", |x| -x),
            ("abs", |x| x.abs()),
            ("sign", |x| x.sign() * x),
            ("square", |x| x.square()),
            ("floor", |x| x.floor() * x),
            ("round", |x| x.round() * x),
            ("relu", |x| x.relu()),
            ("sigmoid", |x| x.sigmoid()),
            ("silu", |x| x.silu()),
            ("gelu", |x| x.gelu()),
            ("leaky_relu", |x| x.leaky_relu(0.1)),
            ("elu", |x| x.elu(0.7)),
            ("softplus", |x| x.softplus()),
            ("pow", |x| x.pow(2) + x.pow(5) + (x + 3.0).pow(-2) + (x + 3.0).pow(1.7)),
            ("clamp", |x| x.clamp(-1.0, 0.7) * x),
            ("cast", |x| x.cast(DType::I32) * x),
        ],
    );
}

fn halves(x: &Tensor) -> [Tensor; 2] {
    [x.get(s![..6]).reshape([2, 3]), x.get(s![6..]).reshape([2, 3])]
}

fn of_halves(x: &Tensor, f: fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
    let [a, b] = halves(x);
    f(&a, &b)
}

#[test]
fn functions_of_two() {
    check(
        1,
        &[
            ("add", |x| of_halves(x, |a, b| a + b)),
            ("sub", |x| of_halves(x, |a, b| 2.0 - a - b)),
            ("mul", |x| of_halves(x, |a, b| a * b)),
            ("div", |x| of_halves(x, |a, b| a / (b + 3.0))),
            ("maximum", |x| of_halves(x, |a, b| a.maximum(b))),
            ("minimum", |x| of_halves(x, |a, b| a.minimum(b))),
            ("pow", |x| of_halves(x, |a, b| (a.abs() + 0.2).pow(b))),
            ("where", |x| of_halves(x, |a, b| a.lt(b).where_(a * b, b))),
            ("masked_fill", |x| of_halves(x, |a, b| a.masked_fill(&b.gt(0), 1.0) * b)),
            ("broadcast", |x| of_halves(x, |a, b| a.reshape([6, 1]) * b.reshape([1, 6]))),
            ("matmul", |x| of_halves(x, |a, b| a.matmul(&b.transpose(0, 1)))),
            ("matrix times vector", |x| of_halves(x, |a, b| a.matmul(&b.get(s![0])))),
            ("batched", |x| {
                of_halves(x, |a, b| a.reshape([2, 1, 3]).matmul(&b.reshape([2, 3, 1])))
            }),
            ("linear", |x| {
                of_halves(x, |a, b| a.linear(&b.transpose(0, 1), Some(&a.get(s![0, ..2]))))
            }),
            ("attention", |x| {
                of_halves(x, |a, b| {
                    let q = a.reshape([1, 2, 3]);
                    q.scaled_dot_product_attention(&b.reshape([1, 2, 3]), &q, None, true)
                })
            }),
            ("cat", |x| of_halves(x, |a, b| Tensor::cat([a, b, a], 1))),
            ("stack", |x| of_halves(x, |a, b| Tensor::stack([a, b], 1).square())),
            ("batchnorm", |x| {
                of_halves(x, |a, b| {
                    let rows = b.get(s![0]);
                    a.batchnorm(Some(&rows), Some(&b.get(s![1])), &rows, &(&rows + 3.0))
                })
            }),
        ],
    );
}

fn grid(x: &Tensor) -> Tensor {
    x.reshape([3, 4])
}

fn image(x: &Tensor) -> Tensor {
    Tensor::cat([x, &(x * 0.7 + 0.1), &x.flip(0)], 0).reshape([1, 2, 3, 6])
}

fn kernel(x: &Tensor, outputs: usize, inputs: usize) -> Tensor {
    x.get(s![..4]).reshape([1, 1, 2, 2]).expand([outputs, inputs, 2, 2]) * 0.5
}

#[test]
fn reductions_and_windows() {
    check(
        1,
        &[
            ("sum", |x| grid(x).sum(0).square()),
            ("sum all", |x| x.sum(..).square()),
            ("mean", |x| grid(x).mean([0, 1]).square()),
            ("prod", |x| grid(x).prod(1)),
            ("max", |x| grid(x).max(1)),
            ("min", |x| grid(x).min_keepdim(0)),
            ("var", |x| grid(x).var(1)),
            ("var_with", |x| grid(x).var_with(0, 0)),
            ("std", |x| grid(x).std(0)),
            ("softmax", |x| grid(x).softmax(1)),
            ("softmax of two axes", |x| x.reshape([2, 3, 2]).softmax([0, 2])),
            ("log_softmax", |x| grid(x).log_softmax(0)),
            ("logsumexp", |x| grid(x).logsumexp(1)),
            ("cumsum", |x| grid(x).cumsum(0).square()),
            ("layernorm", |x| grid(x).layernorm(-1)),
            ("cross_entropy", |x| grid(x).cross_entropy(&Tensor::from([1, 3, 0]))),
            ("max_pool2d", |x| image(x).max_pool2d(2)),
            ("max_pool2d padded", |x| image(x).max_pool2d_with(3, 2, 1, 1)),
            ("avg_pool2d", |x| image(x).avg_pool2d_with(2, 1, 1).square()),
            ("conv2d", |x| image(x).conv2d(&kernel(x, 3, 2), None, 1, 1, 1, 0)),
            ("conv2d strided", |x| image(x).conv2d(&kernel(x, 1, 2), None, 1, 2, 1, 1)),
            ("conv2d dilated", |x| image(x).conv2d(&kernel(x, 1, 2), None, 1, 1, 2, 0)),
            ("conv2d groups", |x| {
                image(x).conv2d(&kernel(x, 4, 1), Some(&x.get(s![..4])), 2, [1, 2], 1, 1)
            }),
        ],
    );
}

#[test]
fn movement() {
    check(
        1,
        &[
            ("permute", |x| x.reshape([2, 3, 2]).permute([2, 0, 1]).square()),
            ("expand", |x| x.reshape([12, 1]).expand([12, 3]).square()),
            ("flip", |x| grid(x).flip([0, 1]) * grid(x)),
            ("pad", |x| grid(x).pad_with([(1, 0), (0, 2)], 1.5).square()),
            ("strided slice", |x| x.get(s![1..11;3]) * x.get(s![10..0;-3])),
            ("repeat", |x| grid(x).repeat([2, 1]).square()),
            ("tril", |x| grid(x).tril(0).matmul(&grid(x).triu(1).transpose(0, 1))),
            ("chunk", |x| x.chunk(3, 0).into_iter().reduce(|a, b| a * b).expect("three")),
            ("contiguous", |x| x.contiguous().square()),
            ("unflatten", |x| x.unflatten(0, [3, 4]).squeeze(..).sum(0).square()),
            ("write", |x| {
                let t = x * 2.0;
                t.set(s![2..6], x.get(s![6..10]) * x.get(s![0..4]));
                t.square()
            }),
        ],
    );
}

#[test]
fn gradients_of_gradients() {
    check(
        2,
        &[
            ("cube", |x| x.pow(3)),
            ("exp of sin", |x| x.sin().exp()),
            ("tanh", |x| x.tanh()),
            ("sigmoid", |x| x.sigmoid()),
            ("gelu", |x| x.gelu()),
            ("quotient", |x| of_halves(x, |a, b| a / (b + 3.0))),
            ("softmax", |x| grid(x).softmax(1)),
            ("softmax of two axes", |x| x.reshape([2, 3, 2]).softmax([0, 2])),
            ("causal attention", |x| {
                of_halves(x, |a, b| {
                    let q = a.reshape([1, 2, 3]);
                    q.scaled_dot_product_attention(&b.reshape([1, 2, 3]), &q, None, true)
                })
            }),
            ("var", |x| grid(x).var(1)),
            ("std of a population", |x| x.reshape([2, 3, 2]).std_with([0, 2], 0)),
            ("logsumexp", |x| grid(x).logsumexp(0)),
            ("matmul", |x| of_halves(x, |a, b| a.matmul(&b.transpose(0, 1)).square())),
            ("layernorm", |x| grid(x).layernorm(-1)),
            ("conv2d", |x| image(x).conv2d(&kernel(x, 1, 2), None, 1, 1, 1, 0).square()),
            ("max", |x| grid(x).max(1).square()),
        ],
    );
}
