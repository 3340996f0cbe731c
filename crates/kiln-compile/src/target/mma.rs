//! Matrix units (`Op::Mma`): instructions that multiply small matrices of packed 32-bit words.

use kiln_ir::DType;

/// An instruction that multiplies two matrices in registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mma {
    /// The narrow types of the first and the second operand; a u32 holds as many as fit.
    pub parts: [DType; 2],
    /// The type of the accumulator.
    pub sum: DType,
    /// Rows of the first operand, its columns (words), columns of the second.
    pub shape: [u16; 3],
    /// How many registers there are.
    pub registers: usize,
    /// LLVM's name of the instruction, after `llvm.`, which takes the numbers of three registers.
    pub intrinsic: &'static str,
    /// LLVM's names of the features that a processor must have.
    features: [&'static str; 2],
}

impl Mma {
    /// Those that a processor with the features has.
    pub fn of(has: impl Fn(&str) -> bool) -> Vec<Mma> {
        ALL.iter().filter(|unit| unit.features.iter().all(|f| has(f))).copied().collect()
    }

    /// Elements of an accumulator.
    pub fn lanes(&self) -> u16 {
        self.shape[0] * self.shape[2]
    }
}

/// The features of matrix units. A process may use one only after the system has allowed it.
pub(super) const FEATURES: [&str; 3] = ["amx-tile", "amx-bf16", "amx-int8"];

/// AMX: eight registers of 16 rows of 64 bytes.
const fn amx(parts: [DType; 2], sum: DType, feature: &'static str, name: &'static str) -> Mma {
    let (shape, features) = ([16; 3], [FEATURES[0], feature]);
    Mma { parts, sum, shape, registers: 8, intrinsic: name, features }
}

/// Bytes with or without a sign; exact.
const fn bytes(x: DType, y: DType, intrinsic: &'static str) -> Mma {
    amx([x, y], DType::I32, FEATURES[2], intrinsic)
}

/// For bf16 the unit keeps two accumulators, one for each number of a pair, and adds them at the end of each product.
/// Subnormal numbers count as zero.
const ALL: &[Mma] = &[
    amx([DType::BF16; 2], DType::F32, FEATURES[1], "x86.tdpbf16ps"),
    bytes(DType::U8, DType::I8, "x86.tdpbusd"),
    bytes(DType::I8, DType::U8, "x86.tdpbsud"),
    bytes(DType::I8, DType::I8, "x86.tdpbssd"),
    bytes(DType::U8, DType::U8, "x86.tdpbuud"),
];
