//! What runs programs: memory, compilers, loaders, launches. The only crate with `unsafe`. Modules in reading order:

/// Why something could not run.
pub mod error;
/// Things worth saying once.
pub mod warnings;
/// What happens at the end of the process.
pub mod exit;
/// Numbers as bytes.
pub mod plain;
/// A block of bytes from the system.
pub mod memory;
/// Freed blocks, kept for reuse.
pub mod pool;
/// How much memory a piece of a program takes.
pub mod meter;
/// Handles on ranges of memory.
pub mod buffer;
/// What a device must be able to do.
pub mod device;
/// Compiled kernels on disk.
pub mod cache;
/// Kernels as machine code of this processor.
pub mod cpu;
/// Executes programs in plain Rust: the oracle.
pub mod interp;
/// The device that only counts.
pub mod null;
/// Kernels for GPUs and others, through OpenCL.
pub mod opencl;
/// Files as memory.
pub mod disk;
/// What the machine can do at best.
pub mod peak;

pub use buffer::Buffer;
pub use device::{Backend, Kernel, Loaded, Origin, Prepared};
pub use error::{Error, Result};
