//! Every operation against PyTorch and NumPy: results, gradients, promotion and printing.
//!
//! `testdata/golden/make.py` writes the cases and their tolerances. A float is right if it is within so many units in
//! the last place (`ulp`: elementwise functions, by what docs/numerics.md promises) or within a distance (`abs`: sums, by
//! the number of terms times the rounding error times their size). Everything else is right if it is equal.

mod data;
mod given;
mod indexing;
/// The methods of tensors.
pub(crate) mod methods;
mod ops;
mod writes;

use data::{Array, tensor};
use kiln::{DType, Device, Tensor};
use serde_json::Value;
use std::sync::LazyLock;

static GOLDEN: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../testdata/golden/golden.json");
    serde_json::from_str(text).expect("JSON")
});

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// How far a result may be from the expected one.
#[derive(Clone, Copy)]
enum Tolerance {
    Ulp(f64),
    Abs(f64),
}

impl Tolerance {
    fn of(case: &Value) -> Tolerance {
        match case["ulp"].as_f64() {
            Some(ulp) => Tolerance::Ulp(ulp),
            None => Tolerance::Abs(case["abs"].as_f64().expect("a tolerance")),
        }
    }

    /// A gradient is a few more such operations, times weights below 2.
    fn of_gradient(case: &Value) -> Tolerance {
        let eps = f32::EPSILON as f64;
        match Tolerance::of(case) {
            Tolerance::Ulp(ulp) => Tolerance::Abs((16.0 + 8.0 * ulp) * eps),
            Tolerance::Abs(abs) => Tolerance::Abs(8.0 * abs + 16.0 * eps),
        }
    }

    fn allows(self, got: f64, want: f64) -> bool {
        if got == want || (got.is_nan() && want.is_nan()) {
            return true;
        }
        let unit = {
            let x = (want.abs() as f32).min(f32::MAX);
            (x as f64 - x.next_down() as f64).max(f32::from_bits(1) as f64)
        };
        (got - want).abs()
            <= match self {
                Tolerance::Ulp(ulp) => ulp * unit,
                // large gradients are off by their size
                Tolerance::Abs(abs) => abs * want.abs().max(1.0),
            }
    }
}

/// What is wrong with a result.
fn wrong(got: &Tensor, want: &Array, tolerance: Tolerance) -> Option<String> {
    if let Some(error) = got.error() {
        return Some(error.to_string());
    }
    if (got.dtype(), got.shape()) != (want.dtype, want.shape.as_slice()) {
        return Some(format!(
            "is {} {:?}, not {} {:?}",
            got.dtype(),
            got.shape(),
            want.dtype,
            want.shape
        ));
    }
    let got = match data::numbers(got) {
        Ok(got) => got,
        Err(error) => return Some(error.to_string()),
    };
    let differs = |i: &usize| match want.dtype.is_float() {
        true => !tolerance.allows(got[*i].float(), want.data[*i].float()),
        false => got[*i] != want.data[*i],
    };
    let at = (0..got.len()).find(differs)?;
    Some(format!("element {at} is {:?}, not {:?}", got[at], want.data[at]))
}

/// Every failure of one case on one device.
fn failures_of(case: &Value, device: &Device) -> Vec<String> {
    let op = case["op"].as_str().expect("an op");
    let inputs: Vec<Tensor> =
        list(&case["inputs"]).iter().map(|v| tensor(&Array::new(v), device)).collect();
    let has_grads = !case["grads"].is_null();
    let floats: Vec<&Tensor> = inputs.iter().filter(|t| t.dtype().is_float()).collect();
    for t in floats.iter().filter(|_| has_grads) {
        t.set_requires_grad(true);
    }
    let output = ops::apply(op, list(&case["args"]), &inputs);
    let name = format!("{op} {} on {device}", case["args"]);
    let shapes: Vec<&[usize]> = inputs.iter().map(Tensor::shape).collect();
    let name = format!("{name} {shapes:?}");
    let expected = Array::new(&case["output"]);
    let mut failures: Vec<String> = wrong(&output, &expected, Tolerance::of(case))
        .into_iter()
        .map(|w| format!("{name}: {w}"))
        .collect();
    if has_grads && failures.is_empty() {
        let weights = tensor(&Array::new(&case["weights"]), device);
        match (&output * weights).sum(..).gradient(floats) {
            Err(error) => failures.push(format!("{name}: {error}")),
            Ok(grads) => {
                let expected = list(&case["grads"]).iter().map(Array::new);
                for (i, (got, want)) in grads.iter().zip(expected).enumerate() {
                    let wrong = wrong(got, &want, Tolerance::of_gradient(case));
                    failures.extend(wrong.map(|w| format!("{name} gradient {i}: {w}")));
                }
            }
        }
    }
    failures
}

/// Checks every `step`-th case.
fn check(device: &Device, step: usize) {
    let cases = list(&GOLDEN["cases"]);
    assert!(cases.len() > 500, "only {} cases", cases.len());
    let failures: Vec<String> =
        cases.iter().step_by(step).flat_map(|case| failures_of(case, device)).collect();
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn cases_on_the_default_device() {
    check(&Device::default_device(), 1);
}

#[test]
fn cases_on_the_interpreter() {
    check(&Device::parse("INTERP").expect("a device"), 5);
}

#[test]
fn promotion_is_that_of_torch() {
    let dtype = |v: &Value| DType::parse(v.as_str().expect("a name")).expect("a dtype");
    for pair in list(&GOLDEN["promotions"]) {
        let (a, b) =
            (Tensor::zeros_with([1], dtype(&pair[0])), Tensor::zeros_with([1], dtype(&pair[1])));
        assert_eq!((&a * &b).dtype(), dtype(&pair[2]), "{} {}", pair[0], pair[1]);
        assert_eq!((b * a).dtype(), dtype(&pair[2]), "{} {}", pair[1], pair[0]);
    }
}

#[test]
fn printing_is_that_of_numpy() {
    let device = Device::default_device();
    for case in list(&GOLDEN["printed"]) {
        let t = tensor(&Array::new(&case["array"]), &device);
        assert_eq!(t.to_string(), case["text"].as_str().expect("a text"), "{:?}", t);
    }
}
