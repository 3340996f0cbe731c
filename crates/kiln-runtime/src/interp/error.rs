//! The memory that a program is given, and why it could not run to its end.

use kiln_ir::Op;
use std::cell::Cell;

/// The bytes of one argument. Arguments may overlap, as they may for compiled kernels.
pub type InterpBuffer<'a> = &'a [Cell<u8>];

/// Why a program could not run to its end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InterpError {
    /// An access past the end of a memory.
    #[error("kernel {kernel}: {op} number {at} accesses element {index} of {len} in {memory}")]
    OutOfBounds {
        /// The program's name.
        kernel: String,
        /// `Load` or `Store`.
        op: Op,
        /// Its position in the program.
        at: usize,
        /// Such as `param 2`.
        memory: String,
        /// The element that was asked for.
        index: i64,
        /// How many there are.
        len: usize,
    },
    /// Something that no linear program may contain.
    #[error("kernel {kernel}: op number {at}, {what}, cannot be executed")]
    Unsupported {
        /// The program's name.
        kernel: String,
        /// Its position in the program.
        at: usize,
        /// The op.
        what: String,
    },
    /// Some items of a work-group wait at a barrier that others never reach.
    #[error("kernel {kernel}: the items of a work-group wait at different barriers")]
    Divergent {
        /// The program's name.
        kernel: String,
    },
    /// Two work-items access an element, one of them writes, and no barrier is between.
    #[error("kernel {kernel}: {op} number {at} races with another item for element {index}")]
    Race {
        /// The program's name.
        kernel: String,
        /// `Load` or `Store`.
        op: Op,
        /// Its position in the program.
        at: usize,
        /// The element.
        index: i64,
    },
    /// Fewer buffers or launch-time scalars than the program has.
    #[error("kernel {kernel} was launched with too few {what}")]
    Missing {
        /// The program's name.
        kernel: String,
        /// What is missing.
        what: &'static str,
    },
}
