//! The types that elements of a GGUF file have.

use crate::DType;

macro_rules! kinds {
    ($($name:ident = $code:literal: $elements:literal in $bytes:literal,)*) => {
        /// A type of elements, by its number in the file.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "the format's names")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Kind { $($name = $code),* }

        impl Kind {
            pub(super) fn of(code: u32) -> Option<Kind> {
                match code {
                    $($code => Some(Kind::$name),)*
                    _ => None,
                }
            }

            /// How many elements a block has, in how many bytes.
            pub(super) fn block(self) -> (usize, usize) {
                match self { $(Kind::$name => ($elements, $bytes)),* }
            }
        }
    };
}
kinds! {
    F32 = 0: 1 in 4,
    F16 = 1: 1 in 2,
    Q4_0 = 2: 32 in 18,
    Q4_1 = 3: 32 in 20,
    Q5_0 = 6: 32 in 22,
    Q5_1 = 7: 32 in 24,
    Q8_0 = 8: 32 in 34,
    Q2_K = 10: 256 in 84,
    Q3_K = 11: 256 in 110,
    Q4_K = 12: 256 in 144,
    Q5_K = 13: 256 in 176,
    Q6_K = 14: 256 in 210,
    IQ2_XXS = 16: 256 in 66,
    IQ2_XS = 17: 256 in 74,
    IQ3_XXS = 18: 256 in 98,
    IQ1_S = 19: 256 in 50,
    IQ4_NL = 20: 32 in 18,
    IQ3_S = 21: 256 in 110,
    IQ2_S = 22: 256 in 82,
    IQ4_XS = 23: 256 in 136,
    I8 = 24: 1 in 1,
    I16 = 25: 1 in 2,
    I32 = 26: 1 in 4,
    I64 = 27: 1 in 8,
    F64 = 28: 1 in 8,
    IQ1_M = 29: 256 in 56,
    BF16 = 30: 1 in 2,
    TQ1_0 = 34: 256 in 54,
    TQ2_0 = 35: 256 in 66,
    MXFP4 = 39: 32 in 17,
    NVFP4 = 40: 64 in 36,
    Q1_0 = 41: 128 in 18,
}

impl Kind {
    /// The dtype of elements that are not quantized.
    pub(super) fn plain(self) -> Option<DType> {
        Some(match self {
            Kind::F32 => DType::F32,
            Kind::F16 => DType::F16,
            Kind::BF16 => DType::BF16,
            Kind::F64 => DType::F64,
            Kind::I8 => DType::I8,
            Kind::I16 => DType::I16,
            Kind::I32 => DType::I32,
            Kind::I64 => DType::I64,
            _ => return None,
        })
    }
}
