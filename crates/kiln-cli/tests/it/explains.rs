//! Slow programs: `kiln explain` names what is wrong with each in its first ten lines.

use kiln::{Tensor, with};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file that goes with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        File(std::env::temp_dir().join(format!("kiln-explains-{name}-{}", std::process::id())))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn explain(path: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kiln")).arg("explain").arg(path).output();
    let output = output.expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What `kiln explain` says of a program in its first ten lines, and in all.
fn explained(name: &str, program: impl FnOnce()) -> (String, String) {
    let file = File::new(name);
    kiln::record(&file.0, program).expect("a file can be written");
    let all = explain(&file.0);
    (all.lines().take(10).map(|line| format!("{line}\n")).collect(), all)
}

fn read(t: &Tensor) -> f32 {
    t.sum(..).item().expect("computes")
}

fn data(shape: &[usize]) -> Tensor {
    let t = Tensor::rand(shape);
    t.realize().expect("computes");
    t
}

#[test]
fn a_forgotten_realize() {
    let (first, _) = explained("realize", || {
        let (noise, mut all) = (data(&[48, 48]), Vec::new());
        let mut state = data(&[48, 48]);
        for _ in 0..5 {
            // each report computes all steps that were made so far, in a graph that is new each time
            state = (&state * 0.5 + &noise).tanh();
            all.push(state.mean(..));
            let report = all.iter().skip(1).fold(all[0].clone(), |sum, mean| sum + mean);
            assert!(read(&report).is_finite());
        }
    });
    assert!(first.contains("a graph that grows") && first.contains("realize()"), "{first}");
    assert!(first.contains("explains.rs:"), "{first}");
}

#[test]
fn a_length_that_changes() {
    let (first, _) = explained("length", || {
        let program = || {
            for length in [101, 103, 107, 109, 113] {
                let x = data(&[length, 52]);
                assert!(read(&x.softmax(-1).matmul(&x.permute([1, 0]))).is_finite());
            }
        };
        with([("LENGTHS", 0)], program).expect("a setting");
    });
    assert!(first.contains("recompiled: 5 graphs") && first.contains("[103"), "{first}");
    assert!(first.contains("was") && first.contains("[101"), "{first}");
}

#[test]
fn a_value_that_is_computed_twice() {
    let (first, all) = explained("twice", || {
        let (x, w) = (data(&[256, 300]), data(&[300, 256]));
        let features = || x.matmul(&w).tanh();
        // two results of one value, each read on its own
        let (largest, smallest) = (features().max(..), features().square().sum(1));
        assert!(largest.item::<f32>().expect("computes") <= 1.0);
        assert!(read(&smallest) > 0.0);
    });
    assert!(first.contains("computed again") && first.contains("tanh"), "{first}");
    assert!(first.contains("explains.rs:"), "{first}");
    // random numbers look alike, and are others each time
    let mut again = first.lines().filter(|line| line.contains("computed again"));
    assert!(again.all(|line| !line.contains("rand ")), "{first}");
    // each kernel's share of the floor, and what limits it
    let (_, kernels) = all.split_once("kernels by time").expect("a table");
    let row = kernels.lines().find(|l| l.contains("matmul")).expect("the product");
    assert!(row.contains("% ") && (row.contains("compute") || row.contains("memory")), "{row}");
    let peak = all.split_once("most memory on CPU").expect("the peak").1;
    assert!(peak.contains("explains.rs:"), "{peak}");
}

#[test]
fn the_kernels_of_a_schedule_and_what_is_between_them() {
    let (x, w) = (data(&[64, 300]), data(&[300, 300]));
    let file = File::new("two");
    let program = || x.matmul(&w).matmul(&w).realize().map(drop).expect("computes");
    kiln::record(&file.0, program).expect("a file can be written");
    let said = |number: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command.arg("explain").arg(&file.0).args(["--schedule", number]).output().expect("runs")
    };
    let all = String::from_utf8(said("1").stdout).expect("text");
    let (_, all) = all.split_once("the kernels of schedule 1").expect("a list");
    let record = kiln::record::Record::open(&file.0).expect("a record");
    for number in [1, 2] {
        let row = all.lines().find(|l| l.starts_with(&format!("{number:>4}: "))).expect(all);
        let name = row.split(' ').find(|word| word.starts_with("r_")).expect(row);
        assert!(record.kernels.iter().any(|k| k.name == name) && row.contains(" matmul "), "{row}");
    }
    let why = all.lines().find(|l| l.contains("not one with 2: ")).expect(all);
    assert!(
        why.contains("[64, 300]") && why.contains("is in memory, estimated as inline "),
        "{all}"
    );
    // each pass that makes one kernel of several says why it left them apart
    for pass in ["merge: a kernel of its own: ", "chain: memory", "batch: a launch of its own: "] {
        assert!(all.contains(pass), "{pass}: {all}");
    }
    let (_, memory) = all.split_once("temporaries of 76.8 kB in ").expect(all);
    assert!(memory.contains("    76.8 kB          0   1 to 2  0"), "{memory}");
    let mut rules = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let rules = rules.arg("explain").arg(&file.0).arg("--rules").output().expect("runs");
    let rules = String::from_utf8(rules.stdout).expect("text");
    assert!(rules.contains(" rules were tried") && rules.contains("rules/"), "{rules}");
    let none = said("9");
    assert!(!none.status.success());
    assert!(String::from_utf8_lossy(&none.stderr).contains("none is number 9"));
}

#[test]
fn the_lines_of_the_program() {
    let (x, w) = (data(&[64, 311]), data(&[311, 97]));
    let file = File::new("lines");
    let [first, second] = [line!() + 3, line!() + 4];
    let program = || {
        for _ in 0..3 {
            let y = x.matmul(&w);
            let z = y.tanh();
            z.realize().map(drop).expect("computes");
        }
    };
    kiln::record(&file.0, program).expect("a file can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let output = command.arg("explain").arg(&file.0).arg("--lines").output().expect("runs");
    let all = String::from_utf8(output.stdout).expect("text");
    for (line, method) in [(first, "matmul"), (second, "tanh")] {
        let place = format!("explains.rs:{line} {method}: ");
        let row = all.lines().find(|l| l.contains(&place)).expect(&all);
        let cells: Vec<&str> = row.split_whitespace().collect();
        let is_time = |value: &str, unit: &str| {
            value.parse::<f64>().is_ok_and(|us| us > 0.0) && ["us", "ms"].contains(&unit)
        };
        assert!(is_time(cells[0], cells[1]) && is_time(cells[2], cells[3]), "{row}");
        // three launches, of one kernel or of two
        let number = |at: usize| cells[at].parse::<usize>().expect(row);
        assert_eq!(number(4) % 3, 0, "{row}");
        assert!(number(4) >= 3 && number(5) > 0 && (1..3).contains(&number(6)), "{row}");
    }
}

#[test]
fn everything_about_a_kernel() {
    let (x, w) = (data(&[64, 310]), data(&[310, 96]));
    let file = File::new("kernel");
    let program = || {
        for _ in 0..3 {
            x.matmul(&w).realize().map(drop).expect("computes");
        }
    };
    kiln::record(&file.0, program).expect("a file can be written");
    let record = kiln::record::Record::open(&file.0).expect("a record");
    let kernel = record.kernels.iter().find(|k| k.options.len() > 2).expect("a product");
    let said = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command.arg("explain").arg(&file.0).args(["--kernel", name]).output().expect("runs")
    };
    let all = String::from_utf8(said(&kernel.name).stdout).expect("text");
    let has = |text: &str| assert!(all.contains(text), "{text}: {all}");
    has(&format!("{}: {}", kernel.name, kernel.origin));
    has(&kernel.scheduled);
    has("3 launches on CPU");
    has(": median ");
    has("the roof is ");
    has("loops before the options");
    kernel.options.iter().for_each(|option| has(option));
    has("(vector)");
    has("  priced: tile of registers: VECTOR(");
    has("linear program, ");
    has(kernel.source.lines().next().expect("a line"));
    has("no machine code is recorded: VIZ_CODE=1");
    // by the beginning of its key, too
    let by_key = String::from_utf8(said(&kernel.scheduled[..9]).stdout).expect("text");
    assert!(by_key.contains(&format!("{}: ", kernel.name)), "{by_key}");
    // and of its name, if no other begins so
    let by_name = String::from_utf8(said(&kernel.name[..kernel.name.len() - 1]).stdout);
    assert_eq!(by_name.expect("text"), all);
    let none = said("no_such_kernel");
    assert!(!none.status.success());
    assert!(
        String::from_utf8_lossy(&none.stderr)
            .contains("no kernel of the record is named no_such_kernel")
    );
    let mut two = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let two = two.arg("explain").arg(&file.0).args(["--lines", "--rules"]).output().expect("runs");
    assert!(String::from_utf8_lossy(&two.stderr).contains("cannot be used with"));
}

#[test]
fn passes_rules_and_what_nodes_become() {
    let file = File::new("passes");
    let program = || {
        let x = Tensor::arange(309).cast(kiln::DType::F32).reshape([3, 103]).pad([(0, 0), (1, 3)]);
        x.softmax(1).realize().map(drop).expect("computes");
    };
    kiln::record(&file.0, program).expect("a file can be written");
    let record = kiln::record::Record::open(&file.0).expect("a record");
    let runs = |k: &kiln::record::Kernel| {
        let runs = kiln::record::passes(&k.steps).into_iter();
        runs.map(|run| (run.inner.len(), run.pass.to_owned())).max().unwrap_or_default()
    };
    let kernel = record.kernels.iter().max_by_key(|k| runs(k)).expect("a kernel");
    let pass = &runs(kernel).1[..];
    let output = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command.arg("explain").arg(&file.0).args(options).output().expect("runs")
    };
    let said = |options: &[&str]| String::from_utf8(output(options).stdout).expect("text");
    let refused = |options: &[&str]| {
        let output = output(options);
        assert!(!output.status.success(), "{options:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    // all passes of a kernel and of a schedule
    let passes = said(&["--kernel", &kernel.name, "--passes"]);
    for pass in ["optimize / collapse", "lower / expand", "render / render"] {
        assert!(passes.lines().any(|line| line.ends_with(pass)), "{pass}: {passes}");
    }
    assert!(said(&["--schedule", "1", "--passes"]).contains("schedule / assign"));
    // one of them: each rewrite with its rule, and the graph
    let index = said(&["--kernel", &kernel.name, "--pass", pass]);
    let rewrites = index.lines().filter(|line| line.starts_with("    → ")).count();
    assert!(index.contains(&format!("{rewrites} rewrites")), "{index}");
    assert!(rewrites > 0 && index.contains(".rs:") && index.contains("after it: "), "{index}");
    assert!(index.lines().any(|l| l.starts_with("+ %")) && index.contains("sink"), "{index}");
    assert!(refused(&["--kernel", &kernel.name, "--pass", "none"]).contains("its passes are"));
    assert!(refused(&["--passes"]).contains("--kernel NAME, or --schedule NUMBER"));
    // where a rule of that pass fired
    let (_, rest) = index.split_once(" decisions\n").expect("rewrites");
    let rule = rest.trim().split(' ').next().expect("a name");
    let uses = said(&["--rule", rule]);
    assert!(uses.contains(&format!("in kernel {}, pass {pass}", kernel.name)), "{uses}");
    assert!(refused(&["--rule", "no_such_rule"]).contains("--rules` lists rules"));
    // what a method became: by its name, and by its line
    let arange = said(&["--find", "arange"]);
    assert!(arange.contains("arange") && arange.contains("iota "), "{arange}");
    assert!(arange.contains("becomes the index in the loops of what reads it"), "{arange}");
    assert!(arange.contains(&kernel.name), "{arange}");
    let (_, place) = arange.split_once("explains.rs:").expect("a line");
    let place = place.split(':').next().expect("its number");
    assert!(said(&["--find", &format!("explains.rs:{place}")]).contains("iota "));
    // an op that tensor graphs do not have
    let range = said(&["--find", "range"]);
    assert!(range.contains(&format!("kernel {}, first in pass", kernel.name)), "{range}");
    assert!(refused(&["--find", "no_such_thing"]).contains("no method, op or line"));
}

#[test]
fn a_program_without_faults() {
    let (x, w, mut state) = (data(&[96, 300]), data(&[300, 97]), data(&[48, 49]));
    let (first, _) = explained("fine", || {
        let product = x.matmul(&w);
        for _ in 0..5 {
            state = (&state * 0.5 + 1.0).tanh();
            state.realize().expect("computes");
        }
        let (largest, smallest) = (product.max(..), product.min(..));
        kiln::realize([&largest, &smallest]).expect("computes");
    });
    assert!(first.contains("nothing was compiled or computed more often"), "{first}");
    // the check of a program and its terminal: a file that is no record
    let file = File::new("none");
    std::fs::write(&file.0, "no record").expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_kiln")).arg("explain").arg(&file.0).output();
    let output = output.expect("runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no record of kiln"));
}
