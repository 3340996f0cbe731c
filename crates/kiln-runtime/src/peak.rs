//! What this machine can do at best: multiply-adds and bytes a second, measured by loops that do nothing else.
//!
//! Benchmarks state what they measure as a share of this. A `Peak` holds its memory, so that measuring again in
//! turn with something else costs milliseconds.

/// The loops, one set for each instruction set.
mod loops;

use crate::error::Result;
use crate::memory::Memory;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Bytes that a copy reads, and that it writes: more than any cache holds.
const BYTES: usize = 64 << 20;

/// Steps of arithmetic of one run on one thread: a few milliseconds.
const STEPS: u64 = 2_000_000;

/// Measures the peak of a number of threads.
#[derive(Debug)]
pub struct Peak {
    threads: usize,
    from: Memory,
    to: Memory,
}

impl Peak {
    /// Takes 128 MiB, and touches it.
    pub fn new(threads: usize) -> Result<Peak> {
        let touched = || -> Result<Memory> {
            let memory = Memory::zeroed(BYTES)?;
            // SAFETY: the block has `BYTES` bytes, and nobody else knows of it yet.
            unsafe { memory.as_ptr().write_bytes(1, BYTES) };
            Ok(memory)
        };
        Ok(Peak { threads: threads.max(1), from: touched()?, to: touched()? })
    }

    /// Operations a second of fused multiply-adds of f32 in registers, two operations each.
    pub fn f32_flops(&self) -> f64 {
        self.flops(loops::fma())
    }

    /// The same of products of bf16 pairs added to f32, where the processor has an instruction for that.
    pub fn bf16_flops(&self) -> Option<f64> {
        loops::dot_bf16().map(|run| self.flops(run))
    }

    /// Bytes a second, read and written, of copying memory past the caches.
    pub fn copy_bytes(&mut self) -> f64 {
        let (from, to) = (self.from.as_ptr() as usize, self.to.as_ptr() as usize);
        let copy = loops::copy();
        let took = self.timed(|thread| {
            let (at, len) = self.part(thread);
            // SAFETY: both blocks have `BYTES` bytes and are distinct, parts of threads are disjoint, and `&mut self`
            // keeps every other use away.
            unsafe { copy((from + at) as *const f32, (to + at) as *mut f32, len) };
        });
        2.0 * BYTES as f64 / took.as_secs_f64()
    }

    /// Bytes a second of reading memory.
    pub fn read_bytes(&self) -> f64 {
        let from = self.from.as_ptr() as usize;
        let read = loops::read();
        let took = self.timed(|thread| {
            let (at, len) = self.part(thread);
            // SAFETY: the block has `BYTES` bytes, written by `new` and by nobody since.
            std::hint::black_box(unsafe { read((from + at) as *const f32, len) });
        });
        BYTES as f64 / took.as_secs_f64()
    }

    fn flops(&self, run: loops::Arithmetic) -> f64 {
        let took = self.timed(|_| _ = std::hint::black_box((run.steps)(STEPS)));
        (self.threads as u64 * STEPS * run.flops_per_step) as f64 / took.as_secs_f64()
    }

    /// Where a thread's part starts, in bytes, and how many f32 it has.
    fn part(&self, thread: usize) -> (usize, usize) {
        let blocks = BYTES / loops::BLOCK_BYTES;
        let start = |thread: usize| thread * blocks / self.threads * loops::BLOCK_BYTES;
        (start(thread), (start(thread + 1) - start(thread)) / size_of::<f32>())
    }

    /// Runs the work of every thread at once; the time from when all are ready until the last one is done.
    fn timed(&self, work: impl Fn(usize) + Sync) -> Duration {
        let barrier = Barrier::new(self.threads);
        let start = std::thread::scope(|scope| {
            for thread in 1..self.threads {
                let (work, barrier) = (&work, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    work(thread);
                });
            }
            barrier.wait();
            let start = Instant::now();
            work(0);
            start
        });
        start.elapsed()
    }
}
