//! The trait of a compiler of CPU kernels, whichever language it reads.

use crate::error::Result;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A compiler: text in, relocatable object out. Used by several threads at once.
pub(super) trait Compiler: Send + Sync {
    /// Tells this compiler from every other one, without starting it.
    fn identity(&self) -> &str;

    /// For people: what it is and where it was found.
    fn describe(&self) -> String;

    /// Whether it can be used at all; may start it.
    fn check(&self) -> Result<(), String>;

    /// An object that defines `kiln_entry`. With `lines`, it also says of which line of the source each instruction is, if
    /// this compiler can show instructions; they are the same.
    fn compile(&self, source: &str, lines: bool) -> Result<Vec<u8>>;

    /// The instructions of machine code, if this compiler can tell.
    fn disassemble(&self, code: &[u8]) -> Option<Vec<Instruction>>;
}

/// An instruction: where it is in the code, and its text.
pub(super) type Instruction = (usize, String);

/// A file's path, size and time: another release of a compiler differs in one of them.
pub(super) fn file_identity(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let Ok(meta) = std::fs::metadata(&real) else {
        return real.display().to_string();
    };
    let changed = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{} {} {}", real.display(), meta.len(), changed.unwrap_or_default().as_nanos())
}
