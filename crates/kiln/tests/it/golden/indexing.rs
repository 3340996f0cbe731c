//! Indices of every kind, and the methods that take some: what NumPy and PyTorch give (`testdata/golden/indexing.py`).

use super::data::{Array, numbers, tensor};
use super::given::{Given, indices, method, set};
use super::{Tolerance, list, wrong};
use kiln::{Device, Tensor};
use serde_json::Value;
use std::sync::LazyLock;

static CASES: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../../testdata/golden/indexing.json");
    serde_json::from_str(text).expect("JSON")
});

fn result(case: &Value, device: &Device) -> Tensor {
    let x = tensor(&Array::compact(&case["x"]), device);
    match case["op"].as_str().expect("an op") {
        "get" => x.get(indices(&case["at"], device)),
        "set" => {
            set(&x, indices(&case["at"], device), &Given::new(&case["value"], device));
            x
        }
        op => {
            let args: Vec<Given> =
                list(&case["args"]).iter().map(|v| Given::new(v, device)).collect();
            method(op, &x, &args).unwrap_or_else(|| panic!("no method {op}"))
        }
    }
}

/// What is wrong with a case on a device.
fn failure(case: &Value, device: &Device) -> Option<String> {
    let got = result(case, device);
    let why = match case["out"] == "error" {
        true => numbers(&got).ok().map(|got| format!("is {got:?}, not an error")),
        // means and products round more than once
        false => wrong(&got, &Array::compact(&case["out"]), Tolerance::Ulp(4.0)),
    };
    why.map(|why| format!("{case} on {device}: {why}"))
}

/// Whether what a case needs exists.
fn exists(case: &Value) -> bool {
    match case["op"].as_str() {
        Some("get" | "set") => !list(&case["at"]).iter().any(Value::is_array),
        op => op == Some("masked_fill"),
    }
}

/// Checks every `step`-th case.
fn check(device: &Device, step: usize) {
    let cases = list(&CASES["cases"]);
    assert!(cases.len() > 700, "only {} cases", cases.len());
    let failures: Vec<String> = cases
        .iter()
        .filter(|case| exists(case))
        .step_by(step)
        .filter_map(|case| failure(case, device))
        .collect();
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn indices_on_the_default_device() {
    check(&Device::default_device(), 2);
}

#[test]
fn indices_on_the_interpreter() {
    check(&Device::parse("INTERP").expect("a device"), 1);
}
