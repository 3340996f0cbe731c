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

impl Tensor {
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
