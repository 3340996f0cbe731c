//! The functions that compiled code may call. Compilers call some on their own (`memcpy`). A builtin becomes a call of
//! another if the processor has no instruction for it.

use half::{bf16, f16};

/// The address of a function by its name in C.
pub(super) fn resolve(name: &str) -> Option<usize> {
    TABLE.iter().find(|(known, _)| *known == name).map(|(_, function)| function.0 as usize)
}

/// The address of a function.
struct Address(*const ());

// SAFETY: the address of a function may be known to every thread.
unsafe impl Sync for Address {}

macro_rules! table {
    ($($name:ident => $function:expr),* $(,)?) => {
        static TABLE: &[(&str, Address)] = &[$((stringify!($name), Address($function as *const ()))),*];
    };
}

table! {
    memcpy => libc::memcpy,
    memmove => libc::memmove,
    memset => libc::memset,
    memcmp => libc::memcmp,
    bcmp => libc::memcmp,
    __truncsfhf2 => f32_to_f16,
    __truncdfhf2 => f64_to_f16,
    __extendhfsf2 => f16_to_f32,
    __extendhfdf2 => f16_to_f64,
    __truncsfbf2 => f32_to_bf16,
    __truncdfbf2 => f64_to_bf16,
    __extendbfsf2 => bf16_to_f32,
    __eqhf2 => f16_differ,
    __nehf2 => f16_differ,
    __gnu_f2h_ieee => f32_to_f16_bits,
    __gnu_h2f_ieee => f16_bits_to_f32,
    __udivti3 => udivti3,
    __umodti3 => umodti3,
    __divti3 => divti3,
    __modti3 => modti3,
    fmaf => fmaf,
    fma => fma,
    sqrtf => sqrtf,
    sqrt => sqrt,
    floorf => floorf,
    floor => floor,
    ceilf => ceilf,
    ceil => ceil,
    truncf => truncf,
    trunc => trunc,
    rintf => rintf,
    rint => rint,
    nearbyintf => rintf,
    nearbyint => rint,
    roundevenf => rintf,
    roundeven => rint,
}

// A half is passed in the low 16 bits of a vector register, as a float is in the low 32. Rust has no stable half type,
// so these take and return floats whose low bits are the half. An old ABI passed halves as integers: the `_bits` ones.

fn low(half: f32) -> u16 {
    half.to_bits() as u16
}

fn in_low(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits))
}

extern "C" fn f32_to_f16(value: f32) -> f32 {
    in_low(f16::from_f32(value).to_bits())
}

extern "C" fn f64_to_f16(value: f64) -> f32 {
    in_low(f16::from_f64(value).to_bits())
}

extern "C" fn f16_to_f32(half: f32) -> f32 {
    f16::from_bits(low(half)).to_f32()
}

extern "C" fn f16_to_f64(half: f32) -> f64 {
    f16::from_bits(low(half)).to_f64()
}

/// Zero where they are equal, as the comparisons of GCC's runtime are.
extern "C" fn f16_differ(a: f32, b: f32) -> i32 {
    i32::from(f16::from_bits(low(a)) != f16::from_bits(low(b)))
}

extern "C" fn f32_to_bf16(value: f32) -> f32 {
    in_low(bf16::from_f32(value).to_bits())
}

extern "C" fn f64_to_bf16(value: f64) -> f32 {
    in_low(bf16::from_f64(value).to_bits())
}

extern "C" fn bf16_to_f32(half: f32) -> f32 {
    bf16::from_bits(low(half)).to_f32()
}

extern "C" fn f32_to_f16_bits(value: f32) -> u16 {
    f16::from_f32(value).to_bits()
}

extern "C" fn f16_bits_to_f32(half: u16) -> f32 {
    f16::from_bits(half).to_f32()
}

// Kernels never divide by zero; a zero yields zero here so that nothing can panic.

extern "C" fn udivti3(a: u128, b: u128) -> u128 {
    a.checked_div(b).unwrap_or(0)
}

extern "C" fn umodti3(a: u128, b: u128) -> u128 {
    a.checked_rem(b).unwrap_or(0)
}

extern "C" fn divti3(a: i128, b: i128) -> i128 {
    if b == 0 { 0 } else { a.wrapping_div(b) }
}

extern "C" fn modti3(a: i128, b: i128) -> i128 {
    if b == 0 { 0 } else { a.wrapping_rem(b) }
}

extern "C" fn fmaf(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

extern "C" fn fma(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

extern "C" fn sqrtf(x: f32) -> f32 {
    x.sqrt()
}

extern "C" fn sqrt(x: f64) -> f64 {
    x.sqrt()
}

extern "C" fn floorf(x: f32) -> f32 {
    x.floor()
}

extern "C" fn floor(x: f64) -> f64 {
    x.floor()
}

extern "C" fn ceilf(x: f32) -> f32 {
    x.ceil()
}

extern "C" fn ceil(x: f64) -> f64 {
    x.ceil()
}

extern "C" fn truncf(x: f32) -> f32 {
    x.trunc()
}

extern "C" fn trunc(x: f64) -> f64 {
    x.trunc()
}

extern "C" fn rintf(x: f32) -> f32 {
    x.round_ties_even()
}

extern "C" fn rint(x: f64) -> f64 {
    x.round_ties_even()
}
