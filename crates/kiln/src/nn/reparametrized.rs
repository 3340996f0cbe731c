//! Layers whose weight is computed from other tensors: by its length and direction, or with its largest singular value divided
//! out.

use super::build::normal;
use super::{
    Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Embedding, Forward,
    Key, Linear, Module, is_training, join,
};
use crate::Tensor;
use crate::error::Error;

/// A layer with a weight that can be another tensor.
pub trait Weighted: Forward + Module {
    /// The weight.
    fn weight(&self) -> &Tensor;

    /// The axis of the weight along which its outputs lie.
    fn output_axis(&self) -> usize {
        0
    }

    /// The layer with another weight.
    fn with_weight(&self, weight: Tensor) -> Self;
}

macro_rules! weighted {
    ($axis:literal $($layer:ident)*) => { $(
        impl Weighted for $layer {
            fn weight(&self) -> &Tensor {
                &self.weight
            }
            fn output_axis(&self) -> usize {
                $axis
            }
            fn with_weight(&self, weight: Tensor) -> $layer {
                let mut layer = self.clone();
                layer.weight = weight;
                layer
            }
        }
    )* };
}
weighted!(0 Linear Embedding Conv1d Conv2d Conv3d);
weighted!(1 ConvTranspose1d ConvTranspose2d ConvTranspose3d);

/// The tensors of a layer but its weight.
fn visit_others(layer: &impl Module, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
    let own = join(prefix, "weight");
    layer.visit(prefix, &mut |name, t| {
        if name != own {
            f(name, t);
        }
    });
}

/// As [`visit_others`], to change them.
fn change_others(
    layer: &mut impl Module,
    prefix: &str,
    f: &mut dyn FnMut(&str, &mut Tensor),
) -> Result<(), Error> {
    let own = join(prefix, "weight");
    layer.visit_mut(prefix, &mut |name, t| {
        if name != own {
            f(name, t);
        }
    })
}

/// A layer's tensors are those of the inner layer but its weight, and these.
macro_rules! with_tensors {
    ($layer:ident $($tensor:ident)*) => {
        impl<L: Module> Module for $layer<L> {
            fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
                visit_others(&self.layer, prefix, f);
                $(f(&join(prefix, stringify!($tensor)), &self.$tensor);)*
            }

            fn visit_mut(
                &mut self,
                prefix: &str,
                f: &mut dyn FnMut(&str, &mut Tensor),
            ) -> Result<(), Error> {
                change_others(&mut self.layer, prefix, f)?;
                $(f(&join(prefix, stringify!($tensor)), &mut self.$tensor);)*
                Ok(())
            }

            fn key(&self, key: &mut Key) {
                key.add(stringify!($layer));
                self.layer.key(key);
            }
        }
    };
}

/// A layer whose weight is `g v / |v|`, with a length for each output, which training changes apart from the direction:
/// Salimans and Kingma, "Weight normalization", 2016.
///
/// ```
/// use kiln::{Tensor, nn::{Linear, Module, WeightNorm}};
/// let layer = WeightNorm::new(Linear::new(3, 2));
/// assert_eq!(layer.forward(&Tensor::ones([4, 3])).shape(), [4, 2]);
/// let names: Vec<String> = layer.state_dict().into_keys().collect();
/// assert_eq!(names, ["bias", "weight_g", "weight_v"]);
/// ```
#[derive(Clone, Debug)]
pub struct WeightNorm<L> {
    layer: L,
    /// `[outputs, 1, ..]`.
    pub weight_g: Tensor,
    /// Of the weight's shape.
    pub weight_v: Tensor,
}

impl<L: Weighted> WeightNorm<L> {
    /// With the direction and the lengths of the layer's weight along its first axis.
    ///
    /// ```
    /// use kiln::nn::{Conv2d, WeightNorm};
    /// assert_eq!(WeightNorm::new(Conv2d::new(3, 8, 5)).weight_g.shape(), [8, 1, 1, 1]);
    /// ```
    #[track_caller]
    pub fn new(layer: L) -> WeightNorm<L> {
        let weight_v = layer.weight().detach().copy().set_requires_grad(true);
        let weight_g = lengths(&weight_v).detach().copy().set_requires_grad(true);
        WeightNorm { layer, weight_g, weight_v }
    }

    /// The layer's value at `x`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::{Linear, WeightNorm}};
    /// let y = WeightNorm::new(Linear::new(1, 1)).forward(&Tensor::ones([1, 1]));
    /// ```
    ///
    /// # Errors
    /// As the layer's.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let weight = self.weight_v.mul(self.weight_g.div(lengths(&self.weight_v)));
        self.layer.with_weight(weight).forward(x)
    }
}

/// Of what lies along each position of the first axis.
#[track_caller]
fn lengths(v: &Tensor) -> Tensor {
    let others: Vec<usize> = (1..v.ndim()).collect();
    v.norm_keepdim(2.0, others)
}

with_tensors!(WeightNorm weight_g weight_v);

impl<L: Weighted> Forward for WeightNorm<L> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        WeightNorm::forward(self, x)
    }
}

/// A layer whose weight, as a matrix of its outputs, has its largest singular value divided out, which one step of the power
/// method for each forward pass in training estimates: Miyato et al., "Spectral normalization", 2018.
///
/// ```
/// use kiln::{Tensor, nn::{Linear, Module, SpectralNorm}};
/// let layer = SpectralNorm::new(Linear::new(3, 2));
/// assert_eq!(layer.forward(&Tensor::ones([4, 3])).shape(), [4, 2]);
/// let names: Vec<String> = layer.state_dict().into_keys().collect();
/// assert_eq!(names, ["bias", "weight_orig", "weight_u", "weight_v"]);
/// ```
#[derive(Clone, Debug)]
pub struct SpectralNorm<L> {
    layer: L,
    /// The weight before the division.
    pub weight_orig: Tensor,
    /// `[outputs]`.
    pub weight_u: Tensor,
    /// `[all others]`.
    pub weight_v: Tensor,
}

impl<L: Weighted> SpectralNorm<L> {
    /// With the layer's weight and random directions.
    ///
    /// ```
    /// use kiln::nn::{Conv2d, SpectralNorm};
    /// assert_eq!(SpectralNorm::new(Conv2d::new(3, 8, 5)).weight_v.shape(), [75]);
    /// ```
    #[track_caller]
    pub fn new(layer: L) -> SpectralNorm<L> {
        let weight_orig = layer.weight().detach().copy().set_requires_grad(true);
        let matrix = as_matrix(&weight_orig, layer.output_axis());
        let direction = |axis: usize| {
            let length = matrix.shape().get(axis).copied().unwrap_or(0);
            normal(&[length]).detach().normalize(2.0, 0).copy()
        };
        let (weight_u, weight_v) = (direction(0), direction(1));
        SpectralNorm { layer, weight_orig, weight_u, weight_v }
    }

    /// The layer's value at `x`. In training it computes the next directions.
    ///
    /// ```
    /// use kiln::{Tensor, nn::{Linear, SpectralNorm}};
    /// let y = SpectralNorm::new(Linear::new(1, 1)).forward(&Tensor::ones([1, 1]));
    /// ```
    ///
    /// # Errors
    /// As the layer's; whatever computing the directions gives.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if let Some(error) = self.weight_orig.error() {
            return Tensor::broken(error);
        }
        let matrix = as_matrix(&self.weight_orig, self.layer.output_axis());
        let (mut u, mut v) = (self.weight_u.detach(), self.weight_v.detach());
        if is_training() {
            let fixed = matrix.detach();
            v = fixed.t().mv(&u).normalize(2.0, 0);
            u = fixed.mv(&v).normalize(2.0, 0);
            self.weight_u.assign(u);
            self.weight_v.assign(v);
            // at once: what is computed of them later would go back to the first step
            if let Err(error) = crate::realize([&self.weight_u, &self.weight_v]) {
                return Tensor::broken(error);
            }
            (u, v) = (self.weight_u.detach(), self.weight_v.detach());
        }
        let largest = u.dot(&matrix.mv(&v));
        self.layer.with_weight(self.weight_orig.div(largest)).forward(x)
    }
}

/// A row for each output.
#[track_caller]
fn as_matrix(weight: &Tensor, axis: usize) -> Tensor {
    if weight.ndim() <= axis {
        return weight.clone();
    }
    let outputs = weight.shape()[axis];
    weight.movedim(axis, 0).reshape([outputs, weight.numel() / outputs.max(1)])
}

with_tensors!(SpectralNorm weight_orig weight_u weight_v);

impl<L: Weighted> Forward for SpectralNorm<L> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        SpectralNorm::forward(self, x)
    }
}
