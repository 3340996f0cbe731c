//! A C compiler as a process: source to its standard input, object from a file, complaints into the error.

use super::compiler::{Compiler, file_identity};
use super::config::{Choice, CpuConfig};
use crate::error::{Error, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
}

/// Every C compiler that may be used, best first.
pub(super) fn candidates(config: &CpuConfig) -> Vec<Cc> {
    let of = |path: PathBuf| {
        let temp = config.cache.clone().filter(|folder| folder.is_dir());
        let identity = format!("{} {}", file_identity(&path), FLAGS_VERSION);
        Cc { identity, path, temp: temp.unwrap_or_else(std::env::temp_dir) }
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

    fn compile(&self, source: &str) -> Result<Vec<u8>> {
        let failed = |message| Error::Compile { compiler: self.describe(), message };
        let object = TempFile::new(&self.temp).map_err(|e| failed(e.to_string()))?;
        self.run(source, &object.0).map_err(failed)?;
        std::fs::read(&object.0).map_err(|e| failed(e.to_string()))
    }

    fn disassemble(&self, _: &[u8]) -> Option<String> {
        None
    }
}

impl Cc {
    fn run(&self, source: &str, object: &Path) -> Result<(), String> {
        let mut child = Command::new(&self.path)
            .args(MEANING)
            .args(SHAPE)
            .args(NATIVE)
            .args(["-x", "c", "-c", "-", "-o"])
            .arg(object)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let input = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // Both pipes at once: a compiler that complains before it has read everything must not block.
            scope.spawn(move || input.map(|mut input| input.write_all(source.as_bytes())));
            child.wait_with_output()
        });
        let output = output.map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("{}\n{}", output.status, said.trim_end()))
            }
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
            match std::fs::File::create_new(&path) {
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
