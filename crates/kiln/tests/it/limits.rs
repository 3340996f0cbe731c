//! Memory that cannot be had is an error, in a process of its own that has little.

use kiln::{DType, Tensor, nn::state};
use kiln_ir::program::{ParamInfo, Program};
use kiln_runtime::Backend;
use kiln_runtime::cpu::{self, Rung, config::CpuConfig};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

/// What this process may still map, for as long as it lives.
struct Limit(Child);

/// What another process does: a limit, and none again when it is told so. This one could not start one then.
const LIMITS: &str = "prlimit --pid $0 --as=$1: && echo done && read line
    prlimit --pid $0 --as=unlimited: && echo done";

impl Limit {
    fn more(bytes: usize) -> Limit {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = pages.split(' ').next().unwrap().parse().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", LIMITS, &std::process::id().to_string()])
            .arg((pages * 4096 + bytes).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        is_done(&mut child);
        Limit(child)
    }
}

fn is_done(child: &mut Child) {
    let mut said = [0; 5];
    child.stdout.as_mut().expect("is piped").read_exact(&mut said).expect("prlimit");
    assert_eq!(&said, b"done\n");
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.0.stdin.as_mut().expect("is piped").write_all(b"\n").expect("listens");
        is_done(&mut self.0);
        self.0.wait().expect("ends");
    }
}

fn why<T>(result: Result<T, kiln::Error>) -> String {
    result.err().expect("fails").to_string()
}

const MB: usize = 1 << 20;

#[test]
#[ignore = "run by another test, in a process of its own"]
fn what_does_not_fit_is_an_error() {
    let n = 8 * MB;
    let work = |n: usize| {
        let t = Tensor::from_vec(vec![1.5f32, 0.0], [2]).reshape([2, 1]).expand([2, n / 2]) * 2.0;
        t.reshape([n]).contiguous()
    };
    // what compiling takes is there before
    work(n).realize().unwrap();
    let small = Tensor::from([1.0f32, 0.0]);
    small.masked_select(&small.gt(0)).realize().unwrap();
    small.nonzero().realize().unwrap();
    let path = std::env::temp_dir().join(format!("kiln-limits-{}", std::process::id()));
    state::save(&path, &[("t".to_owned(), small.clone())].into()).unwrap();
    let t = work(n);
    t.realize().unwrap();
    assert!(!format!("{t}").is_empty());
    let mask = t.gt(0);
    mask.realize().unwrap();
    // huge blocks that were freed are not used again
    let limit = Limit::more(20 * MB);
    let fails = [
        why(t.to_vec::<f32>()),
        why(t.masked_select(&mask).realize()),
        why(t.nonzero().realize()),
        why(work(4 * n).realize()),
    ];
    for error in fails {
        assert!(error.contains("cannot allocate") || error.contains("memory"), "{error}");
    }
    assert!(!format!("{t}").is_empty());
    assert_eq!(small.to_vec::<f32>().unwrap(), [1.0, 0.0]);
    // one part after the other
    state::save(&path, &[("t".to_owned(), t.clone())].into()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len() as usize / MB, 4 * n / MB);
    drop(limit);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(t.masked_select(&mask).numel(), n / 2);
    assert_eq!(t.to_vec::<f32>().unwrap().len(), n);
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn llvm_without_memory_is_an_error() {
    (Tensor::from([1.0f32, 2.0]) + 1.0).realize().unwrap();
    let mut failed = 0;
    // a thread whose stack just fits has no room for the stack of its signals, and Rust ends the process: LLVM's takes
    // 64 MB, so some are left with each limit
    for i in 3..=12 {
        let limit = Limit::more((i * 16 + 8) * MB);
        let x = Tensor::full([3 + i, 5, 7], 1.5f32).cast(DType::F32).contiguous();
        let result = (x.sum(0).exp() * 2.0).matmul(&Tensor::ones([7, 3 + i])).to_vec::<f32>();
        drop(limit);
        match result {
            Ok(values) => assert_eq!(values.len(), 5 * (3 + i)),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("cannot allocate") || error.contains("thread"), "{error}");
                failed += 1;
            }
        }
    }
    assert!(0 < failed && failed < 10, "{failed} of 10 failed");
}

/// A kernel of LLVM's with so many additions, each of which the next one needs.
fn additions(n: usize) -> Program {
    let steps: String = (1..n).map(|i| format!("%x{i} = add i64 %x{}, %hi\n", i - 1)).collect();
    let source = format!(
        "define void @kiln_entry(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) {{\n\
         %x0 = load i64, ptr %scratch\n{steps}store i64 %x{}, ptr %scratch\nret void\n}}\n",
        n - 1
    );
    let info = ParamInfo { dtype: DType::F32, len: 1, written: true, read: true, streamed: false };
    Program {
        name: "additions".into(),
        ops: Vec::new(),
        source,
        params: vec![info],
        vars: Vec::new(),
        threads: kiln_ir::UOp::index(1),
        global: Vec::new(),
        local: Vec::new(),
        scratch_bytes: 8,
        flops: 0,
        bytes: 0,
        accessed: 0,
    }
}

/// Room for the stack of LLVM's thread and for some of what LLVM makes of the text, but not for all of it.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn a_text_that_is_too_long_for_llvm_is_an_error() {
    let config = CpuConfig { cache: None, ..CpuConfig::from_env() };
    let device = cpu::open(&config, Some(Rung::Llvm)).unwrap();
    device.load(&additions(2)).unwrap();
    let long = additions(500_000);
    let limit = Limit::more(128 * MB);
    let failed = device.load(&long).map(drop);
    drop(limit);
    let error = failed.expect_err("takes more than that").to_string();
    assert!(error.contains("cannot allocate") || error.contains("memory"), "{error}");
    device.load(&additions(3)).unwrap();
}

fn passes(test: &str) {
    let run = Command::new(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--exact", "--nocapture", &format!("limits::{test}")])
        .env("KILN_CACHE", "none")
        // a driver of OpenCL may abort: PoCL 3.1 asserts that it got memory
        .env("DEV", "CPU")
        .env("MALLOC_ARENA_MAX", "1")
        // printing one takes memory
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("runs");
    let [said, error] = [&run.stdout, &run.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(run.status.success() && said.contains("1 passed"), "{}\n{said}\n{error}", run.status);
}

fn can_limit() -> bool {
    let can = Command::new("prlimit").arg("--version").output().is_ok();
    if !can {
        eprintln!("skipped: no prlimit here");
    }
    can
}

#[test]
fn allocations_that_fail_are_errors() {
    if can_limit() {
        passes("what_does_not_fit_is_an_error");
    }
}

#[test]
fn a_compiler_without_memory_is_an_error() {
    if can_limit() {
        passes("llvm_without_memory_is_an_error");
        passes("a_text_that_is_too_long_for_llvm_is_an_error");
    }
}
