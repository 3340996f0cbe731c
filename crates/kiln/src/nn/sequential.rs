//! Layers one after the other, as many as are added.

use super::{Forward, Key, Layer, Module, join};

use crate::Tensor;
use crate::error::Error;
use std::fmt;

/// Layers one after the other. Their tensors are named by the layers' numbers, as in PyTorch's `Sequential`.
///
/// ```
/// use kiln::{Tensor, nn::{Linear, Module, Sequential}};
/// let net = Sequential::new().add(Linear::new(4, 8)).add(Tensor::relu).add(Linear::new(8, 2).without_bias());
/// assert_eq!(net.forward(&Tensor::ones([3, 4])).shape(), [3, 2]);
/// let names: Vec<String> = net.state_dict().into_keys().collect();
/// assert_eq!(names, ["0.bias", "0.weight", "2.weight"]);
/// ```
#[derive(Default)]
pub struct Sequential {
    layers: Vec<(String, Box<dyn Layer>)>,
}

impl Sequential {
    /// With no layer: its value is its input.
    ///
    /// ```
    /// assert!(kiln::nn::Sequential::new().is_empty());
    /// ```
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// With one more layer: a module, or a function of a tensor.
    ///
    /// ```
    /// use kiln::{Tensor, nn::Sequential};
    /// let net = Sequential::new().add(|x: &Tensor| x + 1.0).add(Tensor::square);
    /// assert_eq!(net.forward(&Tensor::ones([1])).item::<f32>()?, 4.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[allow(clippy::should_implement_trait, reason = "nothing is summed")]
    pub fn add<Kind>(self, layer: impl IntoLayer<Kind>) -> Sequential {
        let name = self.layers.len().to_string();
        self.add_named(&name, layer)
    }

    /// As [`add`](Sequential::add), under a name.
    ///
    /// ```
    /// use kiln::nn::{Linear, Module, Sequential};
    /// let net = Sequential::new().add_named("head", Linear::new(1, 1).without_bias());
    /// assert!(net.state_dict().contains_key("head.weight"));
    /// ```
    pub fn add_named<Kind>(mut self, name: &str, layer: impl IntoLayer<Kind>) -> Sequential {
        self.layers.push((name.to_owned(), layer.into_layer()));
        self
    }

    /// The number of layers.
    ///
    /// ```
    /// assert_eq!(kiln::nn::Sequential::new().add(kiln::Tensor::relu).len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether there is no layer.
    ///
    /// ```
    /// assert!(!kiln::nn::Sequential::new().add(kiln::Tensor::relu).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The value of the last layer.
    ///
    /// ```
    /// let net = kiln::nn::Sequential::new().add(kiln::Tensor::relu);
    /// assert_eq!(net.forward(&kiln::Tensor::from([-1.0f32])).item::<f32>()?, 0.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the layers.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        // no closure: in one the caller's line would be lost
        let mut x = x.clone();
        for (_, layer) in &self.layers {
            x = layer.forward(&x);
        }
        x
    }
}

impl Forward for Sequential {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        Sequential::forward(self, x)
    }
}

impl Module for Sequential {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        self.layers.iter().for_each(|(name, layer)| layer.visit(&join(prefix, name), f));
    }

    fn visit_mut(
        &mut self,
        prefix: &str,
        f: &mut dyn FnMut(&str, &mut Tensor),
    ) -> Result<(), Error> {
        let layers = &mut self.layers;
        layers.iter_mut().try_for_each(|(name, layer)| layer.visit_mut(&join(prefix, name), f))
    }

    fn key(&self, key: &mut Key) {
        key.add(self.layers.len());
        self.layers.iter().for_each(|(_, layer)| layer.key(key));
    }
}

impl fmt::Debug for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.layers.iter().map(|(name, _)| name)).finish()
    }
}

/// What can be added to a [`Sequential`]: a layer, or a function. `Kind` says which and needs no naming.
pub trait IntoLayer<Kind> {
    #[doc(hidden)]
    fn into_layer(self) -> Box<dyn Layer>;
}

/// The kind of modules.
#[doc(hidden)]
#[derive(Debug)]
pub struct Modules;

/// The kind of functions.
#[doc(hidden)]
#[derive(Debug)]
pub struct Functions;

impl<L: Layer + 'static> IntoLayer<Modules> for L {
    fn into_layer(self) -> Box<dyn Layer> {
        Box::new(self)
    }
}

impl<F: Fn(&Tensor) -> Tensor + Send + Sync + 'static> IntoLayer<Functions> for F {
    fn into_layer(self) -> Box<dyn Layer> {
        Box::new(Function(self))
    }
}

/// A function as a layer without tensors.
struct Function<F>(F);

impl<F: Fn(&Tensor) -> Tensor> Forward for Function<F> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        (self.0)(x)
    }
}

impl<F: 'static> Module for Function<F> {
    fn visit(&self, _: &str, _: &mut dyn FnMut(&str, &Tensor)) {}

    fn key(&self, key: &mut Key) {
        // a function that captures nothing is its type
        match size_of::<F>() {
            0 => key.add(std::any::TypeId::of::<F>()),
            _ => key.unknown(std::any::type_name::<F>()),
        }
    }
}
