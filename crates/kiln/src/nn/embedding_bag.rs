//! Sums of rows of a table.

use super::Module;
use super::build::normal;
use crate::error::{Fault, refuse};
use crate::{DType, Tensor, s};

/// What becomes of the rows of a bag.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Bag {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// The largest of each element.
    Max,
}

/// A table of vectors that are learned, of which those of bags of integers are combined: their mean, if nothing else is said.
///
/// ```
/// use kiln::{Tensor, nn::{Bag, EmbeddingBag}};
/// let table = EmbeddingBag::new(10, 4).mode(Bag::Sum);
/// assert_eq!(table.forward(&Tensor::from([[1, 9, 1], [2, 3, 4]])).shape(), [2, 4]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct EmbeddingBag {
    /// `[rows, width]`.
    pub weight: Tensor,
    #[module(skip)]
    mode: Bag,
}

impl EmbeddingBag {
    /// With rows drawn from the normal distribution.
    ///
    /// ```
    /// assert_eq!(kiln::nn::EmbeddingBag::new(10, 4).weight.shape(), [10, 4]);
    /// ```
    #[track_caller]
    pub fn new(rows: usize, width: usize) -> EmbeddingBag {
        EmbeddingBag { weight: normal(&[rows, width]), mode: Bag::Mean }
    }

    /// With another combination.
    ///
    /// ```
    /// use kiln::nn::{Bag, EmbeddingBag};
    /// let table = EmbeddingBag::new(10, 4).mode(Bag::Max);
    /// ```
    pub fn mode(self, mode: Bag) -> EmbeddingBag {
        EmbeddingBag { mode, ..self }
    }

    /// The rows of the integers `x`, `[bags, n]`, combined: `[bags, width]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::EmbeddingBag};
    /// assert_eq!(EmbeddingBag::new(3, 2).forward(&Tensor::from([[0, 2]])).shape(), [1, 2]);
    /// ```
    ///
    /// # Errors
    /// Other than two axes; as [`get`](Tensor::get) with a tensor.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if x.ndim() != 2 && x.error().is_none() {
            let why = format!("wants [bags, n], not {:?}", x.shape());
            return Tensor::broken(Fault::New(why).at("EmbeddingBag"));
        }
        let rows = self.weight.get(s![x]);
        match self.mode {
            Bag::Mean => rows.mean(1),
            Bag::Sum => rows.sum(1),
            Bag::Max => rows.max(1),
        }
    }

    /// The rows of the integers `x`, `[n]`, of which each bag has those from its number in `offsets`, `[bags]`, up to the next
    /// one's: `[bags, width]`. A bag without any gives zeros.
    ///
    /// ```
    /// use kiln::{Tensor, nn::EmbeddingBag};
    /// let y = EmbeddingBag::new(3, 2).forward_from(&Tensor::from([0, 2, 1]), &Tensor::from([0, 2]));
    /// assert_eq!(y.shape(), [2, 2]);
    /// ```
    ///
    /// # Errors
    /// Other than one axis each; as [`get`](Tensor::get) with a tensor.
    #[track_caller]
    pub fn forward_from(&self, x: &Tensor, offsets: &Tensor) -> Tensor {
        if let Err(fault) = one_axis(x, offsets) {
            return Tensor::broken(fault.at("EmbeddingBag"));
        }
        let (n, bags) = (x.shape()[0], offsets.shape()[0]);
        let [place, bag] = [n, bags].map(|n| Tensor::arange_with(n, x.device()));
        // how many bags have begun
        let begun = place.unsqueeze(1).ge(offsets).cast(DType::I32).sum(1);
        let own = begun.sub(1).eq(bag.unsqueeze(1)).unsqueeze(2);
        let rows = self.weight.get(s![x]).unsqueeze(0);
        let count = own.cast(rows.dtype()).sum(1);
        match self.mode {
            Bag::Sum => own.where_(&rows, 0.0).sum(1),
            Bag::Mean => own.where_(&rows, 0.0).sum(1).div(count.clamp_min(1.0)),
            Bag::Max => count.gt(0.0).where_(own.where_(&rows, f64::NEG_INFINITY).max(1), 0.0),
        }
    }
}

fn one_axis(x: &Tensor, offsets: &Tensor) -> Result<(), Fault> {
    if let Some(error) = x.error().or(offsets.error()) {
        return Err(error.into());
    }
    match (x.ndim(), offsets.ndim()) {
        (1, 1) => Ok(()),
        _ => refuse!("wants [n] and [bags], not {:?} and {:?}", x.shape(), offsets.shape()),
    }
}
