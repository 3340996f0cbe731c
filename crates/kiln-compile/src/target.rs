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

pub(crate) use costs::NS_PER_US;
pub use costs::{Costs, Row, Source};
pub use dots::Dot;
pub use machine::Machine;
pub use mma::Mma;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;
/// Smaller results are never written past the caches.
const LEAST_BYTES: usize = 4 << 20;

/// The language that kernels are written in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Language {
    /// No text: the linear program itself is executed (INTERP) or counted (NULL).
    Linear,
    /// C99 with the vector extensions of GCC and Clang.
    C,
    /// LLVM IR.
    Llvm,
}

/// The description of a device.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// The language of kernels.
    pub language: Language,
    /// What things cost.
    pub costs: Costs,
    /// LLVM's name for the processor, such as `znver4`; empty for the one that the compiler runs on.
    pub cpu: String,
    /// Bytes of the widest vector register; 0 means that no vectors should be made.
    pub vector_bytes: usize,
    /// Whether loads and stores of a part of a vector are cheap, so that a loop need not be a multiple of a vector.
    pub masks: bool,
    /// How many vector registers there are.
    pub vector_registers: usize,
    /// Bytes of the first and second cache of a processor, and of the last one, which all share.
    pub cache_bytes: [usize; 3],
    /// Whether stores may go past the caches.
    pub streams: bool,
    /// Whether `MulAdd` is one fast instruction; where not, sums never contract.
    pub fma: bool,
    /// Instructions for `Op::Dot`; a sum of products uses the first that fits. What none of them does is taken apart.
    pub dots: Vec<Dot>,
    /// Instructions for `Op::Mma`. What none of them does is left to loops.
    pub mmas: Vec<Mma>,
    /// Bytes of the widest vector that its C compilers make of vectors of f16 at once. A wider one is made lane by lane.
    pub widened_bytes: usize,
    /// How many threads may share a launch.
    pub threads: usize,
    /// Whether work-groups exist: `Global` and `Local` ranges, scratch shared by a group, barriers.
    pub groups: bool,
}

impl Target {
    /// Whether kernels can say that they read `lanes` neighbours at once: C has no vectors of other lengths than powers of 2.
    pub(crate) fn has_vectors_of(&self, lanes: i64) -> bool {
        self.language != Language::C || lanes & (lanes - 1) == 0
    }

    /// Whether results of so many bytes are written past the caches, where that is in whole lines: they do not fit.
    pub(crate) fn goes_past_caches(&self, bytes: usize) -> bool {
        self.streams && bytes >= self.cache_bytes[2].max(LEAST_BYTES)
    }

    /// The interpreter: everything scalar, work-groups allowed.
    pub fn interp() -> Target {
        Target {
            language: Language::Linear,
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
