//! Gradients beside differences, for tests of functions that somebody wrote.

use crate::error::{Error, Fault, at_caller, refuse};
use crate::{DType, Tensor};

/// How far an element is moved to both sides.
const STEP: f64 = 1e-6;
/// The error that is allowed for any slope, and for each unit of it.
const TOLERANCE: (f64, f64) = (1e-5, 1e-3);

/// Compares the gradients of `f` at `inputs` with differences, for each element of the result and of each input.
///
/// Inputs are F64, as differences lose half of the digits, and `f` is called twice for each of their elements: a few
/// elements show as much as many. Steps, and elements that are equal to the largest beside them, have no slope to find.
///
/// ```
/// let x = kiln::Tensor::from([[0.3, -0.7], [1.9, 2.4]]);
/// kiln::gradcheck(|x| x[0].sin().matmul(&x[0]), [&x])?;
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// Inputs or a result of another dtype than F64; an error carried by the result; a derivative off by more than 1e-5 and a
/// thousandth, with its place and both values.
#[track_caller]
pub fn gradcheck<'a>(
    f: impl Fn(&[Tensor]) -> Tensor,
    inputs: impl IntoIterator<Item = &'a Tensor>,
) -> Result<(), Error> {
    let inputs: Vec<&Tensor> = inputs.into_iter().collect();
    at_caller("gradcheck", check(&f, &inputs))
}

/// As [`gradcheck`], for the gradients of the gradients of `f`.
///
/// ```
/// let x = kiln::Tensor::from([0.3, -0.7]);
/// kiln::gradgradcheck(|x| x[0].sin() * x[0].exp(), [&x])?;
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// As [`gradcheck`].
#[track_caller]
pub fn gradgradcheck<'a>(
    f: impl Fn(&[Tensor]) -> Tensor,
    inputs: impl IntoIterator<Item = &'a Tensor>,
) -> Result<(), Error> {
    let mut inputs: Vec<&Tensor> = inputs.into_iter().collect();
    let result = at_caller("gradgradcheck", marked(&inputs).map(|x| f(&x)))?;
    // the weights of the result are an input too: the gradient is linear in them
    let weights = (Tensor::arange(result.numel()).cast(DType::F64) * 1.7 + 0.6).sin();
    let weights = weights.reshape(result.shape());
    inputs.push(&weights);
    let slopes =
        |x: &[Tensor]| slopes(&f, x).unwrap_or_else(|why| Tensor::broken(why.at("gradgradcheck")));
    at_caller("gradgradcheck", check(&slopes, &inputs))
}

/// The gradients of `f` for all inputs but the last one, which weighs the result, in one row.
fn slopes(f: &impl Fn(&[Tensor]) -> Tensor, x: &[Tensor]) -> Result<Tensor, Fault> {
    let [inputs @ .., weights] = x else { return refuse!("wants an input") };
    let weighed = (f(inputs) * weights).sum(..);
    let targets: Vec<&Tensor> = inputs.iter().collect();
    let grads = weighed.gradients_if_read(&targets, None)?.into_iter().zip(inputs);
    let flat = grads.map(|(grad, x)| grad.unwrap_or_else(|| x.zeros_like()).flatten());
    Ok(Tensor::cat(flat.collect::<Vec<_>>(), 0))
}

/// New tensors with the values of the inputs, that want gradients.
fn marked(inputs: &[&Tensor]) -> Result<Vec<Tensor>, Fault> {
    let of = |(i, x): (usize, &&Tensor)| match (x.error(), x.dtype()) {
        (Some(error), _) => Err(error.into()),
        (None, DType::F64) => Ok(x.detach().copy().set_requires_grad(true)),
        (None, dtype) => refuse!("input {i} is {dtype}: differences want F64"),
    };
    inputs.iter().enumerate().map(of).collect()
}

fn check(f: &dyn Fn(&[Tensor]) -> Tensor, inputs: &[&Tensor]) -> Result<(), Fault> {
    let x = marked(inputs)?;
    let result = f(&x);
    if let Some(error) = result.error() {
        return Err(error.into());
    }
    if result.dtype() != DType::F64 {
        return refuse!("the result is {}: differences want F64", result.dtype());
    }
    (0..x.len()).try_for_each(|i| check_input(f, &x, i, &result))
}

/// Compares the derivatives by input `i`.
fn check_input(
    f: &dyn Fn(&[Tensor]) -> Tensor,
    x: &[Tensor],
    i: usize,
    result: &Tensor,
) -> Result<(), Fault> {
    let slopes = result.derivatives(&x[i], false)?.read_as::<f64>()?;
    let values = x[i].detach().read_as::<f64>()?;
    for at in 0..values.len() {
        let [more, less] = [STEP, -STEP].map(|by| moved(f, x, i, &values, at, by));
        for (k, (more, less)) in more?.into_iter().zip(less?).enumerate() {
            let (slope, difference) = (slopes[k * values.len() + at], (more - less) / (2.0 * STEP));
            if is_off(slope, difference) {
                return refuse!(
                    "result {k} by element {at} of input {i}: the gradient is {slope}, differences give {difference}"
                );
            }
        }
    }
    Ok(())
}

fn is_off(slope: f64, difference: f64) -> bool {
    let allowed = TOLERANCE.0 + TOLERANCE.1 * difference.abs();
    let same = slope == difference || slope.is_nan() && difference.is_nan();
    !(same || (slope - difference).abs() <= allowed)
}

/// The result where an element of input `i` is moved.
fn moved(
    f: &dyn Fn(&[Tensor]) -> Tensor,
    x: &[Tensor],
    i: usize,
    values: &[f64],
    at: usize,
    by: f64,
) -> Result<Vec<f64>, Fault> {
    let mut values = values.to_vec();
    values[at] += by;
    let mut x: Vec<Tensor> = x.to_vec();
    let there = Tensor::from_vec_on(values, x[i].shape(), x[i].device());
    // as the others are, so that it is the same graph
    x[i] = there.set_requires_grad(true);
    f(&x).read_as::<f64>()
}
