//! The loops that [`Peak`](super::Peak) times. The widest set that the processor has is looked up each time; without
//! any, plain Rust.

/// Bytes that a turn of the copying and reading loops handles; parts of threads are multiples of it.
pub(super) const BLOCK_BYTES: usize = 4 * LINE * size_of::<f32>();

/// f32 in a cache line, and in the widest register.
const LINE: usize = 16;

/// Sums that do not wait for each other: latency times width of every processor's multiply-add is less.
const SUMS: usize = 12;

/// Arithmetic in registers.
pub(super) struct Arithmetic {
    /// Runs a number of steps, and returns something of all of them.
    pub(super) steps: fn(u64) -> f32,
    /// Additions and multiplications of one step.
    pub(super) flops_per_step: u64,
}

/// Copies so many f32, a multiple of [`BLOCK_BYTES`], from the first pointer to the second; both are aligned to a line.
pub(super) type Copy = unsafe fn(*const f32, *mut f32, usize);

/// Adds up so many f32, a multiple of [`BLOCK_BYTES`], aligned to a line.
pub(super) type Read = unsafe fn(*const f32, usize) -> f32;

/// Multiply-adds of f32.
pub(super) fn fma() -> Arithmetic {
    #[cfg(target_arch = "x86_64")]
    if let Some(found) = x86::fma() {
        return found;
    }
    Arithmetic { steps: plain_fma, flops_per_step: (2 * SUMS * LINE) as u64 }
}

/// Products of pairs of bf16 added to f32.
pub(super) fn dot_bf16() -> Option<Arithmetic> {
    #[cfg(target_arch = "x86_64")]
    return x86::dot_bf16();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Copying past the caches where that is possible.
pub(super) fn copy() -> Copy {
    #[cfg(target_arch = "x86_64")]
    if let Some(found) = x86::copy() {
        return found;
    }
    plain_copy
}

/// Reading.
pub(super) fn read() -> Read {
    #[cfg(target_arch = "x86_64")]
    if let Some(found) = x86::read() {
        return found;
    }
    plain_read
}

/// A factor and a term that keep every sum finite, unknown to the compiler.
fn operands() -> (f32, f32) {
    (std::hint::black_box(0.999), std::hint::black_box(0.001))
}

fn plain_fma(steps: u64) -> f32 {
    let (factor, term) = operands();
    let mut sums = [[0.0f32; LINE]; SUMS];
    for _ in 0..steps {
        for lane in sums.iter_mut().flatten() {
            *lane = *lane * factor + term;
        }
    }
    sums.iter().flatten().sum()
}

/// # Safety
/// As [`Copy`].
unsafe fn plain_copy(from: *const f32, to: *mut f32, len: usize) {
    // SAFETY: the caller has `len` elements at both, which do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

/// # Safety
/// As [`Read`].
unsafe fn plain_read(from: *const f32, len: usize) -> f32 {
    // SAFETY: the caller has `len` initialised elements there.
    let data = unsafe { std::slice::from_raw_parts(from, len) };
    let mut sums = [0.0f32; 4 * LINE];
    for block in data.chunks_exact(4 * LINE) {
        sums.iter_mut().zip(block).for_each(|(sum, x)| *sum += x);
    }
    sums.iter().sum()
}

/// With vectors of 64 or 32 bytes.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Arithmetic, Copy, LINE, Read, SUMS, operands};
    use std::arch::x86_64::*;

    /// The loops of one instruction set. `$lanes` f32 are in a vector.
    macro_rules! loops {
        ($module:ident, $features:literal, $lanes:literal, $vector:ty, $splat:ident, $zero:ident, $fma:ident, $add:ident,
         $load:ident, $stream:ident, $store:ident) => {
            mod $module {
                use super::*;

                pub(super) const FLOPS: u64 = (2 * SUMS * $lanes) as u64;

                pub(super) fn fma(steps: u64) -> f32 {
                    // SAFETY: `super` looks for the features before it hands this out.
                    unsafe { sums(steps) }
                }

                #[target_feature(enable = $features)]
                fn sums(steps: u64) -> f32 {
                    let (factor, term) = operands();
                    let (factor, term) = ($splat(factor), $splat(term));
                    let mut sums = [$zero(); SUMS];
                    for _ in 0..steps {
                        for sum in &mut sums {
                            *sum = $fma(*sum, factor, term);
                        }
                    }
                    total(&sums)
                }

                #[target_feature(enable = $features)]
                fn total(sums: &[$vector]) -> f32 {
                    let mut all = $zero();
                    for sum in sums {
                        all = $add(all, *sum);
                    }
                    let mut lanes = [0.0f32; $lanes];
                    // SAFETY: the array is as long as the vector.
                    unsafe { $store(lanes.as_mut_ptr(), all) };
                    lanes.iter().sum()
                }

                /// # Safety
                /// As [`Copy`], on a processor with the features.
                #[target_feature(enable = $features)]
                pub(super) unsafe fn copy(from: *const f32, to: *mut f32, len: usize) {
                    for at in (0..len).step_by(4 * LINE) {
                        for i in (at..at + 4 * LINE).step_by($lanes) {
                            // SAFETY: `len` is a multiple of the block, both pointers are aligned to a line.
                            unsafe { $stream(to.add(i), $load(from.add(i))) };
                        }
                    }
                    // whoever reads next sees what was streamed
                    _mm_sfence();
                }

                /// # Safety
                /// As [`Read`], on a processor with the features.
                #[target_feature(enable = $features)]
                pub(super) unsafe fn read(from: *const f32, len: usize) -> f32 {
                    let mut sums = [$zero(); 4 * LINE / $lanes];
                    for at in (0..len).step_by(4 * LINE) {
                        for (i, sum) in sums.iter_mut().enumerate() {
                            // SAFETY: `len` is a multiple of the block, the pointer is aligned to a line.
                            *sum = $add(*sum, unsafe { $load(from.add(at + i * $lanes)) });
                        }
                    }
                    total(&sums)
                }
            }
        };
    }

    loops!(
        wide,
        "avx512f",
        16,
        __m512,
        _mm512_set1_ps,
        _mm512_setzero_ps,
        _mm512_fmadd_ps,
        _mm512_add_ps,
        _mm512_load_ps,
        _mm512_stream_ps,
        _mm512_storeu_ps
    );
    loops!(
        half,
        "avx2,fma",
        8,
        __m256,
        _mm256_set1_ps,
        _mm256_setzero_ps,
        _mm256_fmadd_ps,
        _mm256_add_ps,
        _mm256_load_ps,
        _mm256_stream_ps,
        _mm256_storeu_ps
    );

    fn is_wide() -> bool {
        is_x86_feature_detected!("avx512f")
    }

    fn is_half() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }

    pub(super) fn fma() -> Option<Arithmetic> {
        let wide = || Arithmetic { steps: wide::fma, flops_per_step: wide::FLOPS };
        let half = || Arithmetic { steps: half::fma, flops_per_step: half::FLOPS };
        is_wide().then(wide).or_else(|| is_half().then(half))
    }

    pub(super) fn copy() -> Option<Copy> {
        is_wide().then_some(wide::copy as Copy).or_else(|| is_half().then_some(half::copy as Copy))
    }

    pub(super) fn read() -> Option<Read> {
        is_wide().then_some(wide::read as Read).or_else(|| is_half().then_some(half::read as Read))
    }

    pub(super) fn dot_bf16() -> Option<Arithmetic> {
        let has = is_wide() && is_x86_feature_detected!("avx512bf16");
        has.then_some(Arithmetic { steps: dot, flops_per_step: (4 * SUMS * LINE) as u64 })
    }

    fn dot(steps: u64) -> f32 {
        // SAFETY: `dot_bf16` looks for the features before it hands this out.
        unsafe { dots(steps) }
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn dots(steps: u64) -> f32 {
        let (factor, _) = operands();
        let pairs = _mm512_cvtne2ps_pbh(_mm512_set1_ps(factor), _mm512_set1_ps(factor));
        let mut sums = [_mm512_setzero_ps(); SUMS];
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, pairs, pairs);
            }
        }
        sums.iter().map(|sum| _mm512_reduce_add_ps(*sum)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever set the processor has does what plain Rust does.
    #[test]
    fn loops_copy_and_add_up() {
        let mut memory = vec![0.0f32; 3 * 4 * LINE + LINE];
        let start = memory.as_ptr().align_offset(64);
        let from = &mut memory[start..start + 2 * 4 * LINE];
        from.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
        let mut other = vec![0.0f32; 2 * 4 * LINE + LINE];
        let at = other.as_ptr().align_offset(64);
        for (copy, read) in [(copy(), read()), (plain_copy as Copy, plain_read as Read)] {
            other.fill(0.0);
            // SAFETY: two blocks, aligned to a line, are at both places.
            let sum = unsafe {
                copy(from.as_ptr(), other.as_mut_ptr().add(at), from.len());
                read(from.as_ptr(), from.len())
            };
            assert_eq!(&other[at..at + from.len()], from);
            assert_eq!(sum, (0..from.len()).sum::<usize>() as f32);
        }
    }

    #[test]
    fn arithmetic_counts_its_steps() {
        let plain = Arithmetic { steps: plain_fma, flops_per_step: (2 * SUMS * LINE) as u64 };
        for run in [fma(), plain] {
            let sums = run.flops_per_step / 2;
            assert_eq!((run.steps)(0), 0.0);
            let one = (run.steps)(1);
            assert!((one - sums as f32 * 0.001).abs() < 1e-5 * sums as f32, "{one}");
        }
        if let Some(run) = dot_bf16() {
            assert!((run.steps)(1) > 0.9 * (run.flops_per_step / 2) as f32);
        }
    }
}
