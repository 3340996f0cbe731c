//! Losses as modules: a tensor's methods with their settings.

use super::Module;
use crate::{ClassLoss, CtcLoss, Reduce, Tensor};

/// A loss of an input and other tensors, with numbers.
macro_rules! losses {
    ($($(#[$doc:meta])+ $layer:ident($($number:ident: $t:ty = $example:expr),*) $method:ident($($other:ident),+);)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        /// use kiln::{Reduce, Tensor};
        #[doc = concat!("let loss = kiln::nn::", stringify!($layer), "::new(", $(stringify!($example), ", ",)* ").reduce(Reduce::Sum);")]
        /// ```
        #[derive(Module, Clone, Copy, Debug)]
        pub struct $layer {
            $($number: $t,)*
            #[module(skip)]
            reduce: Reduce,
        }

        impl $layer {
            /// The mean of all losses.
            ///
            /// ```
            #[doc = concat!("let loss = kiln::nn::", stringify!($layer), "::new(", $(stringify!($example), ", ",)* ");")]
            /// ```
            #[allow(clippy::new_without_default)] // most have settings
            pub fn new($($number: $t),*) -> $layer {
                $layer { $($number,)* reduce: Reduce::Mean }
            }

            /// Their sum, or as they are.
            ///
            /// ```
            #[doc = concat!("let loss = kiln::nn::", stringify!($layer), "::new(", $(stringify!($example), ", ",)* ").reduce(kiln::Reduce::None);")]
            /// ```
            pub fn reduce(mut self, reduce: Reduce) -> $layer {
                self.reduce = reduce;
                self
            }

            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            ///
            /// ```
            /// let x = kiln::Tensor::full([2, 2], 0.5f32);
            #[doc = concat!("let loss = kiln::nn::", stringify!($layer), "::new(", $(stringify!($example), ", ",)* ");")]
            #[doc = concat!("let y = loss.forward(&x", $(", &x.detach() /* ", stringify!($other), " */",)+ ");")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            #[track_caller]
            pub fn forward(&self, x: &Tensor, $($other: &Tensor),+) -> Tensor {
                x.$method($($other,)+ $(self.$number,)* self.reduce)
            }
        }
    )* };
}

losses! {
    /// Squares of distances.
    MSELoss() mse_loss(target);
    /// Sizes of distances.
    L1Loss() l1_loss(target);
    /// Half the squares of distances, and beyond `delta` straight lines.
    HuberLoss(delta: f64 = 1.0) huber_loss(target);
    /// Sizes of distances, and below `beta` parabolas.
    SmoothL1Loss(beta: f64 = 1.0) smooth_l1_loss(target);
    /// Divergences of Kullback and Leibler, of logarithms of probabilities.
    KLDivLoss(log_target: bool = false) kl_div(target);
    /// Cross entropies of probabilities of two classes.
    BCELoss() binary_cross_entropy(target);
    /// Negative logarithms of Poisson's distribution, whose rate's logarithm is the input.
    PoissonNLLLoss() poisson_nll_loss(target);
    /// Negative logarithms of the normal distribution, whose mean is the input.
    GaussianNLLLoss() gaussian_nll_loss(target, variance);
    /// Distances of alike ones, and what distances of others lack to the margin.
    HingeEmbeddingLoss(margin: f64 = 1.0) hinge_embedding_loss(target);
    /// What the difference of two inputs lacks to the margin, under the sign of the target.
    MarginRankingLoss(margin: f64 = 0.0) margin_ranking_loss(other, target);
    /// How much farther the near one is than the far one, with a margin.
    TripletMarginLoss(margin: f64 = 1.0, p: f64 = 2.0) triplet_margin_loss(near, far);
    /// Angles of alike ones, and what angles of others lack to the margin.
    CosineEmbeddingLoss(margin: f64 = 0.0) cosine_embedding_loss(other, target);
    /// `log(1 + exp(-target x))`.
    SoftMarginLoss() soft_margin_loss(target);
}

/// Cross entropies of two classes, of logits.
///
/// ```
/// use kiln::{Tensor, nn::BCEWithLogitsLoss};
/// let loss = BCEWithLogitsLoss::new().forward(&Tensor::zeros([2]), &Tensor::ones([2]));
/// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug, Default)]
pub struct BCEWithLogitsLoss {
    #[module(skip)]
    positive_weight: Option<Tensor>,
    #[module(skip)]
    reduce: Reduce,
}

impl BCEWithLogitsLoss {
    /// The mean of all losses.
    ///
    /// ```
    /// let loss = kiln::nn::BCEWithLogitsLoss::new();
    /// ```
    pub fn new() -> BCEWithLogitsLoss {
        BCEWithLogitsLoss::default()
    }

    /// Their sum, or as they are.
    ///
    /// ```
    /// let loss = kiln::nn::BCEWithLogitsLoss::new().reduce(kiln::Reduce::Sum);
    /// ```
    pub fn reduce(self, reduce: Reduce) -> BCEWithLogitsLoss {
        BCEWithLogitsLoss { reduce, ..self }
    }

    /// With another weight of the class 1; it broadcasts.
    ///
    /// ```
    /// let loss = kiln::nn::BCEWithLogitsLoss::new().positive_weight(&kiln::Tensor::from([2.0f32]));
    /// ```
    pub fn positive_weight(self, weight: &Tensor) -> BCEWithLogitsLoss {
        BCEWithLogitsLoss { positive_weight: Some(weight.clone()), ..self }
    }

    /// As [`Tensor::binary_cross_entropy_with_logits`].
    ///
    /// ```
    /// let x = kiln::Tensor::ones([2]);
    /// let y = kiln::nn::BCEWithLogitsLoss::new().forward(&x, &x);
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::binary_cross_entropy_with_logits`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Tensor {
        x.binary_cross_entropy_with_logits(target, self.positive_weight.as_ref(), self.reduce)
    }
}

/// How unlikely sequences of labels are that are spread over more steps, by the logarithms of probabilities.
///
/// ```
/// use kiln::{Tensor, nn::CTCLoss};
/// let logs = Tensor::zeros([2, 1, 2]).log_softmax(2);
/// let loss = CTCLoss::new().forward(&logs, &Tensor::from([[1]]), &Tensor::from([2]), &Tensor::from([1]));
/// assert!((loss.item::<f32>()? + 0.75f32.ln()).abs() < 1e-6);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct CTCLoss {
    #[module(skip)]
    options: CtcLoss,
}

impl CTCLoss {
    /// The mean of all losses; the blank is the class 0.
    ///
    /// ```
    /// let loss = kiln::nn::CTCLoss::new();
    /// ```
    pub fn new() -> CTCLoss {
        CTCLoss::default()
    }

    /// With other options.
    ///
    /// ```
    /// use kiln::{CtcLoss, nn::CTCLoss};
    /// let loss = CTCLoss::with(CtcLoss { blank: 3, ..CtcLoss::default() });
    /// ```
    pub fn with(options: CtcLoss) -> CTCLoss {
        CTCLoss { options }
    }

    /// As [`Tensor::ctc_loss`].
    ///
    /// ```
    /// use kiln::{Tensor, nn::CTCLoss};
    /// let logs = Tensor::zeros([2, 1, 2]).log_softmax(2);
    /// let loss = CTCLoss::new().forward(&logs, &Tensor::from([[1]]), &Tensor::from([2]), &Tensor::from([1]));
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::ctc_loss`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, targets: &Tensor, steps: &Tensor, labels: &Tensor) -> Tensor {
        x.ctc_loss(targets, steps, labels, self.options)
    }
}

/// A loss of classes, and its method.
macro_rules! class_losses {
    ($($(#[$doc:meta])+ $layer:ident $method:ident;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        /// use kiln::Tensor;
        #[doc = concat!("let loss = kiln::nn::", stringify!($layer), "::new().forward(&Tensor::zeros([1, 2]), &Tensor::from([1]));")]
        /// ```
        #[derive(Module, Clone, Debug, Default)]
        pub struct $layer {
            #[module(skip)]
            weight: Option<Tensor>,
            #[module(skip)]
            reduce: Reduce,
            ignore_index: Option<i64>,
            label_smoothing: f64,
        }

        impl $layer {
            /// The mean of all losses.
            ///
            /// ```
            #[doc = concat!("let loss = kiln::nn::", stringify!($layer), "::new();")]
            /// ```
            pub fn new() -> $layer {
                $layer::default()
            }

            /// Their sum, or as they are.
            ///
            /// ```
            #[doc = concat!("let loss = kiln::nn::", stringify!($layer), "::new().reduce(kiln::Reduce::Sum);")]
            /// ```
            pub fn reduce(self, reduce: Reduce) -> $layer {
                $layer { reduce, ..self }
            }

            /// With a weight for each class.
            ///
            /// ```
            #[doc = concat!("let loss = kiln::nn::", stringify!($layer), "::new().weight(&kiln::Tensor::ones([2]));")]
            /// ```
            pub fn weight(self, weight: &Tensor) -> $layer {
                $layer { weight: Some(weight.clone()), ..self }
            }

            /// With a label that has no loss.
            ///
            /// ```
            #[doc = concat!("let loss = kiln::nn::", stringify!($layer), "::new().ignore_index(-100);")]
            /// ```
            pub fn ignore_index(self, label: i64) -> $layer {
                $layer { ignore_index: Some(label), ..self }
            }

            /// With a share of the target, from 0 to 1, that all classes have in equal parts.
            ///
            /// ```
            #[doc = concat!("let loss = kiln::nn::", stringify!($layer), "::new().label_smoothing(0.1);")]
            /// ```
            pub fn label_smoothing(self, label_smoothing: f64) -> $layer {
                $layer { label_smoothing, ..self }
            }

            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            ///
            /// ```
            /// use kiln::Tensor;
            #[doc = concat!("let loss = kiln::nn::", stringify!($layer), "::new().forward(&Tensor::zeros([1, 2]), &Tensor::from([1]));")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            #[track_caller]
            pub fn forward(&self, x: &Tensor, target: &Tensor) -> Tensor {
                x.$method(target, ClassLoss {
                    reduce: self.reduce,
                    weight: self.weight.as_ref(),
                    ignore_index: self.ignore_index,
                    label_smoothing: self.label_smoothing,
                })
            }
        }
    )* };
}

class_losses! {
    /// Cross entropies of logits and class labels, or probabilities of classes.
    CrossEntropyLoss cross_entropy_with;
    /// Negative logarithms of the probabilities of class labels, of logarithms.
    NLLLoss nll_loss;
}
