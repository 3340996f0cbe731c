//! Random numbers: Threefry-2x32 with 20 rounds, as tensor operations, so that every device gives the same bits.
//!
//! The n-th number after `manual_seed(s)` is the n-th of JAX's `random.bits(key(s), ..)`: the key is the seed's two
//! words, the counter the number's two words, and the bits are the exclusive or of both results.

use super::shape_args::{ShapeArg, new_shape};
use super::{Options, Tensor};
use crate::error::{Fault, refuse};
use kiln_ir::arg::Shape;
use kiln_ir::{DType, Op, UOp};
use std::sync::Mutex;

/// Where the sequence of random numbers is.
struct State {
    seed: u64,
    counter: u64,
}

static STATE: Mutex<State> = Mutex::new(State { seed: 0, counter: 0 });

/// Starts the sequence of random numbers again, at `seed`.
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
    *STATE.lock().expect("random state") = State { seed, counter: 0 };
}

/// `n` places of the sequence: the seed and the first.
fn reserve(n: usize) -> (u64, u64) {
    let mut state = STATE.lock().expect("random state");
    let low_words_left = (1u64 << 32) - (state.counter & 0xffff_ffff);
    // one draw stays inside one high word, so that adding to the low word never carries
    if n as u64 > low_words_left && n < 1 << 32 {
        state.counter = (state.counter >> 32).wrapping_add(1) << 32;
    }
    let first = state.counter;
    state.counter = first.wrapping_add(n as u64);
    (state.seed, first)
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

/// Both words of Threefry-2x32-20 under `key`.
fn threefry(key: [u32; 2], mut x: [UOp; 2]) -> [UOp; 2] {
    let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    x = [&x[0] + word(keys[0]), &x[1] + word(keys[1])];
    for block in 0..5u32 {
        for by in ROTATIONS[block as usize % 2] {
            let sum = &x[0] + &x[1];
            x = [sum.clone(), rotated(&x[1], by) ^ &sum];
        }
        let next = |i: u32| keys[(block + i) as usize % 3];
        x = [&x[0] + word(next(1)), &x[1] + word(next(2).wrapping_add(block + 1))];
    }
    x
}

/// Both random words of each of `n` places.
fn words(n: usize) -> [UOp; 2] {
    let (seed, first) = reserve(n);
    let low = UOp::iota(n, DType::U32) + word(first as u32);
    let high = word((first >> 32) as u32).broadcast_to(&[n]);
    threefry([(seed >> 32) as u32, seed as u32], [high, low])
}

fn bits32(n: usize) -> UOp {
    let [a, b] = words(n);
    a ^ b
}

/// `n` floats in `[0, 1)`, each a multiple of the distance between floats below 1.
fn uniform(n: usize, dtype: DType) -> UOp {
    match dtype {
        DType::F64 => {
            let [a, b] = words(n).map(|w| w.cast(DType::U64));
            let wide = |c: u32| UOp::constant(c, DType::U64);
            let bits = UOp::binary(Op::Shl, &a, &wide(32)) | b;
            let one = UOp::constant(1.0f64.to_bits(), DType::U64);
            let float = (UOp::binary(Op::Shr, &bits, &wide(12)) | one).bitcast(DType::F64);
            &float - float.const_like(1)
        }
        DType::F32 => {
            let mantissa = UOp::binary(Op::Shr, &bits32(n), &word(9));
            let float = (mantissa | word(1.0f32.to_bits())).bitcast(DType::F32);
            &float - float.const_like(1)
        }
        _ => {
            // few enough bits that the narrow float holds the number exactly, and 1 is never reached
            let precision = if dtype == DType::F16 { 11 } else { 8 };
            let bits = UOp::binary(Op::Shr, &bits32(n), &word(32 - precision)).cast(DType::F32);
            (&bits * bits.const_like((-(precision as f64)).exp2())).cast(dtype)
        }
    }
}

/// Normal numbers from two uniform ones each (Box and Muller).
fn normal(n: usize, dtype: DType) -> UOp {
    let wide = dtype.accumulator();
    let (radius, turn) = (uniform(n, wide), uniform(n, wide));
    let nonzero = radius.const_like(1) - &radius;
    let log = UOp::unary(Op::Log, &nonzero) * nonzero.const_like(-2);
    let angle = &turn * turn.const_like(2.0 * std::f64::consts::PI);
    (UOp::unary(Op::Sqrt, &log) * UOp::unary(Op::Cos, &angle)).cast(dtype)
}

#[track_caller]
fn draw(
    op: &'static str,
    shape: impl ShapeArg,
    options: impl Into<Options>,
    make: fn(usize, DType) -> UOp,
) -> Tensor {
    let options = options.into();
    let checked = || -> Result<_, Fault> {
        let shape = new_shape(shape)?;
        let (dtype, device) = options.resolve(DType::F32)?;
        let n: usize = shape.iter().product();
        match dtype.is_float() && n <= u32::MAX as usize {
            true => Ok((make(n, dtype).reshape(shape), device)),
            false => {
                refuse!("wants a float dtype and fewer than 2^32 elements, not {dtype} {shape:?}")
            }
        }
    };
    match checked() {
        Ok((node, device)) => Tensor::lift_on(op, &device, Ok(node)),
        Err(fault) => Tensor::broken(fault.at(op)),
    }
}

/// Random tensors, each drawn from the next numbers of the sequence that [`manual_seed`] starts.
impl Tensor {
    /// Uniform in `[0, 1)`, f32.
    ///
    /// ```
    /// let x = kiln::Tensor::rand([4]).to_vec::<f32>()?;
    /// assert!(x.iter().all(|x| (0.0..1.0).contains(x)));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rand(shape: impl ShapeArg) -> Tensor {
        Tensor::rand_with(shape, ())
    }

    /// Uniform in `[0, 1)`, of a float dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::rand_with([4], DType::F64).dtype(), DType::F64);
    /// ```
    #[track_caller]
    pub fn rand_with(shape: impl ShapeArg, options: impl Into<Options>) -> Tensor {
        draw("rand", shape, options, uniform)
    }

    /// Normal with mean 0 and variance 1, f32.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::randn(&[2usize, 3][..]).shape(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn randn(shape: impl ShapeArg) -> Tensor {
        Tensor::randn_with(shape, ())
    }

    /// Normal with mean 0 and variance 1, of a float dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::randn_with([4], DType::F16).dtype(), DType::F16);
    /// ```
    #[track_caller]
    pub fn randn_with(shape: impl ShapeArg, options: impl Into<Options>) -> Tensor {
        draw("randn", shape, options, normal)
    }

    /// Integers from `low` to before `high`, i32.
    ///
    /// ```
    /// let x = kiln::Tensor::randint(-2, 3, [8]).to_vec::<i32>()?;
    /// assert!(x.iter().all(|x| (-2..3).contains(x)));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No integer between the two.
    #[track_caller]
    pub fn randint(low: i32, high: i32, shape: impl ShapeArg) -> Tensor {
        let make = || -> Result<UOp, Fault> {
            let shape: Shape = new_shape(shape)?;
            let n: usize = shape.iter().product();
            if low >= high || n > u32::MAX as usize {
                return refuse!("no integer from {low} to before {high}, or too many of them");
            }
            let count = word(high.wrapping_sub(low) as u32);
            let offset = bits32(n).floormod(&count).cast(DType::I32);
            Ok((&offset + offset.const_like(low)).reshape(shape))
        };
        Tensor::lift_on("randint", &crate::Device::default_device(), make())
    }

    /// Uniform in `[0, 1)`, with this tensor's shape, dtype and device.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([3]).rand_like().shape(), [3]);
    /// ```
    #[track_caller]
    pub fn rand_like(&self) -> Tensor {
        match self.error() {
            Some(error) => Tensor::broken(error),
            None => Tensor::rand_with(self.shape(), (self.dtype(), self.device())),
        }
    }

    /// Normal with mean 0 and variance 1, with this tensor's shape, dtype and device.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([3]).randn_like().shape(), [3]);
    /// ```
    #[track_caller]
    pub fn randn_like(&self) -> Tensor {
        match self.error() {
            Some(error) => Tensor::broken(error),
            None => Tensor::randn_with(self.shape(), (self.dtype(), self.device())),
        }
    }
}
