//! Random expressions over the methods. `testdata/golden/expressions.py` writes them, this computes them, and the script
//! judges every step. Some steps are cases of a file; each names the subject whose method it is.
//!
//! A line is `{"x": inputs, "s": steps}`. A step has a subject, a method, arguments, and the numbers of its inputs:
//! values are numbered as they come, inputs first. The answer is `{"y": results of each step}`, or `{"e": why}`.

use super::super::data::{Array, Number, numbers, tensor};
use super::super::list;
pub(super) use super::basics::call;
use super::calls::Args;
use kiln::{Device, Tensor};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One in so many expressions is also computed as a whole.
const WHOLE: usize = 8;

fn number(n: Number) -> Value {
    match n {
        Number::Int(i) => json!(i as i64),
        Number::Float(f) if !f.is_finite() => json!(f.to_string()),
        Number::Float(f) => json!(f),
    }
}

fn packed(t: &Tensor) -> Result<Value, String> {
    if let Some(error) = t.error() {
        return Err(error.to_string());
    }
    let all = numbers(t).map_err(|e| e.to_string())?;
    let data: Vec<Value> = all.into_iter().map(number).collect();
    Ok(json!([t.dtype().to_string(), t.shape(), data]))
}

/// The results of the steps; each is computed alone, or all at once.
fn results(line: &Value, at_once: bool) -> Result<Vec<Vec<Tensor>>, String> {
    let device = Device::default_device();
    let mut values: Vec<Tensor> =
        list(&line["x"]).iter().map(|v| tensor(&Array::compact(v), &device)).collect();
    let mut all = Vec::new();
    for step in list(&line["s"]) {
        let inputs = list(&step["i"]).iter().map(|i| i.as_u64().expect("a number") as usize);
        let inputs: Vec<Tensor> = inputs.map(|i| values[i].clone()).collect();
        let name = step["m"].as_str().expect("a method");
        let subject = step["k"].as_str().expect("a subject");
        let call = super::call_of(subject).ok_or_else(|| format!("no subject {subject}"))?;
        let outputs = call(name, Args(list(&step["a"])), &inputs).0;
        if !at_once {
            kiln::realize(&outputs).map_err(|e| format!("{name}: {e}"))?;
        }
        values.extend(outputs.iter().cloned());
        all.push(outputs);
    }
    Ok(all)
}

fn answer(line: &Value, at_once: bool) -> Value {
    let computed = catch_unwind(AssertUnwindSafe(|| -> Result<Value, String> {
        let all = results(line, at_once)?;
        let pack = |outputs: &Vec<Tensor>| outputs.iter().map(packed).collect::<Result<_, _>>();
        let last = &all[all.len() - 1..];
        let shown = if at_once { last } else { &all };
        Ok(Value::Array(shown.iter().map(pack).collect::<Result<Vec<Value>, _>>()?))
    }));
    match computed {
        Ok(Ok(y)) => json!({ "y": y }),
        Ok(Err(why)) => json!({ "e": why }),
        Err(_) => json!({ "e": "a panic" }),
    }
}

#[test]
#[ignore = "computes the file that KILN_EXPRESSIONS names: testdata/golden/expressions.py"]
fn expressions_of_a_file() {
    let path = std::env::var("KILN_EXPRESSIONS").expect("KILN_EXPRESSIONS names a file");
    let text = fs::read_to_string(&path).expect("the file of expressions");
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let mut said = answer(&line, false);
        if i % WHOLE == 0 {
            said["w"] = answer(&line, true);
        }
        writeln!(out, "{said}").expect("a string grows");
    }
    fs::write(format!("{path}.out"), out).expect("the answers");
}
