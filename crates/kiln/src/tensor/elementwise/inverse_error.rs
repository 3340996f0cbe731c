//! The inverse of the error function, by the quotients of polynomials for the normal distribution's (M. Wichura, Algorithm AS 241,
//! 1988), and for f64 one of Halley's steps.

use super::gamma::{by_slope, polynomial};
use crate::Tensor;
use crate::defaults::OrFloat;
use kiln_ir::arg::Derivative;
use kiln_ir::{DType, derivative};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

/// A polynomial over another one, whose first coefficient is 1.
type Ratio = ([f64; 8], [f64; 8]);

/// Of `0.180625 - (x / 2)^2`, where `x` is at most [`INNER`]; times `x / 2`.
const MIDDLE: Ratio = (
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
);
const INNER: f64 = 0.85;

/// Of `w - 1.6`, where `w = sqrt(-log((1 - x) / 2))` is at most 5.
const OUTER: Ratio = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
);

/// Of `w - 5` from there on, where only f64 comes to.
const LAST: Ratio = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_2e-7,
    ],
    [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
);

fn parts(x: &Tensor, (above, below): &Ratio) -> [Tensor; 2] {
    [above, below].map(|c| polynomial(x, c))
}

/// The inverse of a number from 0 to 1, to a few places of f64.
fn about(x: &Tensor, is_narrow: bool) -> Tensor {
    let half = x * 0.5;
    let w = (-((1.0 - x) * 0.5).log()).sqrt();
    let [mut above, mut below] = parts(&(&w - 1.6), &OUTER);
    if !is_narrow {
        let (is_outer, last) = (w.le(5.0), parts(&(&w - 5.0), &LAST));
        [above, below] = [is_outer.where_(above, &last[0]), is_outer.where_(below, &last[1])];
    }
    // one division for all
    let is_inner = x.le(INNER);
    let inner = parts(&(0.180_625 - half.square()), &MIDDLE);
    let above = is_inner.where_(&inner[0] * half, above);
    above / is_inner.where_(&inner[1], below) * FRAC_1_SQRT_2
}

/// A step from `y` towards what has the error function `x`. Near 1 its complement has more digits.
fn closer(y: &Tensor, x: &Tensor) -> Tensor {
    let off = x.lt(0.5).where_(y.erf() - x, (1.0 - x) - y.erfc());
    let step = off * (FRAC_2_SQRT_PI.recip()) * y.square().exp();
    y - &step / (y * &step + 1.0)
}

fn erfinv(x: &Tensor, is_narrow: bool) -> Tensor {
    let size = x.abs();
    let inside = size.lt(1.0).where_(&size, 0.0);
    let y = about(&inside, is_narrow);
    let y = if is_narrow { y } else { closer(&y, &inside) };
    let edge = size.eq(1.0).where_(f64::INFINITY, f64::NAN);
    size.lt(1.0).where_(y, edge).copysign(x)
}

/// What the error function was of.
impl Tensor {
    /// The number whose [`erf`](Tensor::erf) this is; infinite at 1 and -1, NaN outside. Integers become floats first.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([0.5]).erfinv();
    /// assert!((t.erf().to_vec::<f64>()?[0] - 0.5).abs() < 1e-15);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn erfinv(&self) -> Tensor {
        let is_narrow = self.dtype().or_float() != DType::F64;
        self.special("erfinv", |x| erfinv(x, is_narrow), ERFINV)
    }
}

const ERFINV: Derivative =
    derivative!("erfinv", |y, g| by_slope(y, g, |_, y, _| y.square().exp() * (PI.sqrt() / 2.0)));
