//! Converts slices of numbers to bytes and back, without a loop over them.

/// A number that is nothing but its bytes: it has no padding.
///
/// # Safety
/// Every byte of a value is initialised.
// SAFETY: whoever implements it says why.
pub unsafe trait Bytes: Copy {}

/// A number that any bytes are.
///
/// # Safety
/// Every pattern of bits is a value.
// SAFETY: whoever implements it says why.
pub unsafe trait Plain: Bytes {}

macro_rules! plain {
    ($($t:ty)*) => { $(
        // SAFETY: primitive numbers (`half`'s are transparent around `u16`) have no padding.
        unsafe impl Bytes for $t {}
        // SAFETY: each of their bit patterns is a number.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 half::f16 half::bf16);

// SAFETY: a bool is one byte, 0 or 1.
unsafe impl Bytes for bool {}

/// The bytes of some numbers.
pub fn bytes<T: Bytes>(numbers: &[T]) -> &[u8] {
    // SAFETY: all bytes of the slice are initialised, and bytes have no alignment.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_their_bytes() {
        assert_eq!(bytes(&[1u16, 0x0203]), [1u16, 0x0203].map(u16::to_ne_bytes).concat());
        assert_eq!(bytes(&[true, false]), [1, 0]);
        assert_eq!(bytes::<f64>(&[]), []);
    }
}
