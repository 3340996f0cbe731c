//! What it costs to share a launch: `cargo bench -p kiln-runtime`. Microseconds of kernels that take 5, 50 and 1000 us on
//! each of two threads.

#![allow(clippy::print_stdout, missing_docs)]

use kiln_ir::DType;
use kiln_ir::program::{ParamInfo, Program};
use kiln_runtime::cpu::config::CpuConfig;
use kiln_runtime::cpu::{self, Rung};
use kiln_runtime::{Backend, Buffer, Kernel};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many blocks a launch has.
const BLOCKS: usize = 64;

/// Each step waits for the one before: 1.3 ns at 3 GHz.
const STEPS_IN_US: i64 = 750;

const KERNEL: &str = "
define void @kiln_entry(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) {
entry:
  %out = load ptr, ptr %bufs
  %steps = load i64, ptr %vars
  br label %block
block:
  %i = phi i64 [%lo, %entry], [%next, %done]
  br label %step
step:
  %n = phi i64 [0, %block], [%more, %step]
  %x = phi i64 [%i, %block], [%z, %step]
  %y = mul i64 %x, 6364136223846793005
  %z = add i64 %y, %n
  %more = add i64 %n, 1
  %again = icmp slt i64 %more, %steps
  br i1 %again, label %step, label %done
done:
  %at = getelementptr i64, ptr %out, i64 %i
  store i64 %z, ptr %at
  %next = add i64 %i, 1
  %left = icmp slt i64 %next, %hi
  br i1 %left, label %block, label %end
end:
  ret void
}
";

fn program() -> Program {
    let out =
        ParamInfo { dtype: DType::I64, len: BLOCKS, written: true, read: false, streamed: false };
    Program {
        name: "launch".into(),
        ops: Vec::new(),
        source: KERNEL.into(),
        params: vec![out],
        vars: vec![DType::I64],
        threads: kiln_ir::UOp::index(BLOCKS as i64),
        global: Vec::new(),
        local: Vec::new(),
        scratch_bytes: 0,
        flops: 1 << 30,
        bytes: 0,
        accessed: 0,
    }
}

/// A device of two threads, which have not started yet.
fn opened() -> (Arc<dyn Kernel>, Buffer) {
    let config = CpuConfig { threads: Some(2), ..CpuConfig::from_env() };
    let device = cpu::open(&config, Some(Rung::Llvm)).expect("an LLVM");
    let buffer = device.alloc(8 * BLOCKS).expect("memory");
    (device.load(&program()).expect("compiles").kernel, buffer)
}

/// Of so many launches, each after a rest, the median.
fn launches(
    (kernel, out): &(Arc<dyn Kernel>, Buffer),
    us: i64,
    count: usize,
    rest: Duration,
) -> f64 {
    let steps = us * STEPS_IN_US * 2 / BLOCKS as i64;
    let launch = |_| {
        std::thread::sleep(rest);
        let start = Instant::now();
        kernel.launch(std::slice::from_ref(out), &[steps]).expect("runs");
        start.elapsed()
    };
    let mut times: Vec<Duration> = (0..count).map(launch).collect();
    times.sort();
    times[count / 2].as_secs_f64() * 1e6
}

fn main() {
    let new = || launches(&opened(), 50, 1, Duration::ZERO);
    println!("first of 50 us  {:8.2}", (0..9).map(|_| new()).fold(f64::MAX, f64::min));
    let device = opened();
    for (us, count) in [(5, 5000), (50, 1000), (1000, 100)] {
        println!("{us:4} us in a row {:8.2}", launches(&device, us, count, Duration::ZERO));
        let rest = Duration::from_millis(1);
        println!("{us:4} us rested   {:8.2}", launches(&device, us, count.min(200), rest));
    }
}
