//! Tensors of random numbers.

use super::{Rng, SHARED, bits32, normal, uniform, word, words};
use crate::defaults::default_float;
use crate::error::{Fault, refuse};
use crate::tensor::shape_args::{Int, ShapeArg, named_shape};
use crate::tensor::{Options, Tensor};
use kiln_ir::dtype::Const;
use kiln_ir::{DType, Op, UOp};

/// A new tensor of what `make` draws, of as many numbers as `shape` has and of the dtype that `options` name.
#[track_caller]
fn draw(
    op: &'static str,
    shape: impl ShapeArg,
    options: impl Into<Options>,
    default: DType,
    make: impl FnOnce(usize, DType) -> Result<UOp, Fault>,
) -> Tensor {
    let options = options.into();
    let checked = || -> Result<_, Fault> {
        let (shape, named) = named_shape(shape)?;
        let (dtype, device) = options.resolve(default)?;
        let n = shape.iter().product();
        let node = make(n, dtype)?.reshape(shape);
        node.name_numbers(&named);
        Ok((node, device))
    };
    match checked() {
        Ok((node, device)) => Tensor::lift_on(op, &device, Ok(node)),
        Err(fault) => Tensor::broken(fault.at(op)),
    }
}

fn wants_float(dtype: DType) -> Result<DType, Fault> {
    match dtype.is_float() {
        true => Ok(dtype),
        false => refuse!("wants a float dtype, not {dtype}"),
    }
}

/// `n` integers below `count`, at most 2^32. For a power of two they are exactly uniform. Else they are remainders of 64
/// bits: no integer is likelier than another by more than one part in 2^32.
fn below(rng: &Rng, n: usize, count: u64) -> UOp {
    if count.is_power_of_two() {
        let bits = bits32(rng, n);
        return u32::try_from(count - 1).map_or(bits.clone(), |mask| bits & word(mask));
    }
    let [high, low] = words(rng, n).map(|word| word.cast(DType::U64));
    let wide = |value: u64| UOp::constant(value, DType::U64);
    (UOp::binary(Op::Shl, &high, &wide(32)) | low).floormod(&wide(count))
}

/// `n` integers from `low` to before `high`.
fn integers(rng: &Rng, n: usize, dtype: DType, low: i64, high: i64) -> Result<UOp, Fault> {
    let count = i128::from(high) - i128::from(low);
    if !(1..=1 << 32).contains(&count) {
        return refuse!("no integer from {low} to before {high}, or more than 2^32 of them");
    }
    let exact = |i: i64| Const::from(i).cast(dtype).cast(DType::I64) == Const::from(i);
    if !dtype.is_int() || !exact(low) || !exact(high - 1) {
        return refuse!("{dtype} does not hold all integers from {low} to before {high}");
    }
    let offset = below(rng, n, count as u64).cast(dtype);
    Ok(&offset + offset.const_like(low))
}

/// Random tensors, each of the next numbers of this sequence.
impl Rng {
    /// Uniform in `[0, 1)`, f32.
    ///
    /// ```
    /// let x = kiln::Rng::new(0).rand([4]).to_vec::<f32>()?;
    /// assert!(x.iter().all(|x| (0.0..1.0).contains(x)));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn rand(&self, shape: impl ShapeArg) -> Tensor {
        self.rand_with(shape, ())
    }

    /// Uniform in `[0, 1)`, of a float dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Rng};
    /// assert_eq!(Rng::new(0).rand_with([4], DType::F64).dtype(), DType::F64);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn rand_with(&self, shape: impl ShapeArg, options: impl Into<Options>) -> Tensor {
        draw("rand", shape, options, default_float(), |n, dtype| {
            Ok(uniform(self, n, wants_float(dtype)?))
        })
    }

    /// Normal with mean 0 and variance 1, f32.
    ///
    /// ```
    /// assert_eq!(kiln::Rng::new(0).randn([2, 3]).shape(), [2, 3]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn randn(&self, shape: impl ShapeArg) -> Tensor {
        self.randn_with(shape, ())
    }

    /// Normal with mean 0 and variance 1, of a float dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Rng};
    /// assert_eq!(Rng::new(0).randn_with([4], DType::F16).dtype(), DType::F16);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn randn_with(&self, shape: impl ShapeArg, options: impl Into<Options>) -> Tensor {
        draw("randn", shape, options, default_float(), |n, dtype| {
            Ok(normal(self, n, wants_float(dtype)?))
        })
    }

    /// Integers from `low` to before `high`, i32.
    ///
    /// ```
    /// assert_eq!(kiln::Rng::new(0).randint(3, 4, [2]).to_vec::<i32>()?, [3, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No integer between the two, or one that is not an i32.
    #[must_use]
    #[track_caller]
    pub fn randint(&self, low: impl Int, high: impl Int, shape: impl ShapeArg) -> Tensor {
        self.randint_with(low, high, shape, ())
    }

    /// Integers from `low` to before `high`, of an integer dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Rng};
    /// assert_eq!(Rng::new(0).randint_with(0, 9, [4], DType::U8).dtype(), DType::U8);
    /// ```
    ///
    /// # Errors
    /// No integer between the two, or one that the dtype does not hold.
    #[must_use]
    #[track_caller]
    pub fn randint_with(
        &self,
        low: impl Int,
        high: impl Int,
        shape: impl ShapeArg,
        options: impl Into<Options>,
    ) -> Tensor {
        let (low, high) = (low.as_i64(), high.as_i64());
        draw("randint", shape, options, DType::I32, |n, dtype| integers(self, n, dtype, low, high))
    }
}

/// Random tensors, each drawn from the next numbers of the sequence that [`manual_seed`](crate::manual_seed) starts.
impl Tensor {
    /// Uniform in `[0, 1)`, f32.
    ///
    /// ```
    /// let x = kiln::Tensor::rand([4]).to_vec::<f32>()?;
    /// assert!(x.iter().all(|x| (0.0..1.0).contains(x)));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
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
    #[must_use]
    #[track_caller]
    pub fn rand_with(shape: impl ShapeArg, options: impl Into<Options>) -> Tensor {
        SHARED.rand_with(shape, options)
    }

    /// Normal with mean 0 and variance 1, f32.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::randn(&[2usize, 3][..]).shape(), [2, 3]);
    /// ```
    #[must_use]
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
    #[must_use]
    #[track_caller]
    pub fn randn_with(shape: impl ShapeArg, options: impl Into<Options>) -> Tensor {
        SHARED.randn_with(shape, options)
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
    /// No integer between the two, or one that is not an i32.
    #[must_use]
    #[track_caller]
    pub fn randint(low: impl Int, high: impl Int, shape: impl ShapeArg) -> Tensor {
        SHARED.randint(low, high, shape)
    }

    /// Integers from `low` to before `high`, of an integer dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::randint_with(0, 9, [4], DType::I64).dtype(), DType::I64);
    /// ```
    ///
    /// # Errors
    /// No integer between the two, or one that the dtype does not hold.
    #[must_use]
    #[track_caller]
    pub fn randint_with(
        low: impl Int,
        high: impl Int,
        shape: impl ShapeArg,
        options: impl Into<Options>,
    ) -> Tensor {
        SHARED.randint_with(low, high, shape, options)
    }

    /// Uniform in `[0, 1)`, with this tensor's shape, dtype and device.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([3]).rand_like().shape(), [3]);
    /// ```
    #[must_use]
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
    #[must_use]
    #[track_caller]
    pub fn randn_like(&self) -> Tensor {
        match self.error() {
            Some(error) => Tensor::broken(error),
            None => Tensor::randn_with(self.shape(), (self.dtype(), self.device())),
        }
    }
}
