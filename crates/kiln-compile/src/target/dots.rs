//! Dot-product instructions (`Op::Dot`): each lane multiplies the numbers that are packed into two 32-bit words and
//! adds the products to an accumulator.

use kiln_ir::DType;

/// One such instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dot {
    /// The narrow types of the first and the second operand; a u32 holds as many as fit.
    pub parts: [DType; 2],
    /// The type of the accumulator.
    pub sum: DType,
    /// Lanes of the accumulator.
    pub lanes: u16,
    /// LLVM's name of the instruction, after `llvm.`, which takes the accumulator, then the operands.
    pub intrinsic: &'static str,
    /// LLVM's names of the features that a processor must have.
    features: [&'static str; 2],
}

impl Dot {
    /// Those that a processor with the features has.
    pub fn of(has: impl Fn(&str) -> bool) -> Vec<Dot> {
        ALL.iter().filter(|dot| dot.features.iter().all(|f| has(f))).copied().collect()
    }
}

/// Pairs of bf16, whose products are exact in f32. Subnormal numbers count as zero, and the processor decides the order
/// of a pair's two additions.
const fn pairs_of_bf16(lanes: u16, intrinsic: &'static str) -> Dot {
    let features = ["avx512bf16", "avx512vl"];
    Dot { parts: [DType::BF16; 2], sum: DType::F32, lanes, intrinsic, features }
}

/// Four bytes, the first operand's without and the second's with a sign; exact.
const fn fours_of_bytes(lanes: u16, intrinsic: &'static str) -> Dot {
    let features = ["avx512vnni", "avx512vl"];
    Dot { parts: [DType::U8, DType::I8], sum: DType::I32, lanes, intrinsic, features }
}

const ALL: &[Dot] = &[
    pairs_of_bf16(16, "x86.avx512bf16.dpbf16ps.512"),
    pairs_of_bf16(8, "x86.avx512bf16.dpbf16ps.256"),
    pairs_of_bf16(4, "x86.avx512bf16.dpbf16ps.128"),
    fours_of_bytes(16, "x86.avx512.vpdpbusd.512"),
    fours_of_bytes(8, "x86.avx512.vpdpbusd.256"),
    fours_of_bytes(4, "x86.avx512.vpdpbusd.128"),
];
