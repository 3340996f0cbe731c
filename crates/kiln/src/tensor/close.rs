//! Tensors in tests: which elements differ, and by how much.

use super::Tensor;
use crate::DType;
use crate::element::{Operand, Value};
use crate::error::{Fault, refuse};

/// Panics if two tensors differ: in shape, or in an element by more than rounding.
///
/// Both sides are tensors, numbers, or arrays and `Vec`s of numbers. They meet in one dtype. An element `x` may differ
/// from the expected `y` by `atol + rtol * |y|`; where these are not given they are those of PyTorch's `assert_close`: 1.3e-6
/// and 1e-5 for F32, 1e-7 twice for F64, more for narrower floats, and none for integers. NaN is close to nothing.
///
/// ```
/// use kiln::{Tensor, assert_close};
/// let t = Tensor::from([1.0f32, 4.0]).sqrt();
/// assert_close!(&t, [1.0, 2.0]);
/// assert_close!(&t, [1.1, 1.9], rtol = 0.0, atol = 0.2);
/// ```
#[macro_export]
macro_rules! assert_close {
    ($got:expr, $want:expr $(,)?) => {
        $crate::testing::assert_close($got, $want, None)
    };
    ($got:expr, $want:expr, rtol = $rtol:expr, atol = $atol:expr $(,)?) => {
        $crate::testing::assert_close($got, $want, Some(($rtol, $atol)))
    };
}

/// What [`assert_close!`](crate::assert_close) expands to.
#[track_caller]
pub fn assert_close(got: impl Operand, want: impl Operand, tolerance: Option<(f64, f64)>) {
    if let Err(fault) = compare(got.into_value(), want.into_value(), tolerance) {
        panic!("{fault}");
    }
}

fn compare(got: Value, want: Value, tolerance: Option<(f64, f64)>) -> Result<(), Fault> {
    let dtype = got.common_dtype(&want);
    let (got, want) = (tensor(got, dtype), tensor(want, dtype));
    Tensor::all_valid([&got, &want])?;
    if got.shape() != want.shape() {
        return refuse!("the shape is {:?}, not {:?}", got.shape(), want.shape());
    }
    let (got, shape, want) = (numbers(&got)?, got.shape().to_vec(), numbers(&want)?);
    let (rtol, atol) = tolerance.unwrap_or_else(|| default_tolerance(dtype));
    let close = |x: f64, y: f64| x == y || (x - y).abs() <= atol + rtol * y.abs() && y.is_finite();
    let differs: Vec<usize> = (0..got.len()).filter(|&i| !close(got[i], want[i])).collect();
    match differs.first() {
        None => Ok(()),
        Some(&i) => refuse!(
            "element {:?} is {}, not {}; {} of {} differ by more than {atol} + {rtol} * |expected|",
            place(i, &shape),
            got[i],
            want[i],
            differs.len(),
            got.len()
        ),
    }
}

/// A value as a tensor of a dtype.
fn tensor(value: Value, dtype: DType) -> Tensor {
    match value {
        Value::Tensor(t) => t.cast(dtype),
        Value::Scalar(c, _) => Tensor::full_with((), c.as_f64(), dtype),
    }
}

fn numbers(t: &Tensor) -> Result<Vec<f64>, Fault> {
    t.cast(DType::F64).read_as::<f64>()
}

/// Relative and absolute, as PyTorch's `assert_close` has them.
fn default_tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (1e-3, 1e-5),
        DType::BF16 => (1.6e-2, 1e-5),
        DType::F32 => (1.3e-6, 1e-5),
        DType::F64 => (1e-7, 1e-7),
        _ => (0.0, 0.0),
    }
}

/// The index of the element at a row-major position.
fn place(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut place = vec![0; shape.len()];
    for (i, &n) in shape.iter().enumerate().rev() {
        (place[i], at) = (at % n, at / n);
    }
    place
}
