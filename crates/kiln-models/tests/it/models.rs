//! Each model against PyTorch in f64 (testdata/golden/models.py), from the same weights: outputs at batches of 1, 2 and 8,
//! and what a training step changes.

use kiln::nn::{Module, train};
use kiln::optim::SGD;
use kiln::{DType, Error, Tensor};
use kiln_models::cases::{Case, NAMES, Size};
use kiln_models::formula::numbers;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static GOLDEN: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../testdata/golden/models.json");
    serde_json::from_str(text).expect("JSON")
});

/// A tensor's norm, its product with the formula's numbers, and its first element.
type Facts = [f64; 3];

fn facts(name: &str, values: &[f64]) -> Facts {
    let product = values.iter().zip(numbers(name, values.len())).map(|(a, b)| a * b).sum();
    [values.iter().map(|x| x * x).sum::<f64>().sqrt(), product, values[0]]
}

fn expected(value: &Value) -> Facts {
    [0, 1, 2].map(|i| value[i].as_f64().expect("a number"))
}

/// How far facts are off at most, by the norm.
fn off(expected: Facts, found: Facts) -> f64 {
    let norm = if expected[0] == 0.0 { 1.0 } else { expected[0] };
    expected.iter().zip(found).fold(0.0, |worst, (a, b)| (a - b).abs().max(worst)) / norm
}

fn values(tensor: &Tensor) -> Result<Vec<f64>, Error> {
    tensor.cast(DType::F64).to_vec::<f64>()
}

fn case(name: &str, dtype: DType) -> Case {
    Case::of(name, Size::Small, dtype).expect("fits into memory").expect("a name")
}

/// How far outputs are off at most, of all samples.
fn outputs_off(name: &str, dtype: DType, batches: &[usize]) -> Result<f64, Error> {
    let (case, mut worst) = (case(name, dtype), 0.0f64);
    for batch in batches {
        let right =
            &GOLDEN[name]["outputs"][[1, 2, 8].iter().position(|b| b == batch).expect("one")];
        let output = values(&case.output(&case.inputs(*batch)))?;
        for (i, sample) in output.chunks(output.len() / batch).enumerate() {
            worst = worst.max(off(expected(&right[i]), facts("output", sample)));
        }
    }
    Ok(worst)
}

/// What a training step leaves, and how far it is off.
struct Step {
    loss: f64,
    changes: f64,
    running: f64,
}

fn all_values(module: &dyn Module) -> Result<BTreeMap<String, Vec<f64>>, Error> {
    let state = module.state_dict();
    state.iter().map(|(name, tensor)| Ok((name.clone(), values(tensor)?))).collect()
}

fn step(name: &str, dtype: DType) -> Result<Step, Error> {
    let (case, golden) = (case(name, dtype), &GOLDEN[name]["step"]);
    let before = all_values(case.module())?;
    let optimizer = SGD::new(case.module().parameters(), 0.1);
    let inputs = case.inputs(2);
    let loss = train(|| case.loss(&inputs));
    loss.backward()?;
    optimizer.step()?;
    let right = golden["loss"].as_f64().expect("a number");
    let loss = (values(&loss)?[0] - right).abs() / right;
    let after = all_values(case.module())?;
    let mut step = Step { loss, changes: 0.0, running: 0.0 };
    for (name, right) in golden["changes"].as_object().expect("an object") {
        let change: Vec<f64> = after[name].iter().zip(&before[name]).map(|(a, b)| a - b).collect();
        step.changes = step.changes.max(off(expected(right), facts(name, &change)));
    }
    for (name, right) in golden["running"].as_object().expect("an object") {
        step.running = step.running.max(off(expected(right), facts(name, &after[name])));
    }
    Ok(step)
}

/// How far PyTorch itself is off in a dtype.
fn theirs(name: &str, dtype: &str, what: &str) -> f64 {
    GOLDEN[name]["off"][dtype][what].as_f64().expect("a number")
}

/// Within four times what PyTorch's own f32 is off: other orders of the same sums, through as many layers. No less than a
/// few roundings, as PyTorch may be lucky.
fn within(name: &str, dtype: &str, what: &str, ours: f64, epsilon: f64) {
    let limit = 4.0 * theirs(name, dtype, what).max(4.0 * epsilon);
    assert!(ours <= limit, "{name}, {what} in {dtype}: {ours:e}, more than {limit:e}");
}

const F32: f64 = f32::EPSILON as f64;
const BF16: f64 = 1.0 / 256.0;

fn check(name: &str) {
    let outputs = outputs_off(name, DType::F32, &[1, 2, 8]).expect("computes");
    within(name, "float32", "outputs", outputs, F32);
    let step = step(name, DType::F32).expect("computes");
    within(name, "float32", "loss", step.loss, F32);
    within(name, "float32", "changes", step.changes, F32);
    assert!(step.running <= 16.0 * F32, "{name}: statistics {:e}", step.running);
}

macro_rules! models {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    )* };
}
models!(resnet50 mobilenet unet vit gpt2 llama moe bert whisper lstm denoiser graph);

/// The same sums with each value rounded to 8 bits on the way, which PyTorch does, too.
#[test]
#[cfg_attr(debug_assertions, ignore = "a minute: run it with --release or --ignored")]
fn outputs_in_bf16() {
    for name in NAMES {
        let outputs = outputs_off(name, DType::BF16, &[2]).expect("computes");
        within(name, "bfloat16", "outputs", outputs, BF16);
    }
}

/// In f64 there is nothing to explain but roundings of f64 in as many sums, and the twelve digits of the golden file.
#[test]
#[cfg_attr(debug_assertions, ignore = "a minute: run it with --release or --ignored")]
fn all_in_f64() {
    for name in NAMES {
        let outputs = outputs_off(name, DType::F64, &[2]).expect("computes");
        assert!(outputs <= 1e-11, "{name}: {outputs:e}");
        let step = step(name, DType::F64).expect("computes");
        let worst = step.loss.max(step.changes).max(step.running);
        assert!(worst <= 1e-10, "{name}: {worst:e}");
    }
}
