//! `cargo run -p xtask -- replay BASE`: the kernels of a corpus as a base commit makes them and as they are made now, for
//! reviews of compiler changes.
//!
//! Both compilers write records (`VIZ`) of the same programs: workloads of `kiln-bench`, and tests with models. They write
//! them for one processor, so that every machine shows the same. `kiln compare` says what differs.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Tests whose kernels are of the corpus.
const TESTS: &[&str] = &["attention::", "layers::", "resnet::"];

/// What kernels are written for, and what could make them depend on anything else.
const SETTINGS: &[(&str, &str)] = &[
    ("DEV", "CPU:LLVM:x86_64,haswell"),
    ("KILN_CACHE", "none"),
    ("KILN_THREADS", "1"),
    ("LENGTHS", "0"),
    ("VIZ_MB", "4096"),
];

type Failure = String;

/// One of the two compilers.
struct Side {
    /// Its working tree.
    tree: PathBuf,
    /// Where its records go.
    records: PathBuf,
}

/// Compares the kernels of workloads whose names begin so with those of a commit; of no names, all but single convolutions.
pub(crate) fn replay(root: &Path, base: &str, names: &[&str]) -> ExitCode {
    match compared(root, base, names) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

fn compared(root: &Path, base: &str, names: &[&str]) -> Result<(), Failure> {
    let folder = root.join("target/replay");
    let before = Side { tree: folder.join("tree"), records: folder.join("base") };
    let now = Side { tree: root.to_path_buf(), records: folder.join("now") };
    check_out(root, base, &before.tree)?;
    for side in [&before, &now] {
        std::fs::create_dir_all(&side.records).map_err(|e| e.to_string())?;
        side.cargo(&["build", "--release", "-p", "kiln-bench"])?;
    }
    now.cargo(&["build", "--release", "-p", "kiln-cli"])?;
    let workloads = workloads(&now, names)?;
    for name in &workloads {
        println!("== {name}");
        compare(&before, &now, name, |side| side.workload(name))?;
    }
    for filter in TESTS.iter().filter(|_| names.is_empty()) {
        println!("== tests {filter}");
        compare(&before, &now, filter.trim_end_matches(':'), |side| side.test(filter))?;
    }
    Ok(())
}

/// A working tree of a commit: the one of the last time, if there is one.
fn check_out(root: &Path, base: &str, tree: &Path) -> Result<(), Failure> {
    let git = |folder: &Path, arguments: &[&str]| {
        finished(Command::new("git").current_dir(folder).args(arguments), "git")
    };
    let at = tree.to_string_lossy();
    let commit =
        output(Command::new("git").current_dir(root).args(["rev-parse", "--verify", base]))?;
    match tree.join(".git").exists() {
        true => git(tree, &["checkout", "--quiet", "--detach", commit.trim()]),
        false => git(root, &["worktree", "add", "--quiet", "--detach", &at, commit.trim()]),
    }
}

fn workloads(side: &Side, names: &[&str]) -> Result<Vec<String>, Failure> {
    let list = output(Command::new(side.bench()).arg("--list"))?;
    let all = list.lines().filter_map(|line| line.split_whitespace().next());
    let is_wanted = |name: &&str| match names {
        [] => !name.starts_with("cnn-"),
        names => names.iter().any(|wanted| name.starts_with(wanted)),
    };
    Ok(all.filter(is_wanted).map(str::to_owned).collect())
}

/// Records a program with both compilers, and says what differs.
fn compare(
    before: &Side,
    now: &Side,
    name: &str,
    run: impl Fn(&Side) -> (Command, String),
) -> Result<(), Failure> {
    let mut records = Vec::new();
    for side in [before, now] {
        let record = side.records.join(format!("{name}.viz"));
        let (mut command, input) = run(side);
        command.current_dir(&side.tree).envs(SETTINGS.iter().copied()).env("VIZ", &record);
        fed(&mut command, &input)?;
        records.push(record);
    }
    let kiln = now.tree.join("target/release/kiln");
    finished(Command::new(kiln).arg("compare").args(&records), "kiln compare")
}

impl Side {
    fn cargo(&self, arguments: &[&str]) -> Result<(), Failure> {
        finished(Command::new("cargo").current_dir(&self.tree).args(arguments), "cargo")
    }

    fn bench(&self) -> PathBuf {
        self.tree.join("target/release/kiln-bench")
    }

    /// A workload, and what it reads.
    fn workload(&self, name: &str) -> (Command, String) {
        let mut command = Command::new(self.bench());
        command.arg("--serve");
        (command, format!("load {name}\n"))
    }

    fn test(&self, filter: &str) -> (Command, String) {
        let mut command = Command::new("cargo");
        command.args(["test", "--quiet", "-p", "kiln", "--test", "it", "--", filter]);
        command.arg("--test-threads=1");
        (command, String::new())
    }
}

/// Runs a command that reads `input`; what it prints is of no interest.
fn fed(command: &mut Command, input: &str) -> Result<(), Failure> {
    use std::io::Write;
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
    if let Some(mut to) = child.stdin.take() {
        to.write_all(input.as_bytes()).map_err(|e| e.to_string())?;
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

fn finished(command: &mut Command, name: &str) -> Result<(), Failure> {
    let status = command.status().map_err(|e| format!("{name}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} ended with {status}")) }
}

fn output(command: &mut Command) -> Result<String, Failure> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|e| e.to_string()),
        false => Err(format!("{command:?} ended with {}", output.status)),
    }
}
