//! Launches loaded code: builds its arguments in C's form, divides the `Thread` range among processors, and gives each
//! thread scratch.

use super::codes::Codes;
use super::loader::{Code, Entry};
use super::matrices;
use super::workers::Workers;
use crate::buffer::Buffer;
use crate::device::{Kernel, Prepared, check_arguments, facts};
use crate::error::{Error, Result};
use crate::memory::{ALIGN, Memory};
use kiln_ir::observe::MachineCode;
use kiln_ir::program::{Program, value_at_launch};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Launches with less to do (operations plus bytes) stay on the calling thread: waking another one takes longer than
/// half of this much work (5 to 15 us; a product of 64 x 64 matrices takes 5).
const PARALLEL_FROM: f64 = 600_000.0;

/// A program that can run.
pub(super) struct CpuKernel {
    /// Without its ops and source.
    program: Program,
    code: Arc<Code>,
    codes: Arc<Codes>,
    workers: Arc<Workers>,
    /// Whether it uses matrix units.
    matrices: bool,
}

/// The arguments of one launch.
struct Call<'a> {
    entry: Entry,
    /// Valid as long as the buffers are borrowed, which they are for `'a`.
    buffers: SmallVec<[*mut u8; 8]>,
    vars: &'a [i64],
    scratch: usize,
}

// SAFETY: the pointers are only handed to the kernel, whose threads write disjoint elements.
unsafe impl Sync for Call<'_> {}

impl CpuKernel {
    pub(super) fn new(
        program: &Program,
        code: Arc<Code>,
        codes: Arc<Codes>,
        workers: Arc<Workers>,
    ) -> Result<CpuKernel> {
        if !program.global.is_empty() || !program.local.is_empty() {
            let message = format!("{} has work-groups, which a CPU does not", program.name);
            return Err(Error::Unsupported(message));
        }
        let matrices = program.has_matrices();
        Ok(CpuKernel { program: facts(program), code, codes, workers, matrices })
    }

    /// How many iterations the threads of a launch share.
    fn shared(&self, vars: &[i64]) -> Result<usize> {
        let count = value_at_launch(&self.program.threads, vars);
        let count = count.and_then(|count| usize::try_from(count).ok());
        count.ok_or_else(|| Error::Launch(format!("{} has no number of blocks", self.program.name)))
    }

    /// Into how many parts a launch of so many iterations is cut.
    fn parts(&self, shared: usize) -> usize {
        let most = self.program.threads.max().max(1) as f64;
        let work = self.program.flops.saturating_add(self.program.bytes) as f64;
        let is_short = work * shared as f64 / most < PARALLEL_FROM;
        if is_short { 1 } else { shared.clamp(1, self.workers.count()) }
    }
}

impl Kernel for CpuKernel {
    fn launch(&self, buffers: &[Buffer], vars: &[i64]) -> Result<()> {
        self.prepare(buffers, vars)?()
    }

    fn prepare<'a>(&'a self, buffers: &'a [Buffer], vars: &'a [i64]) -> Result<Prepared<'a>> {
        check_arguments(&self.program, buffers, vars)?;
        if self.matrices {
            matrices::allow()?;
        }
        let buffers = buffers.iter().map(Buffer::as_ptr).collect::<Result<_>>()?;
        let scratch = self.program.scratch_bytes;
        let call = Call { entry: self.code.entry(), buffers, vars, scratch };
        let shared = self.shared(vars)?;
        let (parts, workers) = (self.parts(shared), &*self.workers);
        Ok(Box::new(move || call.share(workers, shared, parts)))
    }

    fn size(&self) -> usize {
        self.program.size() + self.code.size()
    }

    fn disassemble(&self) -> Option<MachineCode> {
        let instructions = self.codes.compiler.disassemble(self.code.text())?;
        let text = instructions.iter().map(|(at, text)| format!("{at:6x}  {text}\n")).collect();
        let lines = self.code.lines();
        let lines = lines.map(|lines| instructions.iter().map(|(at, _)| lines.of(*at)).collect());
        Some(MachineCode { text, lines: lines.unwrap_or_default() })
    }
}

impl Call<'_> {
    /// Runs all blocks, in as many parts.
    fn share(&self, workers: &Workers, blocks: usize, parts: usize) -> Result<()> {
        let failure = Mutex::new(Ok(()));
        workers.share(blocks, parts, |blocks| {
            if let Err(error) = self.run(blocks) {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Err(error);
            }
        });
        failure.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which thread runs a block does not change what it computes.
    fn run(&self, blocks: Range<usize>) -> Result<()> {
        with_scratch(self.scratch, |scratch| {
            let (entry, buffers, vars) = (self.entry, self.buffers.as_ptr(), self.vars.as_ptr());
            // SAFETY: `check_arguments` has compared the buffers with what the program was made for, and the program
            // accesses nothing beyond them and `scratch` bytes of scratch; the specs of the compiler ensure it.
            unsafe { entry(buffers, vars, scratch, blocks.start as i64, blocks.end as i64) }
        })
    }
}

thread_local! {
    /// Grows to the largest that the thread has needed.
    static SCRATCH: RefCell<Option<Memory>> = const { RefCell::new(None) };
}

/// Lends this thread's scratch memory.
fn with_scratch(bytes: usize, run: impl FnOnce(*mut u8)) -> Result<()> {
    if bytes == 0 {
        run(std::ptr::without_provenance_mut(ALIGN));
        return Ok(());
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let memory = match scratch.take() {
            Some(memory) if memory.len() >= bytes => memory,
            _ => Memory::scratch(bytes)?,
        };
        run(scratch.insert(memory).as_ptr());
        Ok(())
    })
}
