//! Timing kernels: memory for their arguments, and launches of all candidates in turn.

use super::super::Failure;
use super::super::device::Opened;
use kiln_compile::pipeline::Compiled;
use kiln_ir::program::Program;
use kiln_ir::uop::toposort;
use kiln_ir::{Arg, Const, DType, UOp, eval};
use kiln_runtime::{Buffer, Kernel};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A turn takes about this long, and is at most so many launches.
const TURN: Duration = Duration::from_micros(1500);
const MOST_LAUNCHES: u32 = 2000;
/// More memory than this is not asked for just to time a kernel.
const MOST_BYTES: usize = 1 << 30;
/// Elements of what arguments are filled with, again and again.
const PATTERN: usize = 61;

/// A kernel under some options, ready to run.
pub(super) struct Trial {
    pub(super) compiled: Compiled,
    pub(super) kernel: Arc<dyn Kernel>,
    /// The least time of a launch, over its turns.
    pub(super) least: Duration,
}

impl Trial {
    pub(super) fn new(compiled: Compiled, opened: &Opened) -> Result<Trial, Failure> {
        let kernel = opened.backend.try_out(&compiled.program).map_err(|e| e.to_string())?;
        Ok(Trial { compiled, kernel, least: Duration::MAX })
    }
}

/// The arguments that all trials of a kernel run with.
pub(super) struct Bench {
    buffers: Vec<Buffer>,
    vars: Vec<i64>,
}

impl Bench {
    /// None if the arguments are very large.
    pub(super) fn new(
        ast: &UOp,
        program: &Program,
        opened: &Opened,
    ) -> Result<Option<Bench>, Failure> {
        let bytes = |p: &kiln_ir::program::ParamInfo| p.len.saturating_mul(p.dtype.size());
        if program.params.iter().map(bytes).fold(0, usize::saturating_add) > MOST_BYTES {
            return Ok(None);
        }
        let buffer = |p: &kiln_ir::program::ParamInfo| {
            let buffer = opened
                .backend
                .alloc(bytes(p))
                .and_then(|buffer| buffer.write(&pattern(p.dtype, p.len)).map(|()| buffer));
            buffer.map_err(|e| e.to_string())
        };
        let buffers = program.params.iter().map(buffer).collect::<Result<_, Failure>>()?;
        Ok(Some(Bench { buffers, vars: scalars(ast, program.vars.len()) }))
    }

    /// One turn of a trial: what a launch takes.
    pub(super) fn turn(&self, trial: &mut Trial) -> Result<Duration, Failure> {
        let program = &trial.compiled.program;
        let n = self.launches(trial.least);
        let buffers = &self.buffers[..program.params.len().min(self.buffers.len())];
        let vars = &self.vars[..program.vars.len().min(self.vars.len())];
        let start = Instant::now();
        for _ in 0..n {
            trial.kernel.launch(buffers, vars).map_err(|e| e.to_string())?;
        }
        let took = start.elapsed() / n;
        trial.least = trial.least.min(took);
        Ok(took)
    }

    /// How many launches a turn has: one while nothing is known.
    fn launches(&self, each: Duration) -> u32 {
        if each == Duration::MAX {
            return 1;
        }
        (TURN.as_nanos() / each.as_nanos().max(1)).clamp(1, MOST_LAUNCHES as u128) as u32
    }

    /// The least and the median of the turns that each trial has, all one after the other, `rounds` times.
    pub(super) fn duel(
        &self,
        trials: &mut [&mut Trial],
        rounds: usize,
    ) -> Result<Vec<[Duration; 2]>, Failure> {
        let mut times = vec![Vec::new(); trials.len()];
        for _ in 0..rounds {
            for (trial, times) in trials.iter_mut().zip(&mut times) {
                times.push(self.turn(trial)?);
            }
        }
        times.iter_mut().for_each(|t| t.sort_unstable());
        Ok(times.iter().map(|t| [t[0], t[t.len() / 2]]).collect())
    }
}

/// Ordinary numbers: none that is slow to compute with, and positions that differ.
fn pattern(dtype: DType, len: usize) -> Vec<u8> {
    let number = |i: usize| match dtype.is_float() {
        true => Const::Float(0.5 + i as f64 / 64.0),
        false => Const::Int(i as i64),
    };
    let bytes = |i| eval::to_bits(number(i), dtype).to_le_bytes().into_iter().take(dtype.size());
    let once: Vec<u8> = (0..PATTERN).flat_map(bytes).collect();
    once.iter().copied().cycle().take(len * dtype.size()).collect()
}

/// One for every launch-time scalar, or what is nearest to that.
fn scalars(ast: &UOp, n: usize) -> Vec<i64> {
    let mut scalars = vec![1; n];
    for node in toposort(ast) {
        let Arg::Var { slot, min, max } = *node.arg() else { continue };
        if let Some(scalar) = scalars.get_mut(slot) {
            *scalar = match node.dtype().is_float() {
                true => eval::to_bits(Const::Float(1.0), node.dtype()) as i64,
                false => 1.clamp(min, max.max(min)),
            };
        }
    }
    scalars
}
