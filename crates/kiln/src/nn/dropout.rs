//! Dropout.

use super::{Module, is_training};
use crate::Tensor;
use crate::defaults::OrFloat;
use crate::error::Fault;

/// In training, makes each element 0 with probability `p` and scales the others so that the mean stays.
///
/// ```
/// use kiln::{Tensor, nn, nn::Dropout};
/// let (x, drop) = (Tensor::ones([100]), Dropout::new(0.5));
/// assert_eq!(drop.forward(&x).sum(..).item::<f32>()?, 100.0);
/// let y = nn::train(|| drop.forward(&x)).to_vec::<f32>()?;
/// assert!(y.contains(&0.0) && y.contains(&2.0));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct Dropout {
    p: f64,
}

impl Dropout {
    /// Elements are dropped with probability `p`.
    ///
    /// ```
    /// let drop = kiln::nn::Dropout::new(0.1);
    /// ```
    pub fn new(p: f64) -> Dropout {
        Dropout { p }
    }

    /// `x`, with elements dropped if layers train.
    ///
    /// ```
    /// let x = kiln::Tensor::ones([2]);
    /// assert_eq!(kiln::nn::Dropout::new(0.1).forward(&x).to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A probability that is not between 0 and 1.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.dropout(self.p)
    }
}

/// In training, makes whole channels of `[batch, channels, ..]` 0 with probability `p` and scales the others so that the
/// mean stays.
///
/// ```
/// use kiln::{Tensor, nn, nn::Dropout2d};
/// let y = nn::train(|| Dropout2d::new(0.5).forward(&Tensor::ones([1, 50, 2, 2])));
/// let sums = y.sum([2, 3]).to_vec::<f32>()?;
/// assert!(sums.iter().all(|s| [0.0, 8.0].contains(s)));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct Dropout2d {
    p: f64,
}

/// Drops channels of `[batch, channels, length]`.
pub type Dropout1d = Dropout2d;
/// Drops channels of `[batch, channels, depth, height, width]`.
pub type Dropout3d = Dropout2d;

impl Dropout2d {
    /// Channels are dropped with probability `p`.
    ///
    /// ```
    /// let drop = kiln::nn::Dropout2d::new(0.1);
    /// ```
    pub fn new(p: f64) -> Dropout2d {
        Dropout2d { p }
    }

    /// `x`, with channels dropped if layers train.
    ///
    /// ```
    /// let x = kiln::Tensor::ones([1, 2, 1]);
    /// assert_eq!(kiln::nn::Dropout2d::new(0.1).forward(&x).to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A probability that is not between 0 and 1; an `x` of fewer than two axes.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if x.error().is_some() {
            return x.clone();
        }
        let &[batch, channels, ..] = x.shape() else {
            let why = format!("wants [batch, channels, ..], not {:?}", x.shape());
            return Tensor::broken(Fault::New(why).at("Dropout2d"));
        };
        let mut shape = vec![1; x.ndim()];
        (shape[0], shape[1]) = (batch, channels);
        let dtype = x.dtype().or_float();
        x.mul(Tensor::ones_with(shape, (dtype, x.device())).dropout(self.p))
    }
}

/// In training, sets each element to the least that [`selu`](Tensor::selu) gives with probability `p`, and scales and moves
/// all so that mean and variance stay (Klambauer et al., 2017, arXiv:1706.02515).
///
/// ```
/// use kiln::{Tensor, nn, nn::AlphaDropout};
/// let (x, drop) = (Tensor::zeros([100]), AlphaDropout::new(0.5));
/// assert_eq!(drop.forward(&x).sum(..).item::<f32>()?, 0.0);
/// let y = nn::train(|| drop.forward(&x)).to_vec::<f32>()?;
/// assert!(y.iter().any(|&v| v < 0.0) && y.iter().any(|&v| v > 0.0));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct AlphaDropout {
    p: f64,
}

impl AlphaDropout {
    /// Elements are dropped with probability `p`.
    ///
    /// ```
    /// let drop = kiln::nn::AlphaDropout::new(0.1);
    /// ```
    pub fn new(p: f64) -> AlphaDropout {
        AlphaDropout { p }
    }

    /// `x`, with elements dropped if layers train.
    ///
    /// ```
    /// let x = kiln::Tensor::ones([2]);
    /// assert_eq!(kiln::nn::AlphaDropout::new(0.1).forward(&x).to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A probability that is not between 0 and 1.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.alpha_dropout(self.p)
    }
}

/// `x`, in training with slopes drawn from `lower` to `upper` for each negative element, else with their mean (Xu et al.,
/// 2015, arXiv:1505.00853).
///
/// ```
/// use kiln::{Tensor, nn::RReLU};
/// let y = RReLU::new(0.25, 0.75).forward(&Tensor::from([-2.0f32, 2.0]));
/// assert_eq!(y.to_vec::<f32>()?, [-1.0, 2.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct RReLU {
    lower: f64,
    upper: f64,
}

impl RReLU {
    /// With slopes from `lower` to `upper`; PyTorch's are from 1/8 to 1/3.
    ///
    /// ```
    /// let relu = kiln::nn::RReLU::new(1.0 / 8.0, 1.0 / 3.0);
    /// ```
    pub fn new(lower: f64, upper: f64) -> RReLU {
        RReLU { lower, upper }
    }

    /// `x`, its negative elements times slopes.
    ///
    /// ```
    /// let y = kiln::nn::RReLU::new(0.0, 0.0).forward(&kiln::Tensor::from([-2.0f32, 2.0]));
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A lower bound above the upper one.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.rrelu(self.lower, self.upper)
    }
}

/// The least value of `selu`, without its sign.
const LEAST_OF_SELU: f64 = 1.7580993408473766;

impl Tensor {
    /// In training ([`nn::train`](crate::nn::train)), the least that [`selu`](Tensor::selu) gives in each element with
    /// probability `p`; all are scaled and moved so that mean and variance stay. PyTorch's `alpha_dropout`.
    ///
    /// ```
    /// let y = kiln::nn::train(|| kiln::Tensor::zeros([64]).alpha_dropout(0.5)).to_vec::<f32>()?;
    /// assert!(y.iter().any(|&v| v < 0.0) && y.iter().any(|&v| v > 0.0));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A probability that is not between 0 and 1.
    #[track_caller]
    pub fn alpha_dropout(&self, p: f64) -> Tensor {
        if !(0.0..=1.0).contains(&p) {
            return Tensor::broken(
                Fault::New(format!("{p} is no probability")).at("alpha_dropout"),
            );
        }
        if !is_training() || p == 0.0 {
            return self.clone();
        }
        if p == 1.0 {
            return self.mul(0.0);
        }
        let scale = 1.0 / ((LEAST_OF_SELU * LEAST_OF_SELU * p + 1.0) * (1.0 - p)).sqrt();
        let moved = LEAST_OF_SELU * scale * p;
        let kept = Tensor::rand_with(self.shape(), self.device()).ge(p);
        kept.where_(self.mul(scale).add(moved), moved - LEAST_OF_SELU * scale)
    }

    /// Negative elements times a slope: in training ([`nn::train`](crate::nn::train)) drawn from `lower` to `upper` for each
    /// element, else the mean of both. PyTorch's `rrelu`.
    ///
    /// ```
    /// let x = kiln::Tensor::full([64], -1.0f32);
    /// let y = kiln::nn::train(|| x.rrelu(0.25, 0.5)).to_vec::<f32>()?;
    /// assert!(y.iter().all(|v| (-0.5..=-0.25).contains(v)) && y[0] != y[1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A lower bound above the upper one.
    #[track_caller]
    pub fn rrelu(&self, lower: f64, upper: f64) -> Tensor {
        if lower.partial_cmp(&upper).is_none_or(std::cmp::Ordering::is_gt) {
            let why = format!("slopes from {lower} to {upper} are none");
            return Tensor::broken(Fault::New(why).at("rrelu"));
        }
        let slopes = match is_training() {
            false => self.mul(0.5 * (lower + upper)),
            true => {
                let share = Tensor::rand_with(self.shape(), self.device());
                self.mul(share.mul(upper - lower).add(lower).cast(self.dtype().or_float()))
            }
        };
        self.lt(0).where_(slopes, self)
    }

    /// In training ([`nn::train`](crate::nn::train)), 0 in each element with probability `p`, the others scaled so
    /// that the mean stays.
    ///
    /// ```
    /// let y = kiln::nn::train(|| kiln::Tensor::ones([64]).dropout(0.5)).to_vec::<f32>()?;
    /// assert!(y.contains(&0.0) && y.contains(&2.0));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A probability that is not between 0 and 1.
    #[track_caller]
    pub fn dropout(&self, p: f64) -> Tensor {
        if !(0.0..=1.0).contains(&p) {
            return Tensor::broken(Fault::New(format!("{p} is no probability")).at("dropout"));
        }
        if !is_training() || p == 0.0 {
            return self.clone();
        }
        if p == 1.0 {
            return self.mul(0.0);
        }
        let kept = Tensor::rand_with(self.shape(), self.device()).ge(p);
        kept.where_(self.mul(1.0 / (1.0 - p)), 0.0)
    }
}
