//! Hot schedules: a graph that comes again and again with the same numbers. Its general kernels get code for these numbers alone.
//!
//! General code takes some tenths longer, compiling about ten milliseconds. So a kernel is compiled once its launches have lost
//! about as much (the rule of the ski rental: Karlin, Manasse, Rudolph, Sleator, "Competitive Snoopy Caching", 1988). The new
//! code adds up in the same order, and so gives the bits that the general code gave. When it comes depends on how often the
//! graph came, and on no clock: the same program compiles the same kernels.

use super::cache::{self, Code, Ready, ReadyKernel};
use super::device::{self, Opened};
use super::parallel::in_parallel;
use crate::device::Device;
use kiln_ir::UOp;
use rustc_hash::{FxHashMap, FxHashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A schedule is looked at after so many runs, and again each time that these have become twice as many. Most graphs
/// come a few times only, as prompts of one length do.
const FEWEST_RUNS: u64 = 16;

/// Iterations of a kernel, in all of its launches, that are worth code of its own: about 40 milliseconds.
const MANY_ITERATIONS: u64 = 4_000_000_000;

/// Counts that the schedule of a graph with this key was found again. Returns it, or what takes its place from here on.
pub(super) fn counted(ready: Arc<Ready>, key: u128, device: &Device) -> Arc<Ready> {
    let Some(better) = improved(&ready, device) else { return ready };
    let better = Arc::new(better);
    cache::keep_as(key, device, &better);
    better
}

/// The schedule with new code, if this run is one after which some kernel is worth it.
fn improved(ready: &Ready, device: &Device) -> Option<Ready> {
    let runs = ready.runs.fetch_add(1, Relaxed) + 1;
    let is_time = runs >= FEWEST_RUNS && runs.is_power_of_two();
    let is_hot = |kernel: &ReadyKernel| {
        let iterations = kernel.work.map_or(0, |work| work.iterations);
        kernel.specialization.is_some() && iterations.saturating_mul(runs) >= MANY_ITERATIONS
    };
    if !is_time || !ready.kernels.iter().any(is_hot) {
        return None;
    }
    let hot: Vec<usize> = (0..ready.kernels.len()).filter(|&k| is_hot(&ready.kernels[k])).collect();
    let codes = codes(ready, &hot, &device::open(device).ok()?);
    let mut kernels = ready.kernels.clone();
    for (k, code) in hot.into_iter().zip(codes) {
        let kernel = &mut kernels[k];
        // without code of its own it stays general, and is not tried again
        kernel.specialization = None;
        if let Some(code) = code {
            (kernel.code, kernel.work) = (code, None);
            kernel.numbers.clear();
        }
    }
    Some(ready.with(kernels, runs))
}

/// Code for the numbers of each of these kernels. None where no options give the same order of sums.
fn codes(ready: &Ready, hot: &[usize], opened: &Opened) -> Vec<Option<Arc<Code>>> {
    let both = |&k: &usize| ready.kernels[k].specialization.as_ref().and_then(|both| both());
    let all: Vec<Option<[UOp; 2]>> = hot.iter().map(both).collect();
    // layers of one shape share their code
    let mut seen = FxHashSet::default();
    let of_kernels = hot.iter().zip(&all).filter_map(|(&k, both)| Some((k, both.as_ref()?)));
    let new: Vec<(usize, &[UOp; 2])> = of_kernels.filter(|(_, both)| seen.insert(*both)).collect();
    let compiled = |&(k, both): &(usize, &[UOp; 2])| {
        let ([general, exact], code) = (both, &ready.kernels[k].code);
        let code = cache::compile_in_order(exact, (general, &code.compiled.applied), opened);
        Ok::<_, Infallible>((both.clone(), code))
    };
    let Ok(codes) = in_parallel(&new, compiled);
    let codes: FxHashMap<[UOp; 2], Option<Arc<Code>>> = codes.into_iter().collect();
    all.iter().map(|both| codes[both.as_ref()?].clone()).collect()
}
