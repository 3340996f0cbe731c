//! What a device's code may use, as plain data: vectors, registers, caches, instructions. No pass asks which device it
//! compiles for; it reads this table.

/// What things cost.
mod costs;
/// Instructions that multiply and add several numbers at once.
mod dots;
/// Instructions that multiply matrices.
mod mma;
/// What follows from the features of a processor.
mod machine;

pub use costs::{Costs, Row, Source};
pub(crate) use costs::{NS_PER_US, SHORTEST_ROW};
pub use dots::Dot;
pub use machine::Machine;
pub use mma::Mma;

pub(crate) use kiln_ir::program::LINE;

/// Smaller results are never written by streaming stores.
const LEAST_BYTES: usize = 4 << 20;

/// Bytes of scratch that any program may have. Others may have as much as the last cache holds.
pub(crate) const LEAST_SCRATCH: usize = 16 << 20;

/// The language that kernels are written in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Language {
    /// No text: the linear program itself is executed (INTERP) or counted (NULL).
    Linear,
    /// C99 with the vector extensions of GCC and Clang.
    C,
    /// LLVM IR.
    Llvm,
    /// OpenCL C 1.2.
    OpenCl,
}

/// How options are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Strategy {
    /// For a few threads, each with vectors and caches of its own.
    Threads,
    /// For thousands of work-items in groups.
    Groups(Groups),
}

/// What a device with work-groups allows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Groups {
    /// The most items of a group.
    pub most_items: usize,
    /// Bytes of the scratch that the items of a group share, at most.
    pub shared_bytes: usize,
    /// How many neighbouring items of a group exchange values by `Shuffle`; 1 where there is no such instruction.
    pub subgroup: usize,
}

/// The description of a device.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// The language of kernels.
    pub language: Language,
    /// How options are chosen.
    pub strategy: Strategy,
    /// What things cost.
    pub costs: Costs,
    /// LLVM's name for the processor, such as `znver4`; empty for the one that the compiler runs on.
    pub cpu: String,
    /// Bytes of the widest vector register; 0 means that no vectors should be made.
    pub vector_bytes: usize,
    /// Whether masked loads and stores are cheap, so that a loop need not be a multiple of a vector.
    pub masks: bool,
    /// How many vector registers there are.
    pub vector_registers: usize,
    /// Bytes of the first and second cache of a processor, and of the last one, which all processors share.
    pub cache_bytes: [usize; 3],
    /// Whether the target has streaming stores.
    pub streams: bool,
    /// Whether `MulAdd` is one fast instruction. If not, sums are never contracted.
    pub fma: bool,
    /// Instructions for `Op::Dot`; a sum of products uses the first that fits. A `Dot` without an instruction is
    /// expanded.
    pub dots: Vec<Dot>,
    /// Instructions for `Op::Mma`. Products without one are loops.
    pub mmas: Vec<Mma>,
    /// Bytes of the widest vector of f16 that its C compilers convert as a whole. Wider vectors are converted lane by
    /// lane.
    pub widened_bytes: usize,
    /// How many threads may share a launch.
    pub threads: usize,
    /// Whether work-groups exist: `Global` and `Local` ranges, scratch shared by a group, barriers.
    pub groups: bool,
}

impl Target {
    /// Whether its language has vectors of `lanes` elements: C has only powers of two.
    pub(crate) fn has_vectors_of(&self, lanes: i64) -> bool {
        self.language != Language::C || lanes & (lanes - 1) == 0
    }

    /// Whether results of so many bytes are written by streaming stores: they do not fit the last cache.
    pub(crate) fn goes_past_caches(&self, bytes: usize) -> bool {
        self.streams && bytes >= self.cache_bytes[2].max(LEAST_BYTES)
    }

    /// The most bytes of scratch of a thread: as much as the last cache holds.
    pub(crate) fn most_scratch(&self) -> usize {
        self.cache_bytes[2].max(LEAST_SCRATCH)
    }

    /// A device of OpenCL: everything scalar, in work-groups.
    pub fn opencl(groups: Groups) -> Target {
        Target {
            language: Language::OpenCl,
            strategy: Strategy::Groups(groups),
            cache_bytes: [groups.shared_bytes, 512 << 10, 4 << 20],
            ..Target::interp()
        }
    }

    /// The interpreter: everything scalar, work-groups allowed.
    pub fn interp() -> Target {
        Target {
            language: Language::Linear,
            strategy: Strategy::Threads,
            costs: Costs::CPU,
            cpu: String::new(),
            vector_bytes: 0,
            masks: false,
            vector_registers: 0,
            cache_bytes: [32 << 10, 512 << 10, 4 << 20],
            streams: false,
            fma: true,
            dots: Vec::new(),
            mmas: Vec::new(),
            widened_bytes: usize::MAX,
            threads: 1,
            groups: true,
        }
    }
}
