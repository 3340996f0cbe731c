//! The best rates of this machine: multiply-adds and bytes a second, measured by loops that do nothing else.
//!
//! Benchmarks state their results as a share of this. A `Peak` keeps its memory, so measuring again in turn with
//! something else costs milliseconds.

/// The loops, one set for each instruction set.
mod loops;

use crate::error::Result;
use crate::memory::Memory;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::{Duration, Instant};

/// Bytes that a copy reads, and that it writes: more than any cache holds.
const BYTES: usize = 256 << 20;

/// Steps of arithmetic of one run on one thread: less than a millisecond, so that most runs fit between two turns that
/// the system gives to other work.
const STEPS: u64 = 200_000;

/// Runs of which the fastest counts. A peak is what undisturbed threads reach: one that was woken late, lost its
/// processor for a while or found the clock still low would make it less.
const RUNS: usize = 16;

/// Measures the peak of a number of threads.
#[derive(Debug)]
pub struct Peak {
    threads: usize,
    runs: usize,
    from: Memory,
    to: Memory,
}

impl Peak {
    /// Takes 512 MiB, and touches it.
    pub fn new(threads: usize) -> Result<Peak> {
        let touched = || -> Result<Memory> {
            let memory = Memory::zeroed(BYTES)?;
            // SAFETY: the block has `BYTES` bytes, and nobody else knows of it yet.
            unsafe { memory.as_ptr().write_bytes(1, BYTES) };
            Ok(memory)
        };
        Ok(Peak { threads: threads.max(1), runs: RUNS, from: touched()?, to: touched()? })
    }

    /// The same, of fewer runs: sooner done, and more easily disturbed.
    pub fn rough(threads: usize) -> Result<Peak> {
        Ok(Peak { runs: RUNS / 4, ..Peak::new(threads)? })
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

    /// The least time of several runs of the work, by every thread at once: from when all are ready until the last one
    /// is done.
    fn timed(&self, work: impl Fn(usize) + Sync) -> Duration {
        let (work, meeting) = (&work, &Meeting::default());
        let run = |thread: usize| {
            meeting.wait(self.threads);
            let start = Instant::now();
            work(thread);
            meeting.wait(self.threads);
            start.elapsed()
        };
        std::thread::scope(|scope| {
            for thread in 1..self.threads {
                scope.spawn(move || (0..self.runs).for_each(|_| _ = run(thread)));
            }
            (0..self.runs).map(|_| run(0)).min().expect("there are runs")
        })
    }
}

/// Threads wait for each other here, awake: waking one takes longer than the measured loops.
#[derive(Default)]
struct Meeting {
    arrived: AtomicUsize,
}

impl Meeting {
    /// Returns when so many threads have called it as often as this one.
    fn wait(&self, threads: usize) {
        let round = self.arrived.fetch_add(1, AcqRel) / threads;
        for turn in 0u64.. {
            if self.arrived.load(Acquire) >= (round + 1) * threads {
                break;
            }
            match turn % 1024 {
                // perhaps the others wait for this processor
                1023 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    }
}
