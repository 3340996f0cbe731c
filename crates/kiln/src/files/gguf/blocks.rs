//! What quantized blocks stand for, as graphs over their bytes: integers of a few bits, times factors of the block and of
//! its parts. The layouts are those of `ggml-common.h` and the `gguf` package's `quants.py`.

use super::codebooks;
use super::kind::Kind;
use crate::{DType, Tensor};
use Kind::*;

/// The elements of blocks `[n, bytes]` of U8, as F32 `[n, elements]`.
pub(super) fn decoded(kind: Kind, blocks: &Tensor) -> Tensor {
    let b = Blocks(blocks.clone());
    let elements = match kind {
        Q4_0 => b.f16(0) * (float(&b.bits(2, 16, 16, 4)) - 8.0),
        Q4_1 => b.f16(0) * float(&b.bits(4, 16, 16, 4)) + b.f16(2),
        Q5_0 => b.f16(0) * (float(&(b.bits(6, 16, 16, 4) | b.bits(2, 4, 1, 1) << 4)) - 16.0),
        Q5_1 => b.f16(0) * float(&(b.bits(8, 16, 16, 4) | b.bits(4, 4, 1, 1) << 4)) + b.f16(2),
        Q8_0 => float(&b.bytes(2, 32).bitcast(DType::I8)) * b.f16(0),
        Q1_0 => b.f16(0) * (float(&b.bits(2, 16, 1, 1)) * 2.0 - 1.0),
        IQ4_NL => b.f16(0) * levels(&IQ4_LEVELS, &b.bits(2, 16, 16, 4)),
        MXFP4 => power_of_two(&b.bytes(0, 1)) * levels(&MXFP4_LEVELS, &b.bits(1, 16, 16, 4)),
        NVFP4 => {
            let scales = b.bytes(0, 4);
            axis(&e4m3(&scales)) * parts(&levels(&MXFP4_LEVELS, &b.bits(4, 32, 8, 4)), 4)
        }
        _ => large(kind, &b),
    };
    elements.reshape([-1i64, kind.block().0 as i64])
}

/// The same of blocks of 256 elements, whose parts have factors of their own.
fn large(kind: Kind, b: &Blocks) -> Tensor {
    match kind {
        TQ1_0 => b.f16(52) * (float(&ternary(b)) - 1.0),
        TQ2_0 => b.f16(64) * (float(&b.bits(0, 64, 32, 2)) - 1.0),
        Q2_K => {
            let (scales, mins) = (b.bytes(0, 16) & 15, b.bytes(0, 16) >> 4);
            let (scales, mins) = (b.f16(80) * float(&scales), b.f16(82) * float(&mins));
            parts(&b.bits(16, 64, 32, 2), 16) * axis(&scales) - axis(&mins)
        }
        Q3_K => {
            let scales = b.bits(96, 8, 8, 4) | b.bits(104, 4, 4, 2) << 4;
            let scales = b.f16(108) * (float(&scales) - 32.0);
            let high = (float(&b.bits(0, 32, 32, 1)) - 1.0) * 4.0;
            axis(&scales) * (parts(&b.bits(32, 64, 32, 2), 16) + high.reshape([-1i64, 16, 16]))
        }
        Q4_K => b.scaled(&b.bits(16, 128, 32, 4)),
        Q5_K => b.scaled(&(b.bits(48, 128, 32, 4) | b.bits(16, 32, 32, 1) << 4)),
        Q6_K => {
            let scales = b.f16(208) * float(&b.bytes(192, 16).bitcast(DType::I8));
            let values = b.bits(0, 128, 64, 4) | b.bits(128, 64, 32, 2) << 4;
            axis(&scales) * (parts(&values, 16) - 32.0)
        }
        IQ4_XS => {
            let high = bits_of(&b.bytes(2, 2).bitcast(DType::U16), 1, 2, 8).cast(DType::U8);
            let scales = b.f16(0) * (float(&(b.bits(4, 4, 1, 4) | high << 4)) - 32.0);
            let values = levels(&IQ4_LEVELS, &b.bits(8, 128, 16, 4));
            axis(&scales) * values.reshape([-1i64, 8, 32])
        }
        IQ2_XXS => {
            let words = b.bytes(2, 64).bitcast(DType::U32).reshape([-1i64, 8, 2]);
            let (places, rest) = (words.narrow(2, 0, 1), words.narrow(2, 1, 1).reshape([-1i64, 8]));
            let places = places.bitcast(DType::U8).reshape([-1i64, 32]);
            let scales = b.f16(0) * (float(&(&rest >> 28)) + 0.5) * 0.25;
            looked_up(&scales, &codebooks::IQ2_XXS, 2, &places, &signs_of(&rest))
        }
        IQ2_XS => {
            let words = b.bytes(2, 64).bitcast(DType::U16);
            let scales = b.f16(0) * (float(&b.bits(66, 8, 1, 4)) + 0.5) * 0.25;
            looked_up(&scales, &codebooks::IQ2_XS, 2, &(&words & 511), &with_parity(&(&words >> 9)))
        }
        IQ2_S => {
            let places = wide(&b.bytes(2, 32)) | wide(&b.bits(66, 8, 1, 2)) << 8;
            let scales = b.f16(0) * (float(&b.bits(74, 8, 1, 4)) + 0.5) * 0.25;
            looked_up(&scales, &codebooks::IQ2_S, 2, &places, &b.bytes(34, 32))
        }
        IQ3_XXS => {
            let words = b.bytes(66, 32).bitcast(DType::U32);
            let scales = b.f16(0) * (float(&(&words >> 28)) + 0.5) * 0.5;
            looked_up(&scales, &codebooks::IQ3_XXS, 3, &b.bytes(2, 64), &signs_of(&words))
        }
        IQ3_S => {
            let places = wide(&b.bytes(2, 64)) | wide(&b.bits(66, 8, 1, 1)) << 8;
            let scales = b.f16(0) * (float(&b.bits(106, 4, 1, 4)) * 2.0 + 1.0);
            looked_up(&scales, &codebooks::IQ3_S, 1, &places, &b.bytes(74, 32))
        }
        IQ1_S => {
            let words = b.bytes(34, 16).bitcast(DType::U16);
            let places = wide(&b.bytes(2, 32)) | bits_of(&words, 1, 3, 4) << 8;
            let scales = b.f16(0) * odd(&((&words >> 12) & 7));
            axis(&scales) * (parts(&signed(&places), 8) + axis(&eighth(&(&words >> 15))))
        }
        IQ1_M => {
            let (words, rest) = (b.bytes(48, 8).bitcast(DType::U16), b.bits(32, 16, 1, 4));
            let places = wide(&b.bytes(0, 32)) | wide(&(&rest & 7)) << 8;
            let scales = top_digits(&words) * odd(&bits_of(&words, 1, 3, 4));
            let values = parts(&signed(&places), 32) + axis(&eighth(&(&rest >> 3)));
            axis(&scales) * values.reshape([-1i64, 16, 16])
        }
        _ => unreachable!("{kind:?} is not of 256 elements"),
    }
}

/// The levels of four bits.
const IQ4_LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the numbers of the format e2m1.
const MXFP4_LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The bytes of blocks, `[n, bytes]`.
struct Blocks(Tensor);

impl Blocks {
    fn bytes(&self, start: usize, len: usize) -> Tensor {
        self.0.narrow(1, start as i64, len)
    }

    /// The factor at a byte, for all of its block.
    fn f16(&self, start: usize) -> Tensor {
        float(&self.bytes(start, 2).bitcast(DType::F16))
    }

    /// As [`bits_of`], of some of the bytes.
    fn bits(&self, start: usize, len: usize, run: usize, width: usize) -> Tensor {
        bits_of(&self.bytes(start, len), run, width, 8 / width)
    }

    /// Q4_K and Q5_K: eight parts, each with a factor and a minimum of six bits, packed into twelve bytes.
    fn scaled(&self, values: &Tensor) -> Tensor {
        let [low, mid, high] = [self.bytes(4, 4), self.bytes(8, 4), self.bytes(12, 4)];
        let top = |of: &Tensor| (of >> 2) & 48;
        let scales = Tensor::cat([&low & 63, (&high & 15) | top(&low)], 1);
        let mins = Tensor::cat([&mid & 63, (&high >> 4) | top(&mid)], 1);
        let (scales, mins) = (self.f16(0) * float(&scales), self.f16(2) * float(&mins));
        axis(&scales) * parts(values, 8) - axis(&mins)
    }
}

/// Fields of `width` bits: of each `run` words the lowest field, then of each the next, `n` of them.
fn bits_of(words: &Tensor, run: usize, width: usize, n: usize) -> Tensor {
    let shifts = Tensor::arange_with(n as i64, (words.dtype(), words.device())) * width as i64;
    let words = words.reshape([words.shape()[0] as i64, -1, 1, run as i64]);
    let fields = (words >> shifts.reshape([n, 1])) & ((1i64 << width) - 1);
    fields.reshape([fields.shape()[0] as i64, -1])
}

fn float(t: &Tensor) -> Tensor {
    t.cast(DType::F32)
}

fn wide(t: &Tensor) -> Tensor {
    t.cast(DType::U16)
}

/// One more axis, for the elements of each part.
fn axis(t: &Tensor) -> Tensor {
    t.unsqueeze(-1)
}

/// The elements of `n` parts, as floats.
fn parts(values: &Tensor, n: usize) -> Tensor {
    float(values).reshape([values.shape()[0] as i64, n as i64, -1])
}

/// The level that each number stands for.
fn levels(table: &[i8], values: &Tensor) -> Tensor {
    let table = Tensor::from(table.iter().map(|&x| f32::from(x)).collect::<Vec<f32>>());
    table.to(values.device()).take(values)
}

/// Half of the power of two that a byte is the exponent of, from 2^-128 on.
fn power_of_two(exponents: &Tensor) -> Tensor {
    let e = exponents.cast(DType::U32);
    let (small, normal) = (Tensor::full_like(&e, 0x20_0000) << &e, (&e - 1) << 23);
    e.lt(2).where_(small, normal).bitcast(DType::F32)
}

/// Half of a number of the format e4m3 without its sign, which here has no NaN: a byte of seven ones is 0.
fn e4m3(bytes: &Tensor) -> Tensor {
    let b = bytes.cast(DType::U32);
    let (exponent, mantissa) = ((&b >> 3) & 15, &b & 7);
    let normal = (((&exponent + 119) << 23) | (&mantissa << 20)).bitcast(DType::F32);
    let value = exponent.eq(0).where_(float(&mantissa) / 1024.0, normal);
    b.eq(127).where_(0.0, value)
}

/// The odd number after twice an integer.
fn odd(t: &Tensor) -> Tensor {
    float(t) * 2.0 + 1.0
}

/// An eighth, and for a bit of 1 its negative.
fn eighth(bit: &Tensor) -> Tensor {
    float(bit) * -0.25 + 0.125
}

/// An f16 out of the top digits of four words, the lowest first.
fn top_digits(words: &Tensor) -> Tensor {
    let digit = |i: usize| (words.narrow(1, i as i64, 1) >> 12) << (4 * i as i64);
    let all = (1..4).fold(digit(0), |all, i| all | digit(i));
    float(&all.bitcast(DType::F16))
}

/// Entries of the codebook of -1, 0 and 1.
fn signed(places: &Tensor) -> Tensor {
    let table = Tensor::from(&codebooks::IQ1).to(places.device());
    float(&bits_of(&table.take(&places.cast(DType::I32)), 1, 2, 8)) - 1.0
}

/// Five numbers of three values in a byte: powers of three bring each to the top.
fn ternary(b: &Blocks) -> Tensor {
    let powers = Tensor::from([1u8, 3, 9, 27, 81]).to(b.0.device());
    let digits = |start: usize, len: usize, n: usize| {
        let bytes = b.bytes(start, len).reshape([-1i64, 1, len as i64]);
        let top = bytes * powers.narrow(0, 0, n).reshape([n, 1]);
        ((wide(&top) * 3) >> 8).reshape([-1i64, (n * len) as i64])
    };
    Tensor::cat([digits(0, 32, 5), digits(32, 16, 5), digits(48, 4, 4)], 1)
}

/// Four bytes of eight signs out of each word: seven bits for a byte, which has an even number of them.
fn signs_of(words: &Tensor) -> Tensor {
    with_parity(&(bits_of(words, 1, 7, 4).cast(DType::U8)))
}

/// Seven bits, and the one that makes their number even.
fn with_parity(bits: &Tensor) -> Tensor {
    let folded = bits ^ &(bits >> 4);
    let folded = &folded ^ &(&folded >> 2);
    let folded = (&folded ^ &(&folded >> 1)) & 1;
    (bits | &(folded << 7)).cast(DType::U8)
}

/// Entries of a codebook with the signs of their levels, times the factors of the parts. `step` tells the levels: 2 for
/// two bits (8, 25, 43), 3 for three (4, 12, .. 52, 62), 1 for three that are odd numbers.
fn looked_up(
    scales: &Tensor,
    table: &[u16],
    step: usize,
    places: &Tensor,
    signs: &Tensor,
) -> Tensor {
    let table = Tensor::from(table).to(places.device());
    let entries = table.take(&places.cast(DType::I32));
    let (width, n) = if step == 2 { (2, 8) } else { (3, 4) };
    let fields = bits_of(&entries, 1, width, n);
    let x = float(&fields);
    let sizes = match step {
        1 => x * 2.0 + 1.0,
        2 => x * 17.0 + 8.0 + float(&fields.eq(2)),
        _ => x * 8.0 + 4.0 + float(&fields.eq(7)) * 2.0,
    };
    let negative = float(&bits_of(signs, 1, 1, 8)) * -2.0 + 1.0;
    axis(scales) * parts(&sizes, scales.shape()[1]) * parts(&negative, scales.shape()[1])
}
