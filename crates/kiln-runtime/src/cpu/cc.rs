//! A C compiler as a process: it reads the source from standard input and writes an object file. Its messages become
//! the error.

use super::compiler::{Compiler, Instruction, file_identity};
use super::config::{Choice, CpuConfig};
use super::process;
use crate::error::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The names to look for, fastest first.
const NAMES: [&str; 3] = ["clang", "gcc", "cc"];

/// The meaning of the C that kiln writes: every operation rounds on its own, integers wrap, memory has no types, and
/// nothing outside the kernel exists (so no headers of the system are needed either). Not
/// `-fno-trapping-math`: with it GCC turns `(float)(int)x` into `truncf(x)`, which is -0 for -0.5.
const MEANING: [&str; 6] = [
    "-std=gnu11",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    "-ffreestanding",
];

/// The shape of the code: for the loader, for this processor.
const SHAPE: [&str; 6] = [
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-w",
];

#[cfg(target_arch = "x86_64")]
const NATIVE: [&str; 2] = ["-march=native", "-fcf-protection=none"];
#[cfg(not(target_arch = "x86_64"))]
const NATIVE: [&str; 1] = ["-mcpu=native"];

/// A C compiler that was found.
pub(super) struct Cc {
    path: PathBuf,
    identity: String,
    /// For the object files, each of which lives as long as its compilation.
    temp: PathBuf,
    /// What it may take for a kernel.
    time: Duration,
}

/// More than any object has; what is longer is cut, and does not load.
const MOST_OBJECT: u64 = 256 << 20;

/// Every C compiler that may be used, best first.
pub(super) fn candidates(config: &CpuConfig) -> Vec<Cc> {
    let of = |path: PathBuf| {
        let temp = config.cache.clone().filter(|folder| folder.is_dir());
        let identity = format!("{} {}", file_identity(&path), FLAGS_VERSION);
        let temp = temp.unwrap_or_else(std::env::temp_dir);
        Cc { identity, path, temp, time: config.cc_time }
    };
    match &config.cc {
        Choice::Hidden => Vec::new(),
        Choice::Path(path) => vec![of(on_path(config, path).unwrap_or_else(|| path.clone()))],
        Choice::Search => {
            NAMES.iter().filter_map(|n| on_path(config, Path::new(n))).map(of).collect()
        }
    }
}

/// Part of the identity; changes with the flags above.
const FLAGS_VERSION: u32 = 1;

/// A program by its name.
fn on_path(config: &CpuConfig, name: &Path) -> Option<PathBuf> {
    config.path.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

impl Compiler for Cc {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn check(&self) -> Result<(), String> {
        match self.path.is_file() {
            true => Ok(()),
            false => Err("no such file".into()),
        }
    }

    fn compile(&self, source: &str, _: bool) -> Result<Vec<u8>> {
        let failed = |message| Error::Compile { compiler: self.describe(), message };
        let object = TempFile::new(&self.temp).map_err(|e| failed(e.to_string()))?;
        self.run(source, &object.0).map_err(failed)?;
        let file = File::open(&object.0).map_err(|e| failed(e.to_string()))?;
        let mut bytes = Vec::new();
        let read = file.take(MOST_OBJECT).read_to_end(&mut bytes);
        read.map_err(|e| failed(e.to_string()))?;
        Ok(bytes)
    }

    fn disassemble(&self, _: &[u8]) -> Option<Vec<Instruction>> {
        None
    }
}

impl Cc {
    fn run(&self, source: &str, object: &Path) -> Result<(), String> {
        let mut command = Command::new(&self.path);
        command.args(MEANING).args(SHAPE).args(NATIVE);
        command.args(["-x", "c", "-c", "-", "-o"]).arg(object);
        let output = process::run(command, source, self.time)?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("{}\n{}", output.status, output.said.trim_end())),
        }
    }
}

/// A new empty file that only we can write, removed at the end.
struct TempFile(PathBuf);

impl TempFile {
    fn new(folder: &Path) -> std::io::Result<TempFile> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = COUNT.fetch_add(1, Relaxed);
            let path = folder.join(format!("kiln-{}-{number}.o", std::process::id()));
            match File::create_new(&path) {
                Ok(_) => return Ok(TempFile(path)),
                // Left over from a process that had our id.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
