//! Floats of eight bits: a sign, an exponent, and two or three bits of mantissa. They are stored, and computed with in f32.
//!
//! Conversions round to nearest even. What is too large becomes what PyTorch makes of it: the largest number (e4m3fn),
//! infinity (e5m2), NaN (the `fnuz` forms, which have neither infinity nor -0, and NaN where -0 would be).
//! (Micikevicius et al., "FP8 Formats for Deep Learning", 2022; Noune et al., "8-bit Numerical Formats for Deep Neural
//! Networks", 2022, for `fnuz`.)

/// What one of the four formats is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fp8 {
    /// Bits of the mantissa.
    pub mantissa: u32,
    /// What is added to the exponent.
    pub bias: u32,
    /// The bits of the largest number.
    pub largest: u32,
    /// The bits, without the sign, of what is larger.
    pub over: u32,
    /// The bits of NaN.
    pub nan: u32,
    /// Whether 0 and NaN have a sign of their own: else -0 is 0, and its bits are those of NaN.
    pub has_minus_zero: bool,
}

/// The bit of the sign.
pub const SIGN: u32 = 0x80;

impl Fp8 {
    /// Four bits of exponent, three of mantissa, one NaN, no infinity.
    pub const E4M3FN: Fp8 = Fp8::new((3, 7), 0x7e, 0x7e, 0x7f, true);
    /// Five bits of exponent, two of mantissa, infinities as in IEEE 754.
    pub const E5M2: Fp8 = Fp8::new((2, 15), 0x7b, 0x7c, 0x7f, true);
    /// As `E4M3FN`, with NaN where -0 would be.
    pub const E4M3FNUZ: Fp8 = Fp8::new((3, 8), 0x7f, SIGN, SIGN, false);
    /// As `E5M2`, with NaN where -0 would be, and no infinity.
    pub const E5M2FNUZ: Fp8 = Fp8::new((2, 16), 0x7f, SIGN, SIGN, false);

    const fn new(
        (mantissa, bias): (u32, u32),
        largest: u32,
        over: u32,
        nan: u32,
        has_minus_zero: bool,
    ) -> Fp8 {
        Fp8 { mantissa, bias, largest, over, nan, has_minus_zero }
    }

    /// The bits of `x`, rounded.
    pub fn encode(self, x: f32) -> u8 {
        if x.is_nan() {
            return self.nan as u8;
        }
        let size = x.abs().to_bits();
        let code = match size < self.least_normal() {
            true => (x.abs() + f32::from_bits(self.rounder())).to_bits() - self.rounder(),
            false => {
                let half = (1 << (self.shift() - 1)) - 1;
                (size - self.rebias() + half + ((size >> self.shift()) & 1)) >> self.shift()
            }
        };
        let code = if code > self.largest { self.over } else { code };
        let sign = if x.is_sign_negative() { SIGN } else { 0 };
        let is_signed = self.has_minus_zero || (code != 0 && code != SIGN);
        (if is_signed { code | sign } else { code }) as u8
    }

    /// The number that bits stand for.
    pub fn decode(self, bits: u8) -> f64 {
        let (bits, code) = (u32::from(bits), u32::from(bits) & !SIGN);
        if (!self.has_minus_zero && bits == SIGN) || (code > self.largest && code != self.over) {
            return f64::NAN;
        }
        let (exponent, fraction) = (code >> self.mantissa, code & ((1 << self.mantissa) - 1));
        let fraction = f64::from(fraction) * self.step();
        let size = match exponent {
            _ if code > self.largest => f64::INFINITY,
            0 => fraction,
            _ => {
                let power = (1u64 << (exponent - 1)) as f64;
                power * (fraction + self.step() * f64::from(1 << self.mantissa))
            }
        };
        if bits & SIGN != 0 { -size } else { size }
    }

    /// How far a float's bits are shifted to become an eight-bit float's.
    pub const fn shift(self) -> u32 {
        f32::MANTISSA_DIGITS - 1 - self.mantissa
    }

    /// What the two biases differ by, where a float has its exponent.
    pub const fn rebias(self) -> u32 {
        (127 - self.bias) << 23
    }

    /// The bits of the f32 that is the smallest number with a full mantissa.
    pub const fn least_normal(self) -> u32 {
        (128 - self.bias) << 23
    }

    /// The bits of the f32 that leaves, added to a smaller number than that, its bits in the lowest place.
    pub const fn rounder(self) -> u32 {
        (127 + 1 - self.bias + self.shift()) << 23
    }

    /// The smallest number above 0.
    pub fn step(self) -> f64 {
        (1.0 - f64::from(self.bias) - f64::from(self.mantissa)).exp2()
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::DType;

    #[test]
    fn every_number_comes_back() {
        for dtype in DType::FP8 {
            let format = dtype.fp8().expect("a format");
            for bits in 0..=255 {
                let x = format.decode(bits);
                let again = format.encode(x as f32);
                assert!(again == bits || (x.is_nan() && u32::from(again) == format.nan), "{bits}");
            }
        }
    }

    #[test]
    fn halves_go_to_even_numbers() {
        for dtype in DType::FP8 {
            let format = dtype.fp8().expect("a format");
            for bits in 0..format.largest as u8 {
                let (low, high) = (format.decode(bits), format.decode(bits + 1));
                let even = if bits % 2 == 0 { bits } else { bits + 1 };
                let half = ((low + high) / 2.0) as f32;
                assert_eq!(format.encode(half), even, "{dtype} {bits}");
                assert_eq!(format.encode(half.next_up()), bits + 1, "{dtype} {bits}");
                assert_eq!(format.encode(half.next_down()), bits, "{dtype} {bits}");
            }
        }
    }
}
