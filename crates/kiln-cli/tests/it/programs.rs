//! Records to look at: of programs that run, and two that are written by hand.

use crate::run::{Folder, kiln};
use ::kiln::nn::{Embedding, LayerNorm, Linear};
use ::kiln::{Tensor, s};
use serde_json::json;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// A source file that the strange record names.
pub(crate) const REAL_FILE: &str = "crates/kiln-cli/tests/it/main.rs";

/// What the child does: runs one program, which `VIZ` records.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn child() {
    match std::env::var("TEST_PROGRAM").expect("set by the parent").as_str() {
        "decode" => decode(),
        _ => writes(),
    }
}

/// Records a program.
pub(crate) fn record(program: &str, path: &Path) {
    if program == "digits" {
        let text = path.to_str().unwrap();
        let run = kiln(
            &Folder::new(),
            "digits --limit 32 --batch 16",
            &[("VIZ", text), ("KILN_CACHE", "none")],
        );
        return assert!(run.ok, "{}", run.err);
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "programs::child", "--ignored"]).env("TEST_PROGRAM", program);
    command.env("VIZ_CODE", "1");
    let output = command.env("VIZ", path).env("KILN_CACHE", "none").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A loop of writes that becomes one kernel, one that reads between, and a copy to another device.
fn writes() {
    let all = Tensor::zeros([64]);
    for i in 0..64 {
        all.set(s![i], i as f32);
    }
    assert_eq!(all.sum(..).item::<f32>().unwrap(), 2016.0);
    let cache = Tensor::zeros([8, 16]);
    for i in 0..4 {
        cache.set(s![i], Tensor::full([16], i as f32).exp());
        cache.get(s![..i + 1]).sum(0).realize().unwrap();
    }
    Tensor::arange(16).realize().unwrap();
    let copied = (Tensor::arange(100) * 3).to("CPU:1") + 1;
    assert_eq!(copied.sum(..).item::<i32>().unwrap(), 14950);
}

/// Few tokens of a small model of GPT-2's form, with a cache of keys and values.
fn decode() {
    ::kiln::manual_seed(0);
    let (words, places) = (Embedding::new(32, 16), Embedding::new(8, 16));
    let [query, key, value, out] = std::array::from_fn(|_| Linear::new(16, 16));
    let (up, down, norm) = (Linear::new(16, 64), Linear::new(64, 16), LayerNorm::new([16]));
    let [keys, values] = std::array::from_fn(|_| Tensor::zeros([8, 16]));
    let weights = [&words.weight, &places.weight];
    ::kiln::realize(weights).unwrap();
    let mut token = 1;
    for p in 0..4 {
        let row = |table: &Embedding, at: i32| table.forward(&Tensor::from([at]));
        let x = row(&words, token) + row(&places, p);
        let inner = norm.forward(&x);
        keys.set(s![p..p + 1], key.forward(&inner));
        values.set(s![p..p + 1], value.forward(&inner));
        let [k, v] = [&keys, &values].map(|all| all.get(s![..p + 1]));
        let scores = (query.forward(&inner).matmul(&k.permute([1, 0])) / 4.0).softmax(-1);
        let x = x + out.forward(&scores.matmul(&v));
        let x = &x + down.forward(&up.forward(&norm.forward(&x)).gelu());
        let logits = norm.forward(&x).matmul(&words.weight.permute([1, 0]));
        token = logits.argmax(-1).to_vec::<i32>().unwrap()[0];
    }
}

/// A record in which each name is HTML.
pub(crate) fn strange(path: &Path) {
    let bad = "<img src=x onerror=window.broken=1>";
    let by = |method: &str| format!("{method}{bad} src/{bad}.rs:3");
    let node = |id: u32, label: String, sources: &[u32]| json!({"node": {"id": id, "label": label, "shape": [4], "sources": sources, "by": by("sum")}});
    let lines = [
        json!({"kiln": {"format": 3, "program": bad}}),
        json!({"opened": {"device": bad, "backend": bad, "compiler": bad, "speed": null}}),
        json!({"thread": {"thread": 0, "name": bad}}),
        node(0, format!("param f32 slot=0 {bad}"), &[]),
        node(1, format!("mul f32 {bad}"), &[0, 0]),
        node(2, format!("store {bad}"), &[0, 0, 1]),
        json!({"pass": {"thread": 0, "stage": "schedule", "pass": bad, "before": [1], "after": [2]}}),
        json!({"rules": {"thread": 0, "set": bad, "roots": [1]}}),
        json!({"rewrite": {"thread": 0, "rule": bad, "file": REAL_FILE, "line": 1, "before": 0, "after": 1}}),
        json!({"done": {"thread": 0, "roots": [1]}}),
        json!({"decision": {"thread": 0, "node": 1, "about": format!("reduce [4] {}", by("sum")),
            "alternatives": [[bad, 1.0], ["memory", 2.0]], "unit": bad, "chosen": 0, "note": bad}}),
        json!({"pass": {"thread": 0, "stage": "schedule", "pass": bad, "before": [1], "after": [2]}}),
        json!({"scheduled": {"thread": 0, "device": bad, "key": "0", "at": 1.0, "took": 1.0, "count": 2, "roots": [2],
            "memory": [0, 0], "temporaries": [],
            "kernels": [{"kernel": "a", "arguments": [[format!("output {bad}"), 16]], "methods": [by("sum")]},
                {"kernel": "a", "arguments": [[format!("output {bad}"), 16]], "methods": [by("sum")]}]}}),
        json!({"pass": {"thread": 0, "stage": "optimize", "pass": bad, "before": [2], "after": [2]}}),
        json!({"compiled": {"thread": 0, "at": 3.0, "took": 0.5, "name": bad, "scheduled": "a", "optimized": "b", "graphs": [2, 2],
            "options": [bad], "origin": bad, "source": bad, "code": bad, "lines": [1], "work": [8, 16]}}),
        json!({"alloc": {"device": bad, "block": 1, "bytes": 64, "holder": by("sum"), "reused": false, "at": 3.8, "took": 0.1}}),
        json!({"site": {"site": 0, "kernel": "b", "name": bad, "device": bad, "work": [8, 16], "methods": [by("sum")]}}),
        json!({"launch": {"thread": 0, "site": 0, "at": 4.0, "took": 1.0, "memory": 64}}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(path, text).unwrap();
}

/// A record of one graph of so many nodes, in layers of a hundred, made by twenty lines.
pub(crate) fn large(path: &Path, count: usize) {
    let mut text = String::from("{\"kiln\":{\"format\":3,\"program\":\"large\"}}\n");
    let mut last = 1u64;
    for id in 0..count {
        last = last.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let near = (id % 100 + (last >> 33) as usize % 9 + 96) % 100;
        let above = (id / 100).checked_sub(1).map(|layer| layer * 100);
        let sources: Vec<usize> =
            above.iter().flat_map(|row| [row + id % 100, row + near]).collect();
        let by = format!("add src/model.rs:{}", 1 + id / 100 % 20);
        let node = json!({"node": {"id": id, "label": "add f32 [8]", "shape": [8], "sources": sources, "by": by}});
        writeln!(text, "{node}").unwrap();
    }
    let roots: Vec<usize> = (count - 100..count).collect();
    let schedule = json!({"scheduled": {"thread": 0, "device": "CPU", "key": "0", "at": 2.0, "took": 1.0, "count": 0, "roots": roots, "memory": [0, 0],
        "temporaries": [], "kernels": []}});
    writeln!(text, "{schedule}").unwrap();
    std::fs::write(path, text).unwrap();
}
