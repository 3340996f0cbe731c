//! The functions of the file, and how far each may be from the truth.

use kiln::Tensor;

/// Of the type that a function is computed in: the unit at 1, the smallest and the largest number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) eps: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// How far a result may be from the truth: units in the last place, and the size of terms that cancel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) ulp: f64,
    /// From the operands, the truth and the type.
    pub(super) scale: fn(&[f64], f64, Type) -> f64,
}

const fn ulp(ulp: f64) -> Bound {
    Bound { ulp, scale: |_, _, _| 0.0 }
}

const fn scaled(ulp: f64, scale: fn(&[f64], f64, Type) -> f64) -> Bound {
    Bound { ulp, scale }
}

/// The derivative of `x^e` has `e` times a power that may be among the smallest numbers, of an exponent that loses bits
/// below a half.
fn less_one(x: f64, e: f64, slope: f64, t: Type) -> f64 {
    let lost = if e < 0.5 { (e - 1.0).abs() * t.eps } else { 0.0 };
    e.abs() * t.least + slope.abs() * x.abs().ln().abs() * lost
}

fn gelu_argument(x: f64) -> f64 {
    1.6 * x.abs() * (1.0 + 0.044715 * x * x)
}

const EXACT: [Bound; 2] = [ulp(0.0), ulp(0.0)];

type One = fn(&Tensor) -> Tensor;
type Two = fn(&Tensor, &Tensor) -> Tensor;

/// Functions of one number: the value's bound and the gradient's.
pub(super) const ONE: &[(&str, One, [Bound; 2])] = &[
    ("neg", |x| -x, EXACT),
    ("abs", |x| x.abs(), EXACT),
    ("square", |x| x.square(), [ulp(0.5), ulp(0.0)]),
    ("trunc", |x| x.trunc(), EXACT),
    ("floor", |x| x.floor(), EXACT),
    ("ceil", |x| x.ceil(), EXACT),
    ("round", |x| x.round(), EXACT),
    ("relu", |x| x.relu(), EXACT),
    ("sign", |x| x.sign(), EXACT),
    ("leaky_relu", |x| x.leaky_relu(0.25), [ulp(0.5), ulp(0.0)]),
    ("clamp", |x| x.clamp(-1.5, 2.0), EXACT),
    ("pow_0", |x| x.pow(0), EXACT),
    ("pow_1", |x| x.pow(1), EXACT),
    ("pow_2", |x| x.pow(2), [ulp(0.5), ulp(0.0)]),
    ("sqrt", |x| x.sqrt(), [ulp(0.5), ulp(2.0)]),
    ("rsqrt", |x| x.rsqrt(), [ulp(2.0), ulp(4.0)]),
    ("reciprocal", |x| x.reciprocal(), [ulp(0.5), ulp(2.0)]),
    ("exp", |x| x.exp(), [ulp(2.0), ulp(2.0)]),
    // from the value, which is infinite before the gradient is
    (
        "exp2",
        |x| x.exp2(),
        [ulp(2.0), scaled(3.0, |x, y, t| if x[0].exp2() > t.most { y } else { 0.0 })],
    ),
    ("exp10", |x| x.exp10(), [ulp(2.0), ulp(4.0)]),
    ("expm1", |x| x.expm1(), [ulp(2.0), ulp(2.0)]),
    ("log", |x| x.log(), [ulp(2.0), ulp(0.5)]),
    ("log2", |x| x.log2(), [ulp(2.0), ulp(2.0)]),
    ("log10", |x| x.log10(), [ulp(3.0), ulp(3.0)]),
    ("log1p", |x| x.log1p(), [ulp(2.0), ulp(2.0)]),
    ("sin", |x| x.sin(), [ulp(2.0), ulp(2.0)]),
    ("cos", |x| x.cos(), [ulp(2.0), ulp(2.0)]),
    ("tan", |x| x.tan(), [ulp(4.0), ulp(8.0)]),
    // of 1 - y * y
    ("tanh", |x| x.tanh(), [ulp(4.0), scaled(2.0, |_, _, t| 6.0 * t.eps)]),
    ("sigmoid", |x| x.sigmoid(), [ulp(4.0), ulp(6.0)]),
    // x times a sigmoid that may be among the smallest numbers, and a sum of two terms that is 0 near -1.28
    (
        "silu",
        |x| x.silu(),
        [
            scaled(4.0, |x, _, t| x[0].abs() * t.least),
            scaled(6.0, |x, _, t| x[0].abs() * t.least + 6.0 * t.eps * x[0].abs().min(2.0)),
        ],
    ),
    // the rounding of the sigmoid's argument, which is about that large
    (
        "gelu",
        |x| x.gelu(),
        [
            scaled(4.0, |x, y, t| {
                3.0 * t.eps * y.abs() * gelu_argument(x[0]) + x[0].abs() * t.least
            }),
            scaled(6.0, |x, y, t| {
                let size = gelu_argument(x[0]);
                6.0 * t.eps * (y.abs() * size + size.min(1.0)) + size * x[0].abs() * t.least
            }),
        ],
    ),
    ("elu", |x| x.elu(0.75), [ulp(3.0), ulp(3.0)]),
    ("softplus", |x| x.softplus(), [ulp(4.0), ulp(4.0)]),
    ("pow_3", |x| x.pow(3), [ulp(2.0), ulp(3.0)]),
    ("pow_4", |x| x.pow(4), [ulp(2.0), scaled(3.0, |_, _, t| 4.0 * t.least)]),
    ("pow_5", |x| x.pow(5), [ulp(2.0), scaled(3.0, |_, _, t| 5.0 * t.least)]),
    ("pow_0.5", |x| x.pow(0.5), [ulp(0.5), ulp(2.0)]),
    ("pow_-1", |x| x.pow(-1), [ulp(0.5), ulp(2.0)]),
    ("pow_-2", |x| x.pow(-2), [ulp(2.0), ulp(3.0)]),
    ("pow_-3", |x| x.pow(-3), [ulp(2.0), scaled(3.0, |_, _, t| 3.0 * t.least)]),
    ("pow_1.5", |x| x.pow(1.5), [ulp(2.0), ulp(3.0)]),
    (
        "pow_0.296875",
        |x| x.pow(0.296875),
        [ulp(2.0), scaled(3.0, |x, y, t| less_one(x[0], 0.296875, y, t))],
    ),
    (
        "pow_-0.296875",
        |x| x.pow(-0.296875),
        [ulp(2.0), scaled(3.0, |x, y, t| less_one(x[0], -0.296875, y, t))],
    ),
    ("pow_2.5", |x| x.pow(2.5), [ulp(2.0), ulp(3.0)]),
    ("pow_17", |x| x.pow(17), [ulp(2.0), scaled(3.0, |_, _, t| 17.0 * t.least)]),
];

/// Functions of two numbers: the value's bound and the gradients'.
pub(super) const TWO: &[(&str, Two, [Bound; 3])] = &[
    ("add", |a, b| a + b, [ulp(0.5), ulp(0.0), ulp(0.0)]),
    ("sub", |a, b| a - b, [ulp(0.5), ulp(0.0), ulp(0.0)]),
    ("mul", |a, b| a * b, [ulp(0.5), ulp(0.0), ulp(0.0)]),
    ("div", |a, b| a / b, [ulp(0.5), ulp(0.5), ulp(2.0)]),
    ("maximum", |a, b| a.maximum(b), [ulp(0.0), ulp(0.0), ulp(0.0)]),
    ("minimum", |a, b| a.minimum(b), [ulp(0.0), ulp(0.0), ulp(0.0)]),
    (
        "pow",
        |a, b| a.pow(b),
        [ulp(2.0), scaled(4.0, |x, y, t| less_one(x[0], x[1], y, t)), ulp(4.0)],
    ),
];
