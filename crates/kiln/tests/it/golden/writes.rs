//! Programs that write to parts of tensors: values and gradients as PyTorch has them (`testdata/golden/writes.py`).

use super::data::Array;
use super::given::{Given, Maker, assign, in_place, method, set};
use super::{Tolerance, list, ops, wrong};
use kiln::{Device, Tensor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static CASES: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../../testdata/golden/writes.json");
    serde_json::from_str(text).expect("JSON")
});

/// Numbers are small, sums short.
const TOLERANCE: Tolerance = Tolerance::Abs(1e-6);

/// What a program has computed, by name.
struct Program<'a> {
    tensors: BTreeMap<&'a str, Tensor>,
    maker: Maker<'a>,
}

impl<'a> Program<'a> {
    fn new(leaves: &'a Value, maker: Maker<'a>) -> Program<'a> {
        let leaves = leaves.as_object().expect("leaves");
        let leaf = |(name, array): (&'a String, &Value)| {
            let leaf = maker.tensor(array).set_requires_grad(true);
            (name.as_str(), leaf)
        };
        Program { tensors: leaves.iter().map(leaf).collect(), maker }
    }

    /// The tensor of this name, or the argument itself.
    fn given(&self, value: &Value) -> Given {
        match value.as_str().and_then(|name| self.tensors.get(name)) {
            Some(t) => Given::Tensor(t.clone()),
            None => self.maker.given(value),
        }
    }

    /// Runs `[op, target, ..]` if it is a write, or `[op, result, source, ..]`.
    fn step(&mut self, step: &'a [Value]) {
        let [op, target, rest @ ..] = step else { panic!("no step: {step:?}") };
        let (op, target) = (op.as_str().expect("an op"), target.as_str().expect("a name"));
        match (op, rest) {
            ("set", [at, value]) => {
                set(&self.tensors[target], self.maker.indices(at), &self.given(value));
            }
            ("assign", [value]) => assign(&self.tensors[target], &self.given(value)),
            ("add_assign" | "mul_assign", [value]) => {
                in_place(op, &self.tensors[target], &self.given(value));
            }
            (op, [source, args @ ..]) => {
                let result =
                    self.compute(op, self.tensors[source.as_str().expect("a name")].clone(), args);
                self.tensors.insert(target, result);
            }
            _ => panic!("no step: {step:?}"),
        }
    }

    fn compute(&self, op: &str, x: Tensor, args: &[Value]) -> Tensor {
        match (op, args) {
            ("copy", []) => return x.copy(),
            ("detach", []) => return x.detach(),
            ("get", [at]) => return x.get(self.maker.indices(at)),
            _ => {}
        }
        // a list of axes or lengths
        let is_plain = |v: &&Value| v.is_array() && !v[0].is_string();
        if let Some(axes) = args.iter().find(is_plain) {
            return ops::apply(op, std::slice::from_ref(axes), &[x]);
        }
        let args: Vec<Given> = args.iter().map(|v| self.given(v)).collect();
        method(op, &x, &args).unwrap_or_else(|| ops::apply(op, &[], &[x]))
    }
}

/// Everything that is wrong with a case on a device.
fn failures(case: &Value, maker: Maker<'_>) -> Vec<String> {
    let mut program = Program::new(&case["leaves"], maker);
    for step in list(&case["steps"]) {
        program.step(list(step));
    }
    let y = &program.tensors[case["out"].as_str().expect("a name")];
    let mut whys: Vec<String> =
        wrong(y, &Array::compact(&case["y"]), TOLERANCE).into_iter().collect();
    let weights = maker.tensor(&case["weights"]);
    let loss = (y * weights).sum(..);
    for (name, want) in case["grads"].as_object().expect("gradients") {
        let want = Array::compact(want);
        let why = match loss.gradient([&program.tensors[name.as_str()]]) {
            Ok(grads) => wrong(&grads[0], &want, TOLERANCE),
            // what is overwritten is not read
            Err(_) if want.data.iter().all(|n| n.float() == 0.0) => None,
            Err(error) => Some(error.to_string()),
        };
        whys.extend(why.map(|why| format!("gradient of {name} {why}")));
    }
    let name = &case["name"];
    whys.into_iter().map(|why| format!("{name} by {maker:?}: {why}\n  {}", case["steps"])).collect()
}

fn check(maker: Maker<'_>) {
    let cases = list(&CASES["cases"]);
    assert!(cases.len() > 140, "only {} cases", cases.len());
    let failures: Vec<String> = cases.iter().flat_map(|case| failures(case, maker)).collect();
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn gradients_of_writes_on_the_default_device() {
    check(Maker { device: &Device::default_device(), lazy: true });
}

#[test]
fn gradients_of_writes_on_the_interpreter() {
    check(Maker { device: &Device::parse("INTERP").expect("a device"), lazy: false });
}
