//! Random numbers: Threefry-2x32 with 20 rounds, as tensor operations, so that every device gives the same bits.
//!
//! The n-th number after `manual_seed(s)` is the n-th of JAX's `random.bits(key(s), ..)`: the key is the seed's two
//! words, the counter the number's two words, and the bits are the exclusive or of both results.

mod draw;
mod initial;
mod pick;

use crate::jit::numbers;
use kiln_ir::{DType, Op, UOp};
use std::sync::Mutex;

/// Where a sequence of random numbers is.
#[derive(Debug)]
struct State {
    seed: u64,
    counter: u64,
}

/// A sequence of random numbers of one's own: what other threads draw does not change it.
///
/// The sequence is the one that [`manual_seed`] starts with the same seed.
///
/// ```
/// use kiln::{Rng, Tensor, manual_seed};
/// let rng = Rng::new(7);
/// manual_seed(7);
/// assert_eq!(rng.rand([3]).to_vec::<f32>()?, Tensor::rand([3]).to_vec::<f32>()?);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct Rng(Mutex<State>);

/// What draws that name no sequence take from.
static SHARED: Rng = Rng::new(0);

/// Starts the sequence of random numbers again, at `seed`. All threads draw from it; [`Rng`] is a sequence of one's own.
///
/// ```
/// use kiln::{Tensor, manual_seed};
/// manual_seed(7);
/// let a = Tensor::rand([3]).to_vec::<f32>()?;
/// manual_seed(7);
/// assert_eq!(a, Tensor::rand([3]).to_vec::<f32>()?);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn manual_seed(seed: u64) {
    SHARED.set_state((seed, 0));
}

/// The state of the sequence of [`manual_seed`]: its seed, and how many of its places are taken. Training that sets it from a
/// checkpoint draws the same numbers. (PyTorch: `get_rng_state`.)
///
/// ```
/// use kiln::{Tensor, rng_state, set_rng_state};
/// let here = rng_state();
/// let a = Tensor::rand([3]).to_vec::<f32>()?;
/// set_rng_state(here);
/// assert_eq!(a, Tensor::rand([3]).to_vec::<f32>()?);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn rng_state() -> (u64, u64) {
    SHARED.state()
}

/// Goes on where [`rng_state`] was.
///
/// ```
/// kiln::set_rng_state((7, 0)); // as `manual_seed(7)`
/// assert_eq!(kiln::rng_state(), (7, 0));
/// ```
pub fn set_rng_state(state: (u64, u64)) {
    SHARED.set_state(state);
}

impl Rng {
    /// The sequence of `seed`.
    ///
    /// ```
    /// static RNG: kiln::Rng = kiln::Rng::new(1);
    /// assert_eq!(RNG.randn([2]).shape(), [2]);
    /// ```
    // Inlined, two sequences of one seed are equal constants to rustc 1.95 at -O, which then makes them one: the second
    // begins where the first one ended.
    #[inline(never)]
    pub const fn new(seed: u64) -> Rng {
        Rng(Mutex::new(State { seed, counter: 0 }))
    }

    /// Where this sequence is, as [`rng_state`] says it.
    ///
    /// ```
    /// assert_eq!(kiln::Rng::new(7).state(), (7, 0));
    /// ```
    pub fn state(&self) -> (u64, u64) {
        let state = self.0.lock().expect("random state");
        (state.seed, state.counter)
    }

    /// Goes on where a sequence was.
    ///
    /// ```
    /// use kiln::Rng;
    /// let (a, b) = (Rng::new(7), Rng::new(0));
    /// let _ = a.rand([3]);
    /// b.set_state(a.state());
    /// assert_eq!(a.rand([3]).to_vec::<f32>()?, b.rand([3]).to_vec::<f32>()?);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn set_state(&self, (seed, counter): (u64, u64)) {
        *self.0.lock().expect("random state") = State { seed, counter };
    }

    /// `n` places of the sequence: the seed and the first.
    fn reserve(&self, n: usize) -> (u64, u64) {
        let mut state = self.0.lock().expect("random state");
        let low_words_left = (1u64 << 32) - (state.counter & 0xffff_ffff);
        // a draw that fits one high word stays inside it, so that adding to the low word never carries
        if n as u64 > low_words_left && n < 1 << 32 {
            state.counter = (state.counter >> 32).wrapping_add(1) << 32;
        }
        let first = state.counter;
        state.counter = first.wrapping_add(n as u64);
        (state.seed, first)
    }
}

/// How far each round turns its second word.
const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
/// What makes the third key word of the other two.
const PARITY: u32 = 0x1bd1_1bda;

fn word(value: u32) -> UOp {
    UOp::constant(value, DType::U32)
}

fn rotated(x: &UOp, by: u32) -> UOp {
    let left = UOp::binary(Op::Shl, x, &word(by));
    left | UOp::binary(Op::Shr, x, &word(32 - by))
}

/// The words that a draw is made of: what rounds add, two at a time, and the place of the first number.
const WORDS: usize = 14;

fn words_of(seed: u64, first: u64) -> [u32; WORDS] {
    let [high, low] = [(seed >> 32) as u32, seed as u32];
    let keys = [high, low, high ^ low ^ PARITY];
    let next = |i: u32| keys[i as usize % 3];
    let mut words =
        [keys[0], keys[1], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, (first >> 32) as u32, first as u32];
    for (block, pair) in (0..5u32).zip(words[2..].chunks_exact_mut(2)) {
        pair[0] = next(block + 1);
        pair[1] = next(block + 2).wrapping_add(block + 1);
    }
    words
}

/// The words of the next draw of `n` numbers, for those who draw from the shared sequence again.
pub(crate) fn shared_words(n: usize) -> [u32; WORDS] {
    let (seed, first) = SHARED.reserve(n);
    words_of(seed, first)
}

/// Both words of Threefry-2x32-20 of `x`, with what its rounds add.
fn threefry(added: &[UOp], mut x: [UOp; 2]) -> [UOp; 2] {
    x = [&x[0] + &added[0], &x[1] + &added[1]];
    for (block, added) in added[2..].chunks_exact(2).enumerate() {
        for by in ROTATIONS[block % 2] {
            let sum = &x[0] + &x[1];
            x = [sum.clone(), rotated(&x[1], by) ^ &sum];
        }
        x = [&x[0] + &added[0], &x[1] + &added[1]];
    }
    x
}

/// Both random words of each of `n` places.
fn words(rng: &Rng, n: usize) -> [UOp; 2] {
    let (seed, first) = rng.reserve(n);
    let is_short = u32::try_from(n).is_ok();
    let is_shared = std::ptr::eq(rng, &raw const SHARED) && is_short;
    let words = numbers::drawn(n, is_shared, words_of(seed, first), word);
    let place = match is_short {
        true => {
            let low = UOp::iota(n, DType::U32) + &words[WORDS - 1];
            [words[WORDS - 2].broadcast_to(&[n]), low]
        }
        false => {
            let wide = |value: u64| UOp::constant(value, DType::U64);
            let place = UOp::iota(n, DType::U64) + wide(first);
            let high = UOp::binary(Op::Shr, &place, &wide(32));
            [high, place].map(|word| word.cast(DType::U32))
        }
    };
    threefry(&words[..WORDS - 2], place)
}

fn bits32(rng: &Rng, n: usize) -> UOp {
    let [a, b] = words(rng, n);
    a ^ b
}

/// `n` floats in `[0, 1)`, each a multiple of the distance between floats below 1.
fn uniform(rng: &Rng, n: usize, dtype: DType) -> UOp {
    match dtype {
        DType::F64 => {
            let [a, b] = words(rng, n).map(|w| w.cast(DType::U64));
            let wide = |c: u32| UOp::constant(c, DType::U64);
            let bits = UOp::binary(Op::Shl, &a, &wide(32)) | b;
            let one = UOp::constant(1.0f64.to_bits(), DType::U64);
            let float = (UOp::binary(Op::Shr, &bits, &wide(12)) | one).bitcast(DType::F64);
            &float - float.const_like(1)
        }
        DType::F32 => {
            let mantissa = UOp::binary(Op::Shr, &bits32(rng, n), &word(9));
            let float = (mantissa | word(1.0f32.to_bits())).bitcast(DType::F32);
            &float - float.const_like(1)
        }
        _ => {
            // few enough bits that the narrow float holds the number exactly, and 1 is never reached
            let precision = match dtype.fp8() {
                Some(format) => format.mantissa + 1,
                None if dtype == DType::F16 => 11,
                None => 8,
            };
            let bits =
                UOp::binary(Op::Shr, &bits32(rng, n), &word(32 - precision)).cast(DType::F32);
            (&bits * bits.const_like((-(precision as f64)).exp2())).cast(dtype)
        }
    }
}

/// Normal numbers from two uniform ones each (Box and Muller).
fn normal(rng: &Rng, n: usize, dtype: DType) -> UOp {
    let wide = dtype.accumulator();
    let (radius, turn) = (uniform(rng, n, wide), uniform(rng, n, wide));
    let nonzero = radius.const_like(1) - &radius;
    let log = UOp::unary(Op::Log, &nonzero) * nonzero.const_like(-2);
    let angle = &turn * turn.const_like(2.0 * std::f64::consts::PI);
    (UOp::unary(Op::Sqrt, &log) * UOp::unary(Op::Cos, &angle)).cast(dtype)
}
