//! ResNet-18 against PyTorch in f64 (testdata/golden/resnet.py): inference, gradients, running statistics, and the loss
//! after a step. A smaller one every day; that of 224 x 224 with `cargo test -p kiln --test it resnet -- --ignored`, about a
//! minute.

#[path = "../../benches/resnet/model.rs"]
mod model;

use kiln::nn::{Module, train};
use kiln::optim::SGD;
use kiln::{Error, Tensor};
use model::{ResNet, formula, images, labels};
use serde_json::Value;
use std::sync::LazyLock;

static GOLDEN: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../testdata/golden/resnet.json");
    serde_json::from_str(text).expect("JSON")
});

struct Case(&'static Value);

impl Case {
    fn new(name: &str) -> Case {
        Case(&GOLDEN[name])
    }

    fn size(&self, name: &str) -> usize {
        self.0[name].as_u64().expect("a number") as usize
    }

    fn model(&self) -> ResNet {
        ResNet::new(self.size("width"), self.size("classes")).filled()
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn largest(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |a, b| a.max(b.abs()))
}

/// How far logits are off at most, by the largest of their batch.
fn logits_off(case: &Case) -> Result<f64, Error> {
    let (model, mut worst) = (case.model(), 0.0f64);
    let batches = numbers(&case.0["batches"]);
    for (batch, expected) in batches.iter().zip(case.0["logits"].as_array().expect("a list")) {
        let logits = model.forward(&images(*batch as usize, case.size("size")));
        let rows = logits.to_vec::<f32>()?;
        let rows = rows.chunks(case.size("classes"));
        for (row, expected) in rows.zip(expected.as_array().expect("rows")) {
            let expected = numbers(expected);
            let off = expected
                .iter()
                .zip(row.iter().step_by(case.size("every")))
                .map(|(e, x)| e - f64::from(*x));
            worst = worst.max(largest(&off.collect::<Vec<_>>()) / largest(&expected));
        }
    }
    Ok(worst)
}

/// A tensor's norm, its product with the formula's numbers, and its first element.
fn facts(name: &str, tensor: &Tensor) -> Result<[f64; 3], Error> {
    let x: Vec<f64> = tensor.to_vec::<f32>()?.iter().map(|x| f64::from(*x)).collect();
    let product = x.iter().zip(formula(name, x.len())).map(|(a, b)| a * b).sum();
    Ok([x.iter().map(|x| x * x).sum::<f64>().sqrt(), product, x[0]])
}

/// How far a list of facts is off at most, by the norm, which is the first.
fn facts_off(expected: &Value, name: &str, tensor: &Tensor) -> Result<f64, Error> {
    let (expected, found) = (numbers(expected), facts(name, tensor)?);
    let off: Vec<f64> = expected.iter().zip(found).map(|(a, b)| a - b).collect();
    Ok(largest(&off) / expected[0])
}

/// How far what a step leaves is off at most: gradients, running statistics, and the losses before and after it.
fn step_off(case: &Case) -> Result<[f64; 3], Error> {
    let (model, n, classes) = (case.model(), case.size("train"), case.size("classes"));
    let (x, y) = (images(n, case.size("size")), labels(n, classes));
    let optimizer = SGD::new(model.parameters(), 0.01).momentum(0.9).weight_decay(5e-4);
    let step = &case.0["step"];
    let [mut grads, mut running, mut losses] = [0.0f64; 3];
    for (i, expected) in numbers(&step["losses"]).into_iter().enumerate() {
        let loss = train(|| model.forward(&x).cross_entropy(&y));
        optimizer.zero_grad();
        loss.backward()?;
        let state = model.state_dict();
        if i == 0 {
            let of = |t: &Tensor| t.grad().unwrap_or_else(|| t.clone());
            let all: Vec<Tensor> = state.values().map(of).chain([loss.clone()]).collect();
            kiln::realize(&all)?;
        }
        for (name, tensor) in state.iter().filter(|_| i == 0) {
            if let Some(grad) = tensor.grad() {
                grads = grads.max(facts_off(&step["grads"][name], name, &grad)?);
            } else if tensor.dtype().is_float() {
                running = running.max(facts_off(&step["running"][name], name, tensor)?);
            }
        }
        optimizer.step()?;
        losses = losses.max((f64::from(loss.item::<f32>()?) - expected).abs() / expected);
    }
    Ok([grads, running, losses])
}

/// Within four times what PyTorch's own f32 is off: other orders of the same sums, through as many layers. An element that a
/// relu lets pass in one order only shows in gradients, not in logits.
fn check(name: &str) {
    let case = Case::new(name);
    let theirs = &case.0["float32"];
    let within = |what: &str, ours: f64, theirs: f64| {
        assert!(ours <= 4.0 * theirs, "{name}, {what}: {ours:e}, PyTorch in f32 {theirs:e}");
    };
    let logits = logits_off(&case).expect("computes");
    assert!(logits <= 1e-5, "{name}: {logits:e}");
    let [grads, running, losses] = step_off(&case).expect("computes");
    within("gradients", grads, theirs["grads"].as_f64().expect("a number"));
    within("losses", losses, largest(&numbers(&theirs["losses"])));
    assert!(running <= 1e-5, "{name}: {running:e}");
}

#[test]
fn a_small_one_is_as_in_pytorch() {
    check("small");
}

#[test]
#[ignore = "a minute"]
fn images_of_224_are_as_in_pytorch() {
    check("full");
}
