//! Indices of every kind, and the methods that take some: what NumPy and PyTorch give (`testdata/golden/indexing.py`).

use super::data::{Array, numbers};
use super::given::{Given, Maker, method, set};
use super::{Tolerance, list, wrong};
use kiln::{Device, Tensor};
use serde_json::Value;
use std::sync::LazyLock;

static CASES: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../../testdata/golden/indexing.json");
    serde_json::from_str(text).expect("JSON")
});

fn result(case: &Value, maker: Maker<'_>) -> Tensor {
    let x = maker.tensor(&case["x"]);
    match case["op"].as_str().expect("an op") {
        "get" => x.get(maker.indices(&case["at"])),
        "set" => {
            set(&x, maker.indices(&case["at"]), &maker.given(&case["value"]));
            x
        }
        op => {
            let args: Vec<Given> = list(&case["args"]).iter().map(|v| maker.given(v)).collect();
            method(op, &x, &args).unwrap_or_else(|| panic!("no method {op}"))
        }
    }
}

/// What is wrong with a case.
fn failure(case: &Value, maker: Maker<'_>) -> Option<String> {
    let got = result(case, maker);
    let why = match case["out"].as_str() {
        Some(_) => numbers(&got).ok().map(|got| format!("is {got:?}, not an error")),
        // means and products round more than once
        None => wrong(&got, &Array::compact(&case["out"]), Tolerance::Ulp(4.0)),
    };
    why.map(|why| format!("{case} by {maker:?}: {why}"))
}

fn check(maker: Maker<'_>) {
    let cases = list(&CASES["cases"]);
    assert!(cases.len() > 700, "only {} cases", cases.len());
    let failures: Vec<String> = cases.iter().filter_map(|case| failure(case, maker)).collect();
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn indices_on_the_default_device() {
    check(Maker { device: &Device::default_device(), lazy: false });
}

#[test]
fn lazy_indices_on_the_default_device() {
    check(Maker { device: &Device::default_device(), lazy: true });
}

#[test]
fn indices_on_the_interpreter() {
    check(Maker { device: &Device::parse("INTERP").expect("a device"), lazy: false });
}

#[test]
fn lazy_indices_on_the_interpreter() {
    check(Maker { device: &Device::parse("INTERP").expect("a device"), lazy: true });
}
