//! Stacks of the layers of transformers.

use super::{LayerNorm, Module, TransformerDecoderLayer, TransformerEncoderLayer};
use crate::Tensor;

/// Encoder layers one after the other, over `[batch, length, width]`.
///
/// ```
/// use kiln::{Tensor, nn::{TransformerEncoder, TransformerEncoderLayer}};
/// let encoder = TransformerEncoder::new((0..3).map(|_| TransformerEncoderLayer::new(8, 2, 16)));
/// assert_eq!(encoder.forward(&Tensor::ones([2, 5, 8]), None, true).shape(), [2, 5, 8]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct TransformerEncoder {
    /// The layers, the first one first.
    pub layers: Vec<TransformerEncoderLayer>,
    /// What normalizes the output.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// Of these layers, without a norm at the end.
    ///
    /// ```
    /// use kiln::nn::{TransformerEncoder, TransformerEncoderLayer};
    /// let encoder = TransformerEncoder::new([TransformerEncoderLayer::new(8, 2, 16)]);
    /// ```
    pub fn new(layers: impl IntoIterator<Item = TransformerEncoderLayer>) -> TransformerEncoder {
        TransformerEncoder { layers: layers.into_iter().collect(), norm: None }
    }

    /// With a norm at the end.
    ///
    /// ```
    /// use kiln::nn::{LayerNorm, TransformerEncoder, TransformerEncoderLayer};
    /// let layer = TransformerEncoderLayer::new(8, 2, 16).norm_first(true);
    /// let encoder = TransformerEncoder::new([layer]).norm(LayerNorm::new([8]));
    /// ```
    pub fn norm(self, norm: LayerNorm) -> TransformerEncoder {
        TransformerEncoder { norm: Some(norm), ..self }
    }

    /// The value at `x`; `mask` and `is_causal` are as in [`TransformerEncoderLayer::forward`], for every layer.
    ///
    /// ```
    /// use kiln::{Tensor, nn::{TransformerEncoder, TransformerEncoderLayer}};
    /// let encoder = TransformerEncoder::new([TransformerEncoderLayer::new(4, 2, 8)]);
    /// let y = encoder.forward(&Tensor::ones([1, 3, 4]), None, false);
    /// ```
    ///
    /// # Errors
    /// As [`TransformerEncoderLayer::forward`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, mask: Option<&Tensor>, is_causal: bool) -> Tensor {
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.forward(&x, mask, is_causal);
        }
        normed(self.norm.as_ref(), x)
    }
}

/// Decoder layers one after the other, over `[batch, length, width]`, all with the same encoder's output.
///
/// ```
/// use kiln::{Tensor, nn::{TransformerDecoder, TransformerDecoderLayer}};
/// let decoder = TransformerDecoder::new((0..2).map(|_| TransformerDecoderLayer::new(8, 2, 16)));
/// let (x, memory) = (Tensor::ones([2, 5, 8]), Tensor::ones([2, 7, 8]));
/// assert_eq!(decoder.forward(&x, &memory, None, true).shape(), [2, 5, 8]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct TransformerDecoder {
    /// The layers, the first one first.
    pub layers: Vec<TransformerDecoderLayer>,
    /// What normalizes the output.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// Of these layers, without a norm at the end.
    ///
    /// ```
    /// use kiln::nn::{TransformerDecoder, TransformerDecoderLayer};
    /// let decoder = TransformerDecoder::new([TransformerDecoderLayer::new(8, 2, 16)]);
    /// ```
    pub fn new(layers: impl IntoIterator<Item = TransformerDecoderLayer>) -> TransformerDecoder {
        TransformerDecoder { layers: layers.into_iter().collect(), norm: None }
    }

    /// With a norm at the end.
    ///
    /// ```
    /// use kiln::nn::{LayerNorm, TransformerDecoder, TransformerDecoderLayer};
    /// let layer = TransformerDecoderLayer::new(8, 2, 16).norm_first(true);
    /// let decoder = TransformerDecoder::new([layer]).norm(LayerNorm::new([8]));
    /// ```
    pub fn norm(self, norm: LayerNorm) -> TransformerDecoder {
        TransformerDecoder { norm: Some(norm), ..self }
    }

    /// The value at `x` and the encoder's output; `mask` and `is_causal` are as in [`TransformerDecoderLayer::forward`],
    /// for every layer.
    ///
    /// ```
    /// use kiln::{Tensor, nn::{TransformerDecoder, TransformerDecoderLayer}};
    /// let decoder = TransformerDecoder::new([TransformerDecoderLayer::new(4, 2, 8)]);
    /// let x = Tensor::ones([1, 3, 4]);
    /// let y = decoder.forward(&x, &x, None, true);
    /// ```
    ///
    /// # Errors
    /// As [`TransformerDecoderLayer::forward`].
    #[track_caller]
    pub fn forward(
        &self,
        x: &Tensor,
        memory: &Tensor,
        mask: Option<&Tensor>,
        is_causal: bool,
    ) -> Tensor {
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.forward(&x, memory, mask, is_causal);
        }
        normed(self.norm.as_ref(), x)
    }
}

#[track_caller]
fn normed(norm: Option<&LayerNorm>, x: Tensor) -> Tensor {
    match norm {
        Some(norm) => norm.forward(&x),
        None => x,
    }
}
