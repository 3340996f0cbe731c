//! The CPU device: kernels as machine code. Modules in the order of a kernel's life:

/// Settings.
pub mod config;
/// The processor.
pub mod host;
mod features;
mod compiler;
mod llvm;
mod cc;
mod process;
mod codes;
mod loader;
mod lines;
mod reloc;
mod symbols;
mod launch;
mod matrices;
mod workers;
mod queue;
mod blocks;
mod place;

use crate::buffer::Buffer;
use crate::cache::DiskCache;
use crate::device::{Backend, Kernel, Loaded};
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::warnings::warn_once;
use codes::Codes;
use compiler::Compiler;
use config::{Choice, CpuConfig};
use host::Host;
use kiln_ir::program::Program;
use launch::CpuKernel;
use std::sync::{Arc, OnceLock};
use workers::Workers;

/// The language in which a CPU takes its kernels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rung {
    /// LLVM IR, compiled in this process.
    Llvm,
    /// C, compiled by a compiler process.
    C,
}

/// The device.
pub struct CpuBackend {
    rung: Rung,
    host: Host,
    codes: Arc<Codes>,
    pool: Arc<Pool>,
    workers: Arc<Workers>,
}

/// Opens the best rung of the ladder, or the one that is asked for. Where nothing works, the error lists what was tried
/// (and the caller may interpret instead).
pub fn open(config: &CpuConfig, rung: Option<Rung>) -> Result<CpuBackend> {
    let host = Host::detect();
    let disk = DiskCache::new(config.cache.clone(), config.cache_limit);
    let mut tried = Vec::new();
    if rung != Some(Rung::C) {
        let all = llvm::candidates(config).into_iter().map(boxed).collect();
        if let Some(compiler) = first_usable(all, &disk, &host, &config.llvm, "LLVM", &mut tried) {
            return Ok(CpuBackend::new(Rung::Llvm, compiler, config, host, disk));
        }
    }
    if rung != Some(Rung::Llvm) {
        let all = cc::candidates(config).into_iter().map(boxed).collect();
        if let Some(compiler) = first_usable(all, &disk, &host, &config.cc, "CC", &mut tried) {
            return Ok(CpuBackend::new(Rung::C, compiler, config, host, disk));
        }
    }
    Err(Error::NoCompiler { tried })
}

fn boxed(compiler: impl Compiler + 'static) -> Box<dyn Compiler> {
    Box::new(compiler)
}

/// The first compiler that works. One that the disk cache knows has worked here, so it is not even opened.
fn first_usable(
    all: Vec<Box<dyn Compiler>>,
    disk: &DiskCache,
    host: &Host,
    choice: &Choice,
    name: &str,
    tried: &mut Vec<String>,
) -> Option<Box<dyn Compiler>> {
    match choice {
        Choice::Hidden => tried.push(format!("KILN_{name}=none hides a compiler")),
        Choice::Search if all.is_empty() => tried.push(format!("{name}: none found")),
        Choice::Search | Choice::Path(_) => {}
    }
    for compiler in all {
        if disk.knows(&codes::maker(&*compiler, &host.identity)) {
            return Some(compiler);
        }
        match compiler.check() {
            Ok(()) => return Some(compiler),
            Err(why) => {
                let what = format!("{}: {why}", compiler.describe());
                if let Choice::Path(_) = choice {
                    warn_once(format!("KILN_{name} cannot be used: {what}"));
                }
                tried.push(what);
            }
        }
    }
    None
}

/// Copies of twice as many bytes, and more, are shared by threads, as much at once.
const COPIED_AT_ONCE: usize = 1 << 20;

impl CpuBackend {
    fn new(
        rung: Rung,
        compiler: Box<dyn Compiler>,
        config: &CpuConfig,
        host: Host,
        disk: DiskCache,
    ) -> CpuBackend {
        let codes = Arc::new(Codes::new(compiler, &host.identity, disk));
        let workers = Arc::new(Workers::new(config.threads.unwrap_or(host.threads)));
        CpuBackend { rung, host, codes, pool: config.pool.clone(), workers }
    }

    /// The language that programs must be rendered in.
    pub fn rung(&self) -> Rung {
        self.rung
    }

    /// The processor, for the description of the target.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Asks the system for the use of matrix units, which programs with `Op::Mma` need.
    ///
    /// # Errors
    /// There are none, or the system does not allow it.
    pub fn allow_matrices(&self) -> Result<()> {
        matrices::allow()
    }

    /// Whether the compiler, which is LLVM, writes code for the processor of this name. What was found is noted.
    ///
    /// # Errors
    /// Why it does not.
    pub fn writes_for(&self, cpu: &str) -> Result<()> {
        let about = format!("processor {cpu}");
        if self.note(&about).is_none() {
            let attributes = format!("\"target-cpu\"=\"{cpu}\" \"target-features\"=\"\"");
            let nothing = format!("define void @kiln_entry() {attributes} {{\n  ret void\n}}\n");
            self.codes.compiler.compile(&nothing, false)?;
            self.set_note(&about, "known");
        }
        Ok(())
    }

    fn load_code(&self, program: &Program, lines: bool) -> Result<Loaded> {
        let (code, origin) = self.codes.get(&program.source, lines)?;
        let kernel = CpuKernel::new(program, code, self.codes.clone(), self.workers.clone())?;
        Ok(Loaded { kernel: Arc::new(kernel), origin })
    }

    /// How many threads share a launch.
    pub fn threads(&self) -> usize {
        self.workers.count()
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &str {
        match self.rung {
            Rung::Llvm => "CPU:LLVM",
            Rung::C => "CPU:C",
        }
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        Buffer::new(&self.pool, bytes)
    }

    fn another(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(CpuBackend {
            rung: self.rung,
            host: self.host.clone(),
            codes: self.codes.clone(),
            pool: self.pool.another(),
            workers: self.workers.clone(),
        }))
    }

    fn reaches(&self, buffer: &Buffer) -> bool {
        buffer.is_of(&self.pool)
    }

    fn copy(&self, from: &Buffer, to: &Buffer) -> Result<()> {
        let parts = to.len() / COPIED_AT_ONCE;
        if parts < 2 || from.len() != to.len() || from.overlaps(to) {
            return to.copy_from(from);
        }
        let copy = |part: usize| {
            let start = part * COPIED_AT_ONCE;
            let end = if part + 1 == parts { to.len() } else { start + COPIED_AT_ONCE };
            to.view(start, end - start)?.copy_from(&from.view(start, end - start)?)
        };
        let failed = OnceLock::new();
        self.workers.share(parts, self.workers.count(), |mine| {
            if let Err(error) = mine.into_iter().try_for_each(copy) {
                let _ = failed.set(error);
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }

    fn load(&self, program: &Program) -> Result<Loaded> {
        self.load_code(program, false)
    }

    fn load_with_lines(&self, program: &Program) -> Result<Loaded> {
        self.load_code(program, self.rung == Rung::Llvm)
    }

    fn try_out(&self, program: &Program) -> Result<Arc<dyn Kernel>> {
        let code = Arc::new(self.codes.make_once(&program.source)?);
        let kernel = CpuKernel::new(program, code, self.codes.clone(), self.workers.clone())?;
        Ok(Arc::new(kernel))
    }

    fn note(&self, about: &str) -> Option<String> {
        self.codes.note(about)
    }

    fn set_note(&self, about: &str, text: &str) {
        self.codes.set_note(about, text);
    }

    fn compiler(&self) -> String {
        self.codes.compiler.describe()
    }

    fn pool(&self) -> Option<&Arc<Pool>> {
        Some(&self.pool)
    }
}
