//! A language model of recurrent layers (Zaremba et al., 2014, arXiv:1409.2329).

use kiln::Tensor;
use kiln::nn::{Embedding, LSTM, Linear, Module};

/// Embedded tokens through layers with a memory. Tokens are integers, `[batch, length]`.
///
/// ```
/// use kiln::Tensor;
/// let model = kiln_models::LstmModel::new(20, 8, 2);
/// assert_eq!(model.forward(&Tensor::from([[3, 1, 4]])).shape(), [1, 3, 20]);
/// ```
#[derive(Module)]
pub struct LstmModel {
    tokens: Embedding,
    lstm: LSTM,
    head: Linear,
}

impl LstmModel {
    /// With so many tokens, numbers for each, and layers.
    ///
    /// ```
    /// let model = kiln_models::LstmModel::new(20, 8, 1);
    /// ```
    pub fn new(vocabulary: usize, width: usize, layers: usize) -> LstmModel {
        LstmModel {
            tokens: Embedding::new(vocabulary, width),
            lstm: LSTM::deep(width, width, layers),
            head: Linear::new(width, vocabulary),
        }
    }

    /// Logits of the token after each, `[batch, length, vocabulary]`.
    ///
    /// ```
    /// let logits = kiln_models::LstmModel::new(9, 8, 1).forward(&kiln::Tensor::from([[1, 2]]));
    /// ```
    ///
    /// # Errors
    /// Tokens that are no integers, or not of two axes.
    #[track_caller]
    pub fn forward(&self, tokens: &Tensor) -> Tensor {
        let rows = self.tokens.forward(tokens).transpose(0, 1);
        let (y, _) = self.lstm.forward(&rows, None);
        self.head.forward(&y.transpose(0, 1))
    }
}
