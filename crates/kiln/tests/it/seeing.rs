//! What DEBUG and its like show: lines of kernels and who made them, graphs that parse back, rule statistics, bug
//! reports.

use kiln::nn::{Conv2d, Linear, Module};
use kiln::optim::Adam;
use kiln::{Tensor, measure, testing};
use kiln_ir::text;
use std::collections::HashSet;
use std::process::Command;

/// What the child does: runs one small program.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn child() {
    let program = std::env::var("TEST_PROGRAM").expect("set by the parent");
    let x = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let out = match program.as_str() {
        "add" => Tensor::from([1, 2, 3]) + 2,
        "add twice" => {
            (&x + 2.0).realize().expect("computes");
            Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]) + 2.0
        }
        "softmax" => x.softmax(-1),
        "dense" => x.matmul(&Tensor::from([[1.0f32], [2.0], [3.0]])).relu(),
        "dense, bit by bit" => {
            let y = x.matmul(&Tensor::from([[1.0f32], [2.0], [3.0]]));
            y.realize().expect("computes");
            y.relu()
        }
        "two kernels" => {
            let w = Tensor::arange(40 * 300).cast(kiln::DType::F32).reshape([300, 40]);
            (&w + 0.5).realize().expect("computes");
            w.permute([1, 0]).softmax(-1).matmul(&w.sin())
        }
        "fallen" => {
            testing::limit_options(Some((0, true)));
            let x = Tensor::arange(64 * 64).cast(kiln::DType::F32).reshape([64, 64]);
            x.realize().expect("computes");
            x.matmul(&x).realize().expect("falls back");
            x.matmul(&x)
        }
        "views" => x.permute([1, 0]).flip(0).contiguous(),
        "layers" => x.layernorm(-1).clamp(0.0, 1.0),
        "set" => {
            x.set(kiln::s![0], 1.0);
            x
        }
        "gradient" => {
            let w = Tensor::from([1.0f32, 2.0, 3.0]).set_requires_grad(true);
            (&w * &w).sum(..).backward().expect("has a gradient");
            w.grad().expect("reached")
        }
        other => panic!("no program {other}"),
    };
    out.realize().expect("computes");
}

/// What the child says on stderr.
pub(crate) fn stderr(program: &str, env: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--ignored", "--exact", "seeing::child", "--nocapture"]);
    command.env("TEST_PROGRAM", program).envs(env.iter().copied());
    let output = command.output().expect("runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{text}");
    text
}

/// The lists of methods, one a kernel.
fn origins(program: &str) -> Vec<String> {
    let text = stderr(program, &[("DEBUG", "2")]);
    let lines = text.lines().filter(|line| line.starts_with("***"));
    lines.map(|line| line[line.rfind('[').expect("a list")..].to_owned()).collect()
}

#[test]
fn kernels_name_the_methods_that_made_them() {
    assert_eq!(origins("add"), ["['add']"]);
    assert_eq!(origins("softmax"), ["['softmax']"]);
    assert_eq!(origins("dense"), ["['matmul', 'relu']"]);
    assert_eq!(origins("dense, bit by bit"), ["['matmul']", "['relu']"]);
    assert_eq!(origins("views"), ["['permute', 'flip', 'contiguous']"]);
    assert_eq!(origins("layers"), ["['layernorm', 'clamp']"]);
    assert_eq!(origins("set"), ["['set']"]);
    assert_eq!(origins("gradient"), ["['backward']"]);
}

/// The text with every number as `#`, and one space for several.
fn masked(line: &str) -> String {
    let digits = line.replace(|c: char| c.is_ascii_digit(), "#");
    let words: Vec<&str> = digits.split_whitespace().collect();
    let mut text = words.join(" ").replace("/ ", "/").replace("( ", "(");
    while text.contains("##") {
        text = text.replace("##", "#");
    }
    text
}

#[test]
fn a_launch_is_a_line() {
    let text = stderr("add", &[("DEBUG", "2"), ("DEV", "INTERP"), ("LENGTHS", "1")]);
    assert!(!text.contains('\x1b'), "colour where nobody looks: {text:?}");
    let line = text.lines().find(|line| line.starts_with("***")).expect("a launch");
    assert!(line.starts_with("*** INTERP        1 E_3 "), "{line}");
    assert!(line.contains(" arg  2 mem  0.00 GB tm "), "{line}");
    let expected = "*** INTERP # E_# arg # mem #.# GB tm #.#us/#.#ms (#.# GFLOPS #.#|#.# GB/s) crates/kiln/tests/it/seeing.rs:# ['add']";
    assert_eq!(masked(line), expected);
}

#[test]
fn each_level_shows_more() {
    let text = stderr("add twice", &[("DEBUG", "7"), ("KILN_CACHE", "none"), ("DEV", "CPU")]);
    for part in [
        "opened device CPU as ",
        "scheduled 1 kernels in ",
        "schedule cache hit",
        "*** CPU           2 ",
        "options [",
        "kiln_entry",
        "load f32",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert_eq!(stderr("add", &[("DEBUG", "0")]), "");
}

#[test]
fn rule_statistics_come_at_exit() {
    let text = stderr("softmax", &[("TRACK_MATCH_STATS", "2"), ("KILN_CACHE", "none")]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().any(|l| l.contains("fired / tried")), "{text}");
    assert!(lines.iter().any(|l| l.contains("rules/") && l.contains(".rs:")), "{text}");
    let total = lines.last().expect("a sum");
    let fired: u64 =
        total.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(total.ends_with("total") && fired > 0, "{text}");
    let kept = lines.iter().find_map(|line| Some(line.split_once("every rewrite is in ")?.1));
    std::fs::remove_file(kept.expect("a file")).expect("it is there");
    assert_eq!(stderr("softmax", &[("TRACK_MATCH_STATS", "0")]), "");
}

#[derive(Module)]
struct Net {
    conv: Conv2d,
    linear: Linear,
}

/// A step of training, as `kiln digits` does it.
fn train() {
    let net = Net { conv: Conv2d::new(1, 4, 3).padding(1), linear: Linear::new(4 * 4 * 4, 10) };
    let optimizer = Adam::new(net.parameters(), 1e-3);
    let (images, labels) = (Tensor::rand([8, 1, 8, 8]), Tensor::from([0, 1, 2, 3, 4, 5, 6, 7]));
    for _ in 0..2 {
        optimizer.zero_grad();
        let features = net.conv.forward(&images).relu().max_pool2d(2).flatten_from(1);
        let loss = net.linear.forward(&features).cross_entropy(&labels);
        loss.backward().expect("has a gradient");
        optimizer.step().expect("computes");
    }
}

#[test]
fn every_graph_parses_back() {
    train();
    let kernels = testing::stages();
    assert!(kernels.len() > 5, "{} kernels", kernels.len());
    for kernel in kernels {
        for ast in [&kernel.scheduled, &kernel.optimized] {
            let text = text::print(ast);
            assert!(text::parse(&text).as_ref() == Ok(ast), "{text}");
        }
        let text = text::print_list(&kernel.program);
        assert!(text::parse_list(&text).as_ref() == Ok(&kernel.program), "{text}");
    }
}

#[test]
fn a_broken_kernel_is_an_error_that_says_so() {
    let bad = Tensor::from([1.0f32, 2.0]) * 7.125;
    testing::break_next_kernel();
    // with a kernel for many lengths nothing would be compiled
    let broken = kiln::with([("LENGTHS", 0)], || bad.to_vec::<f32>()).expect("a setting");
    let error = broken.expect_err("the kernel is broken").to_string();
    assert!(error.contains("bug in kiln: pass `schedule`: left a broken graph: "), "{error}");
    assert!(error.contains("on the graph\nsink name="), "{error}");
    // the same program asks again, and nothing is in the way
    assert_eq!(bad.to_vec::<f32>().expect("computes"), [7.125, 14.25]);
}

#[test]
fn a_kernel_that_falls_back_is_said_once() {
    let text = stderr("fallen", &[("DEV", "CPU")]);
    let said: Vec<&str> = text.lines().filter(|line| line.contains("bug in kiln")).collect();
    let kernels: HashSet<&&str> = said.iter().collect();
    assert!(!said.is_empty() && kernels.len() == said.len(), "{text}");
    for line in said {
        let start = "kiln: warning: bug in kiln: pass `lower` failed on kernel ";
        assert!(line.starts_with(start), "{line}");
        let file = line.rsplit_once(" is in ").expect("a file").1;
        assert!(std::fs::read_to_string(file).expect("is there").contains("\non the graph\n"));
        std::fs::remove_file(file).expect("is there");
    }
}

#[test]
fn the_readme_lists_the_variables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(path).expect("is there");
    let (_, table) = readme.split_once("| variable | meaning |").expect("a table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut listed: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    let described = kiln::env::describe();
    let mut known: Vec<&str> = described.iter().map(|v| v.name).collect();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
    assert!(described.iter().all(|v| !v.help.is_empty()));
}

#[test]
fn origins_change_nothing() {
    let data = || {
        let t = Tensor::from([0.5f32, -3.25, 7.0, 11.0, 13.0]);
        t.realize().expect("realizes");
        t
    };
    let (a, b) = (data(), data());
    let square = |t: &Tensor| (t.square() + 0.125).to_vec::<f32>().expect("computes");
    let product = |t: &Tensor| (t * t + 0.125).to_vec::<f32>().expect("computes");
    let (first, _) = measure(|| square(&a));
    let (second, n) = measure(|| product(&b));
    assert_eq!(first, second);
    assert_eq!((n.kernels, n.scheduled, n.compiled + n.loaded), (1, 0, 0));
}

#[test]
fn work_is_estimated_as_by_hand() {
    // a sum of n products is n multiplications and n additions, of which the first may be left out
    let sums = |count: u64, n: u64| count * (2 * n - 1)..=count * 2 * n;
    let work = |f: &dyn Fn() -> Tensor| {
        let (done, n) = measure(|| f().realize().map(drop));
        done.expect("computes");
        (n.kernels, n.flops, n.bytes)
    };
    let data = |shape: &[usize]| {
        let t = Tensor::rand(shape);
        t.realize().expect("computes");
        t
    };
    // read 3, write 3, of 4 bytes each; one addition each
    let x = data(&[3]);
    assert_eq!(work(&|| &x + 2.0), (1, 3, 24));
    // 4 x 16 sums of 8 products; whole vectors, since what a gate leaves out is counted too
    let (a, b) = (data(&[4, 8]), data(&[8, 16]));
    let (kernels, flops, bytes) = work(&|| a.matmul(&b));
    assert_eq!((kernels, bytes), (1, 4 * (4 * 8 + 8 * 16 + 4 * 16)));
    assert!(sums(4 * 16, 8).contains(&flops), "{flops}");
    // 3 channels of 3 x 3 positions, each a sum over 2 channels of 3 x 3 weights
    let (x, w) = (data(&[1, 2, 5, 5]), data(&[3, 2, 3, 3]));
    let (kernels, flops, bytes) = work(&|| x.conv2d(&w, None, 1, 1, 1, 0));
    assert_eq!((kernels, bytes), (1, 4 * (50 + 54 + 27)));
    assert!(sums(27, 18).contains(&flops), "{flops}");
}

#[test]
fn numbers_that_make_no_sense_are_said_and_ignored() {
    for (name, value) in [("BEAM", "-1"), ("DEBUG", "-2"), ("NOOPT", "yes")] {
        let text = stderr("add", &[(name, value)]);
        let said = format!("{name}={value} is not a number from 0 on; ignored");
        assert_eq!(text.matches(&said).count(), 1, "{text}");
    }
}
