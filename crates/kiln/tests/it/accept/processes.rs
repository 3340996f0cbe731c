//! Several processes and one cache of compiled kernels: shared, read again, damaged, full.

use kiln::optim::AdamW;
use kiln::{Rng, measure};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A small training, so that many kernels are compiled.
fn program() -> Result<Vec<f32>, kiln::Error> {
    let rng = Rng::new(1);
    let (x, w) = (rng.randn([8, 16]), rng.randn([16, 4]).contiguous());
    w.set_requires_grad(true);
    let opt = AdamW::new([&w], 1e-2);
    for _ in 0..3 {
        opt.zero_grad();
        let loss = x.matmul(&w).softmax(-1).log().mean(..).neg();
        loss.backward()?;
        opt.step()?;
    }
    w.to_vec()
}

/// What every child does: runs the program and says what came out.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
#[allow(clippy::print_stderr)]
fn child() {
    let (weights, n) = measure(program);
    let bits = weights.expect("computes").iter().map(|x| x.to_bits()).fold(0u64, mix);
    eprintln!("RESULT {bits} {} {}", n.compiled, n.loaded);
}

fn mix(all: u64, bits: u32) -> u64 {
    all.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(bits)
}

/// What a child said.
#[derive(Debug)]
struct Said {
    result: u64,
    compiled: u64,
    loaded: u64,
    warnings: Vec<String>,
}

const CHILD: [&str; 4] = ["--ignored", "--exact", "accept::processes::child", "--nocapture"];

/// A child on the CPU: drivers of other devices have caches of their own.
fn start(cache: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    spawn(command.args(CHILD).env("KILN_CACHE", cache).env("DEV", "CPU"))
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts")
}

fn finish(child: Child) -> Said {
    let output = child.wait_with_output().expect("runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{text}");
    let result = text.lines().find_map(|l| l.strip_prefix("RESULT ")).expect("a result");
    let numbers: Vec<u64> = result.split(' ').map(|n| n.parse().expect("a number")).collect();
    let other = text.lines().filter(|l| !l.starts_with("RESULT ") && !l.is_empty());
    let warnings = other.map(str::to_owned).collect();
    Said { result: numbers[0], compiled: numbers[1], loaded: numbers[2], warnings }
}

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kiln-accept-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn four_processes_share_an_empty_cache_and_a_fifth_compiles_nothing() {
    let folder = Folder::new("shared");
    let children: Vec<Child> = (0..4).map(|_| start(folder.path())).collect();
    let said: Vec<Said> = children.into_iter().map(finish).collect();
    for one in &said {
        assert_eq!((one.result, one.warnings.len()), (said[0].result, 0), "{said:?}");
    }
    let fifth = finish(start(folder.path()));
    assert_eq!((fifth.result, fifth.compiled), (said[0].result, 0), "{fifth:?}");
    assert!(fifth.loaded > 0 && fifth.warnings.is_empty(), "{fifth:?}");
}

#[test]
fn a_cache_that_cannot_be_made_is_one_warning() {
    let said = finish(start("/dev/null/kiln"));
    assert!(said.compiled > 0 && said.warnings.len() == 1, "{said:?}");
    assert!(said.warnings[0].contains("/dev/null/kiln"), "{said:?}");
    assert_eq!(said.result, finish(start("none")).result);
}

/// Files stay below 512 bytes times `blocks`, as on a disk that is full.
#[cfg(target_os = "linux")]
fn start_on_full_disk(cache: &str, blocks: u32) -> Child {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(std::env::current_exe().expect("this test"));
    // a compiler that is a process of its own writes files, too
    spawn(command.args(CHILD).env("KILN_CACHE", cache).env("DEV", "CPU"))
}

#[test]
#[cfg(target_os = "linux")]
fn a_cache_on_a_full_disk_is_one_warning() {
    for blocks in [0, 40] {
        let folder = Folder::new(&format!("full-{blocks}"));
        let said = finish(start_on_full_disk(folder.path(), blocks));
        assert!(said.compiled > 0 && said.warnings.len() == 1, "{blocks}: {said:?}");
        let after = finish(start_on_full_disk(folder.path(), u32::MAX >> 1));
        assert_eq!((after.result, after.warnings.len()), (said.result, 0), "{after:?}");
    }
}
