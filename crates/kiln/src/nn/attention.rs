//! Attention of several heads, and the layers of a transformer (Vaswani et al., 2017, arXiv:1706.03762).

use super::build::{filled, uniform};
use super::{Dropout, LayerNorm, Linear, Module};
use crate::Tensor;
use crate::error::{Fault, refuse};
use crate::s;

/// Attention of several heads over `[batch, length, width]`, with the names of PyTorch's `MultiheadAttention`.
///
/// ```
/// use kiln::{Tensor, nn::MultiheadAttention};
/// let (x, layer) = (Tensor::ones([2, 5, 8]), MultiheadAttention::new(8, 2));
/// assert_eq!(layer.forward(&x, &x, &x, None, true).shape(), [2, 5, 8]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct MultiheadAttention {
    /// `[3 width, width]`: of queries, keys and values.
    pub in_proj_weight: Tensor,
    /// `[3 width]`.
    pub in_proj_bias: Tensor,
    /// From the heads to the output.
    pub out_proj: Linear,
    heads: usize,
}

impl MultiheadAttention {
    /// With weights drawn as PyTorch draws them, and biases of 0.
    ///
    /// ```
    /// assert_eq!(kiln::nn::MultiheadAttention::new(8, 2).in_proj_weight.shape(), [24, 8]);
    /// ```
    #[track_caller]
    pub fn new(width: usize, heads: usize) -> MultiheadAttention {
        // Glorot's bound for as many outputs as three projections have
        let bound = (6.0 / (4 * width.max(1)) as f64).sqrt();
        let out_proj = Linear { bias: Some(filled([width], 0.0)), ..Linear::new(width, width) };
        MultiheadAttention {
            in_proj_weight: uniform(&[3 * width, width], bound),
            in_proj_bias: filled([3 * width], 0.0),
            out_proj,
            heads,
        }
    }

    /// What the queries, `[batch, length, width]`, see of the values by their keys, `[batch, others, width]`. `mask` and
    /// `is_causal` are as in [`Tensor::scaled_dot_product_attention`]: a bool mask is true where a key may be seen. It
    /// broadcasts to `[batch, heads, length, others]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::MultiheadAttention};
    /// let (q, k) = (Tensor::ones([2, 5, 8]), Tensor::ones([2, 7, 8]));
    /// assert_eq!(MultiheadAttention::new(8, 4).forward(&q, &k, &k, None, false).shape(), [2, 5, 8]);
    /// ```
    ///
    /// # Errors
    /// Shapes that do not belong together; heads that do not divide the width.
    #[track_caller]
    pub fn forward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
        is_causal: bool,
    ) -> Tensor {
        match self.seen(query, key, value, mask, is_causal) {
            Ok(heads) => self.out_proj.forward(&heads),
            Err(fault) => Tensor::broken(fault.at("MultiheadAttention")),
        }
    }

    /// What each head sees, beside each other.
    fn seen(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
        is_causal: bool,
    ) -> Result<Tensor, Fault> {
        let mut projected = Vec::new();
        for (i, x) in [query, key, value].into_iter().enumerate() {
            projected.push(self.split(x, i)?);
        }
        let [q, k, v] = &projected[..] else { unreachable!("three") };
        let y = q.scaled_dot_product_attention(k, v, mask, is_causal);
        if let Some(error) = y.error() {
            return Err(error.into());
        }
        let &[batch, heads, length, width] = y.shape() else { unreachable!("four axes") };
        Ok(y.transpose(1, 2).reshape([batch, length, heads * width]))
    }

    /// Projection `i` of `x`, `[batch, heads, length, width / heads]`.
    fn split(&self, x: &Tensor, i: usize) -> Result<Tensor, Fault> {
        if let Some(error) = x.error() {
            return Err(error.into());
        }
        let width = self.in_proj_bias.numel() / 3;
        let &[batch, length, given] = x.shape() else {
            return refuse!("wants [batch, length, width], not {:?}", x.shape());
        };
        if given != width || self.heads == 0 || !width.is_multiple_of(self.heads) {
            return refuse!("{} heads of width {width} in all, not {:?}", self.heads, x.shape());
        }
        let rows = i * width..(i + 1) * width;
        let weight = self.in_proj_weight.get(s![rows.clone()]);
        let y = x.linear(&weight.t(), Some(&self.in_proj_bias.get(s![rows])));
        Ok(y.reshape([batch, length, self.heads, width / self.heads]).transpose(1, 2))
    }
}

/// Two linear layers with `relu` between them.
#[derive(Module, Clone, Debug)]
struct FeedForward {
    linear1: Linear,
    linear2: Linear,
    dropout: Dropout,
}

impl FeedForward {
    #[track_caller]
    fn new(width: usize, inner: usize, p: f64) -> FeedForward {
        let (linear1, linear2) = (Linear::new(width, inner), Linear::new(inner, width));
        FeedForward { linear1, linear2, dropout: Dropout::new(p) }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let inner = self.dropout.forward(&self.linear1.forward(x).relu());
        self.dropout.forward(&self.linear2.forward(&inner))
    }
}

/// The sum of `x` and a part of a layer, and its normalization, which comes before the part or after the sum. Two steps
/// and no closure: a closure would hide the caller's line.
struct Residual<'a> {
    norm: &'a LayerNorm,
    is_first: bool,
}

impl Residual<'_> {
    /// The input of the part.
    #[track_caller]
    fn enter(&self, x: &Tensor) -> Tensor {
        if self.is_first { self.norm.forward(x) } else { x.clone() }
    }

    /// The sum with the part's output.
    #[track_caller]
    fn leave(&self, x: &Tensor, part: Tensor) -> Tensor {
        let sum = x.add(part);
        if self.is_first { sum } else { self.norm.forward(&sum) }
    }
}

macro_rules! setters {
    ($layer:ident) => {
        /// The layer whose parts normalize their input, not their output.
        ///
        /// ```
        #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(8, 2, 32).norm_first(true);")]
        /// ```
        pub fn norm_first(self, norm_first: bool) -> $layer {
            $layer { norm_first, ..self }
        }

        /// The layer that drops elements with another probability.
        ///
        /// ```
        #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(8, 2, 32).dropout(0.0);")]
        /// ```
        pub fn dropout(mut self, p: f64) -> $layer {
            (self.feed.dropout, self.drop) = (Dropout::new(p), Dropout::new(p));
            self
        }

        fn residual<'a>(&self, norm: &'a LayerNorm) -> Residual<'a> {
            Residual { norm, is_first: self.norm_first }
        }

        /// `x` after it has attended to itself.
        #[track_caller]
        fn attend(&self, x: &Tensor, mask: Option<&Tensor>, is_causal: bool) -> Tensor {
            let residual = self.residual(&self.norm1);
            let part = residual.enter(x);
            let part = self.self_attn.forward(&part, &part, &part, mask, is_causal);
            residual.leave(x, self.drop.forward(&part))
        }

        /// `x` after the two linear layers.
        #[track_caller]
        fn fed(&self, x: &Tensor, norm: &LayerNorm) -> Tensor {
            let residual = self.residual(norm);
            residual.leave(x, self.feed.forward(&residual.enter(x)))
        }
    };
}

/// A layer of a transformer's encoder, over `[batch, length, width]`.
///
/// ```
/// use kiln::{Tensor, nn::TransformerEncoderLayer};
/// let layer = TransformerEncoderLayer::new(8, 2, 32);
/// assert_eq!(layer.forward(&Tensor::ones([2, 5, 8]), None, true).shape(), [2, 5, 8]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct TransformerEncoderLayer {
    self_attn: MultiheadAttention,
    #[module(flatten)]
    feed: FeedForward,
    norm1: LayerNorm,
    norm2: LayerNorm,
    drop: Dropout,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// With `relu`, dropout of 0.1 and normalization after each part.
    ///
    /// ```
    /// let layer = kiln::nn::TransformerEncoderLayer::new(8, 2, 32);
    /// ```
    #[track_caller]
    pub fn new(width: usize, heads: usize, inner: usize) -> TransformerEncoderLayer {
        TransformerEncoderLayer {
            self_attn: MultiheadAttention::new(width, heads),
            feed: FeedForward::new(width, inner, 0.1),
            norm1: LayerNorm::new([width]),
            norm2: LayerNorm::new([width]),
            drop: Dropout::new(0.1),
            norm_first: false,
        }
    }

    setters!(TransformerEncoderLayer);

    /// The layer's value at `x`; `mask` and `is_causal` are as in [`MultiheadAttention::forward`].
    ///
    /// ```
    /// use kiln::{Tensor, nn::TransformerEncoderLayer};
    /// let y = TransformerEncoderLayer::new(4, 2, 8).forward(&Tensor::ones([1, 3, 4]), None, false);
    /// ```
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, mask: Option<&Tensor>, is_causal: bool) -> Tensor {
        self.fed(&self.attend(x, mask, is_causal), &self.norm2)
    }
}

/// A layer of a transformer's decoder, over `[batch, length, width]`, that also attends to the encoder's output.
///
/// ```
/// use kiln::{Tensor, nn::TransformerDecoderLayer};
/// let layer = TransformerDecoderLayer::new(8, 2, 32);
/// let (x, memory) = (Tensor::ones([2, 5, 8]), Tensor::ones([2, 7, 8]));
/// assert_eq!(layer.forward(&x, &memory, None, true).shape(), [2, 5, 8]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct TransformerDecoderLayer {
    self_attn: MultiheadAttention,
    multihead_attn: MultiheadAttention,
    #[module(flatten)]
    feed: FeedForward,
    norm1: LayerNorm,
    norm2: LayerNorm,
    norm3: LayerNorm,
    drop: Dropout,
    norm_first: bool,
}

impl TransformerDecoderLayer {
    /// With `relu`, dropout of 0.1 and normalization after each part.
    ///
    /// ```
    /// let layer = kiln::nn::TransformerDecoderLayer::new(8, 2, 32);
    /// ```
    #[track_caller]
    pub fn new(width: usize, heads: usize, inner: usize) -> TransformerDecoderLayer {
        TransformerDecoderLayer {
            self_attn: MultiheadAttention::new(width, heads),
            multihead_attn: MultiheadAttention::new(width, heads),
            feed: FeedForward::new(width, inner, 0.1),
            norm1: LayerNorm::new([width]),
            norm2: LayerNorm::new([width]),
            norm3: LayerNorm::new([width]),
            drop: Dropout::new(0.1),
            norm_first: false,
        }
    }

    setters!(TransformerDecoderLayer);

    /// The layer's value at `x` and the encoder's output; `mask` and `is_causal` are of `x` among itself, as in
    /// [`MultiheadAttention::forward`].
    ///
    /// ```
    /// use kiln::{Tensor, nn::TransformerDecoderLayer};
    /// let x = Tensor::ones([1, 3, 4]);
    /// let y = TransformerDecoderLayer::new(4, 2, 8).forward(&x, &x, None, true);
    /// ```
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    #[track_caller]
    pub fn forward(
        &self,
        x: &Tensor,
        memory: &Tensor,
        mask: Option<&Tensor>,
        is_causal: bool,
    ) -> Tensor {
        let (x, residual) = (self.attend(x, mask, is_causal), self.residual(&self.norm2));
        let part = self.multihead_attn.forward(&residual.enter(&x), memory, memory, None, false);
        self.fed(&residual.leave(&x, self.drop.forward(&part)), &self.norm3)
    }
}
