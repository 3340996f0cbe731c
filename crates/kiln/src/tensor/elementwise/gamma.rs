//! The gamma function's logarithm and its derivatives, in f64: Stirling's series, after the argument was moved to where
//! it converges (NIST Digital Library of Mathematical Functions, chapter 5).

use crate::defaults::OrFloat;
use crate::error::Fault;
use crate::origin::outermost;
use crate::{DType, Device, Tensor};
use kiln_ir::UOp;
use kiln_ir::arg::Derivative;
use kiln_ir::derivative;
use kiln_ir::derivative::{Gradients, of_one};
use std::f64::consts::PI;

/// Arguments below this are moved up by it.
const FAR: i32 = 10;

/// `B(2k) / (2k)` of the Bernoulli numbers.
const BERNOULLI: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 120.0,
    1.0 / 252.0,
    -1.0 / 240.0,
    1.0 / 132.0,
    -691.0 / 32760.0,
    1.0 / 12.0,
    -3617.0 / 8160.0,
];

/// `c[0] + c[1] x + ..`.
pub(super) fn polynomial(x: &Tensor, c: &[f64]) -> Tensor {
    let (last, rest) = c.split_last().expect("a coefficient");
    rest.iter().rev().fold(Tensor::full_like(x, *last), |sum, c| sum * x + *c)
}

/// An argument from 1/2 on: itself or, of one from 1/2 down, 1 less it.
fn upper(x: &Tensor) -> (Tensor, Tensor) {
    let is_low = x.lt(0.5);
    (is_low.where_(1.0 - x, x), is_low)
}

/// `sin(pi x) / pi` and `cos(pi x)`, exact in their zeros.
fn turn(x: &Tensor) -> (Tensor, Tensor) {
    let r = x - (x * 0.5).round() * 2.0;
    let near = r.gt(0.5).where_(1.0 - &r, r.lt(-0.5).where_(-1.0 - &r, &r));
    // a small sine is its angle; below the normal numbers a product with pi has few bits
    let sine = near.abs().lt(1e-9).where_(&near, (&near * PI).sin() / PI);
    let cosine = (r.abs() - 0.5).neg() * PI;
    (sine, cosine.sin())
}

fn lgamma(x: &Tensor) -> Tensor {
    let (z, is_low) = upper(x);
    let is_near = z.lt(FAR);
    let product = (1..FAR).fold(z.clone(), |product, k| product * (&z + k));
    let moved = is_near.where_(&z + FAR, &z);
    let terms: Vec<f64> = (0..8).map(|k| BERNOULLI[k] / (2 * k + 1) as f64).collect();
    let rest = polynomial(&moved.square().reciprocal(), &terms) / &moved;
    let stirling = (&moved - 0.5) * (moved.log() - 1.0) + (0.5 * (2.0 * PI).ln() - 0.5) + rest;
    let upper = stirling - is_near.where_(product, 1.0).log();
    let reflected = turn(x).0.abs().log().neg() - &upper;
    let value = is_low.where_(reflected, upper);
    x.isinf().where_(f64::INFINITY, value)
}

fn digamma(x: &Tensor) -> Tensor {
    let (z, is_low) = upper(x);
    let is_near = z.lt(FAR);
    let steps = (1..FAR).fold(z.reciprocal(), |sum, k| sum + (&z + k).reciprocal());
    let moved = is_near.where_(&z + FAR, &z);
    let square = moved.square().reciprocal();
    let series = moved.log() - 0.5 / &moved - polynomial(&square, &BERNOULLI) * &square;
    let upper = series - is_near.where_(steps, 0.0);
    let (sine, cosine) = turn(x);
    let reflected = &upper - cosine / &sine;
    let pole = x.eq(0.0).where_(f64::INFINITY, f64::NAN).copysign(-x);
    let pole = (x.le(0.0) & x.eq(x.floor())).where_(pole, reflected);
    is_low.where_(pole, upper)
}

/// The Hurwitz zeta function of `s` from 2 on and `x` above 0, by Euler and Maclaurin's formula.
fn zeta(s: i32, x: &Tensor) -> Tensor {
    let near = (0..FAR).fold(Tensor::zeros_like(x), |sum, k| sum + (x + k).pow(-s));
    let z = x + FAR;
    let power = z.pow(-s);
    let square = z.square().reciprocal();
    let rising = |k: i32| (1..2 * k).map(|i| f64::from(s + i - 1) / f64::from(i)).product::<f64>();
    let terms: Vec<f64> = (1..=8).map(|k| BERNOULLI[k as usize - 1] * rising(k)).collect();
    near + z.pow(1 - s) / f64::from(s - 1) + &power * 0.5 + polynomial(&square, &terms) * power / z
}

/// The derivative of `digamma`, for every argument.
fn trigamma(x: &Tensor) -> Tensor {
    let (z, is_low) = upper(x);
    let upper = zeta(2, &z);
    is_low.where_(turn(x).0.reciprocal().square() - &upper, upper)
}

/// The gamma function; integers become floats first.
impl Tensor {
    /// The logarithm of the size of the gamma function.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1.0, 5.0]).lgamma();
    /// assert!((t.to_vec::<f64>()?[1] - 24.0f64.ln()).abs() < 1e-12);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn lgamma(&self) -> Tensor {
        self.special("lgamma", lgamma, LGAMMA)
    }

    /// The derivative of [`lgamma`](Tensor::lgamma).
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1.0]).digamma();
    /// assert!((t.to_vec::<f64>()?[0] + 0.577_215_664_901_532_9).abs() < 1e-12);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn digamma(&self) -> Tensor {
        self.special("digamma", digamma, DIGAMMA)
    }

    /// The derivative number `n` of [`digamma`](Tensor::digamma). At 0 and negative integers it is
    /// infinite: below 0 for even `n`, although the function comes from both sides there.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1.0]).polygamma(1);
    /// let zeta_2 = std::f64::consts::PI.powi(2) / 6.0;
    /// assert!((t.to_vec::<f64>()?[0] - zeta_2).abs() < 1e-12);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A derivative past the 30th.
    #[must_use]
    #[track_caller]
    pub fn polygamma(&self, n: usize) -> Tensor {
        let _method = outermost("polygamma");
        match n {
            0 => self.digamma(),
            1..=30 => self.derivative_of_digamma(n),
            _ => self.refused("polygamma", format!("derivative {n} is past the 30th").into()),
        }
    }

    /// [`polygamma`](Tensor::polygamma) from 1 on, past the 30th too: a gradient of the 30th is the 31st.
    #[track_caller]
    fn derivative_of_digamma(&self, n: usize) -> Tensor {
        let f = |x: &Tensor| if n == 1 { trigamma(x) } else { higher(n, x) };
        self.special_of(n, "polygamma", f, POLYGAMMA)
    }

    /// A function in f64, rounded once.
    #[track_caller]
    pub(super) fn special(
        &self,
        op: &'static str,
        f: impl FnOnce(&Tensor) -> Tensor,
        derivative: Derivative,
    ) -> Tensor {
        self.special_of(1, op, f, derivative)
    }

    /// The same of a function that has the number `n`, which its derivative is told.
    #[track_caller]
    fn special_of(
        &self,
        n: usize,
        op: &'static str,
        f: impl FnOnce(&Tensor) -> Tensor,
        derivative: Derivative,
    ) -> Tensor {
        let _method = outermost(op);
        let compute = || -> Result<UOp, Fault> {
            let x = self.cast(DType::F64);
            let inputs = [x.value()?, UOp::constant(n as i64, DType::I64)];
            let y = f(&x).value()?.with_derivative(derivative, inputs);
            Ok(y.cast(self.dtype().or_float()))
        };
        self.lift(op, compute())
    }
}

const LGAMMA: Derivative = derivative!("lgamma", |y, g| by_slope(y, g, |x, _, _| x.digamma()));
const DIGAMMA: Derivative =
    derivative!("digamma", |y, g| by_slope(y, g, |x, _, _| x.derivative_of_digamma(1)));
const POLYGAMMA: Derivative =
    derivative!("polygamma", |y, g| by_slope(y, g, |x, _, n| x.derivative_of_digamma(n + 1)));

/// The gradient of a [special](Tensor::special) function, whose slope is made of its argument, its value and its number.
pub(super) fn by_slope(
    y: &UOp,
    g: &UOp,
    slope: fn(&Tensor, &Tensor, usize) -> Tensor,
) -> Gradients {
    // the nodes go into a graph that has a device
    let tensor = |n: &UOp| Tensor::from_node(n.clone(), &Device::default_device());
    let n = y.src(2).as_const().map_or(0, |n| n.as_f64() as usize);
    let slope = slope(&tensor(y.src(1)), &tensor(y), n).value();
    of_one(g * slope.expect("made of nodes without errors"))
}

/// Derivative `n` from 2 on. From 0 down it is what is left of the derivative of `pi cot(pi x)`, the sum over all integers,
/// after the terms from 1 on are taken off.
fn higher(n: usize, x: &Tensor) -> Tensor {
    let factorial: f64 = (1..=n).map(|k| k as f64).product();
    let sign = if n.is_multiple_of(2) { -1.0 } else { 1.0 };
    let is_low = x.le(0.0);
    let upper = zeta(n as i32 + 1, &is_low.where_(1.0 - x, x)) * factorial;
    let (sine, cosine) = turn(x);
    let whole = polynomial(&(cosine / (sine * PI)), &cotangent(n)) * PI.powi(n as i32 + 1);
    let lower = x.eq(x.floor()).where_(f64::INFINITY, whole - &upper * sign);
    let value = is_low.where_(lower, &upper) * sign;
    x.eq(f64::NEG_INFINITY).where_(f64::NAN, value)
}

/// Derivative `n` of the cotangent as a polynomial in it, all of whose coefficients are made positive.
fn cotangent(n: usize) -> Vec<f64> {
    let step = |c: &Vec<f64>| {
        let slope = |i: usize| c.get(i).map_or(0.0, |c| c * i as f64);
        Some((0..=c.len()).map(|i| slope(i + 1) + if i > 0 { slope(i - 1) } else { 0.0 }).collect())
    };
    std::iter::successors(Some(vec![0.0, 1.0]), step).nth(n).expect("goes on for ever")
}
