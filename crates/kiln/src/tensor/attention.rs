//! Attention.

use super::Tensor;
use crate::DType;
use crate::error::{Fault, refuse};
use crate::origin::outermost;

/// How [`scaled_dot_product_attention_with`](Tensor::scaled_dot_product_attention_with) weighs keys.
///
/// ```
/// use kiln::{AttentionOptions, Tensor};
/// let (q, k) = (Tensor::ones([1, 4, 2, 8]), Tensor::ones([1, 2, 2, 8]));
/// let options = AttentionOptions::new().causal(true).grouped(true);
/// assert_eq!(q.scaled_dot_product_attention_with(&k, &k, &options).shape(), [1, 4, 2, 8]);
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct AttentionOptions<'a> {
    mask: Option<&'a Tensor>,
    causal: bool,
    scale: Option<f64>,
    dropout: f64,
    grouped: bool,
}

/// Settings.
impl<'a> AttentionOptions<'a> {
    /// Each query sees each key, scaled by 1 over the root of the width.
    ///
    /// ```
    /// let options = kiln::AttentionOptions::new();
    /// ```
    pub fn new() -> AttentionOptions<'a> {
        AttentionOptions::default()
    }

    /// With a mask that broadcasts to `[.., queries, keys]`: a bool one is true where a key may be seen, others are added.
    ///
    /// ```
    /// let mask = kiln::Tensor::ones([2, 2]).tril(0).cast(kiln::DType::Bool);
    /// let options = kiln::AttentionOptions::new().mask(&mask);
    /// ```
    pub fn mask(self, mask: &'a Tensor) -> AttentionOptions<'a> {
        AttentionOptions { mask: Some(mask), ..self }
    }

    /// Whether keys after the query's position are left out.
    ///
    /// ```
    /// let options = kiln::AttentionOptions::new().causal(true);
    /// ```
    pub fn causal(self, causal: bool) -> AttentionOptions<'a> {
        AttentionOptions { causal, ..self }
    }

    /// With another number that products of queries and keys are multiplied by.
    ///
    /// ```
    /// let options = kiln::AttentionOptions::new().scale(1.0);
    /// ```
    pub fn scale(self, scale: f64) -> AttentionOptions<'a> {
        AttentionOptions { scale: Some(scale), ..self }
    }

    /// With weights that are dropped with probability `p` in training, as [`dropout`](Tensor::dropout) does.
    ///
    /// ```
    /// let options = kiln::AttentionOptions::new().dropout(0.1);
    /// ```
    pub fn dropout(self, p: f64) -> AttentionOptions<'a> {
        AttentionOptions { dropout: p, ..self }
    }

    /// Whether several heads of queries may share one of keys and values: heads are the last axis but two, and neighbours
    /// are a group.
    ///
    /// ```
    /// let options = kiln::AttentionOptions::new().grouped(true);
    /// ```
    pub fn grouped(self, grouped: bool) -> AttentionOptions<'a> {
        AttentionOptions { grouped, ..self }
    }
}

/// Attention.
impl Tensor {
    /// `softmax(query key^T / sqrt(width) + mask) value` over the last two axes; this is the query. A bool mask is
    /// true where a key may be seen, and gives the others a weight of zero; so does a mask of -infinity, which is added. A query
    /// that sees no key gives zeros, and has no part in any gradient. `is_causal` leaves keys after the query's
    /// position out altogether, with their values: what is not a number there changes nothing.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let q = Tensor::ones([1, 2, 4]);
    /// let y = q.scaled_dot_product_attention(&q, &q, None, true);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0; 8]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`matmul`](Tensor::matmul); fewer than two axes; a mask that does not broadcast.
    #[must_use]
    #[track_caller]
    pub fn scaled_dot_product_attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
        is_causal: bool,
    ) -> Tensor {
        let _method = outermost("scaled_dot_product_attention");
        let options = AttentionOptions { mask, causal: is_causal, ..AttentionOptions::new() };
        self.attended(key, value, &options)
    }

    /// As [`scaled_dot_product_attention`](Tensor::scaled_dot_product_attention), with a scale, dropout and heads in groups, as
    /// `options` say.
    ///
    /// ```
    /// use kiln::{AttentionOptions, Tensor};
    /// let q = Tensor::ones([1, 2, 4]);
    /// let y = q.scaled_dot_product_attention_with(&q, &q, &AttentionOptions::new().scale(1.0));
    /// assert_eq!(y.to_vec::<f32>()?, [1.0; 8]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`scaled_dot_product_attention`](Tensor::scaled_dot_product_attention); heads of queries that are no groups of those
    /// of keys; a probability that is none.
    #[must_use]
    #[track_caller]
    pub fn scaled_dot_product_attention_with(
        &self,
        key: &Tensor,
        value: &Tensor,
        options: &AttentionOptions<'_>,
    ) -> Tensor {
        let _method = outermost("scaled_dot_product_attention_with");
        if !options.grouped {
            return self.attended(key, value, options);
        }
        match Groups::new(self, key, value, options.mask) {
            Ok(groups) => groups.attended(options),
            Err(fault) => Tensor::broken(fault.at("scaled_dot_product_attention_with")),
        }
    }

    #[track_caller]
    fn attended(&self, key: &Tensor, value: &Tensor, options: &AttentionOptions<'_>) -> Tensor {
        let operands = [self, key, value].into_iter().chain(options.mask);
        if let Err(fault) = Tensor::all_valid(operands) {
            return Tensor::broken(fault.at("scaled_dot_product_attention"));
        }
        if self.ndim() < 2 || key.ndim() < 2 {
            let few = refuse!("wants two axes, query {:?}, key {:?}", self.shape(), key.shape());
            return Tensor::or_broken("scaled_dot_product_attention", few);
        }
        let width = *self.shape().last().expect("two axes");
        let scale = options.scale.unwrap_or(1.0 / (width as f64).sqrt());
        let key = key.transpose(-2, -1);
        let (rows, keys) = (self.shape()[self.ndim() - 2], key.shape()[key.ndim() - 1]);
        let seen = options.causal.then(|| {
            let [row, column] = [rows, keys].map(|n| Tensor::arange_with(n, self.device()));
            column.le(row.reshape([rows, 1]))
        });
        let scores = match &seen {
            None => self.matmul(&key),
            Some(seen) => self.matmul_where(&key, &seen.reshape([rows, keys, 1])),
        };
        let mut scores = scores.mul(scale);
        if let Some(mask) = options.mask {
            scores = match mask.dtype() {
                DType::Bool => mask.where_(&scores, f64::NEG_INFINITY),
                _ => scores.add(mask),
            };
        }
        let weights = scores.softmax_where(seen.as_ref(), options.mask.is_some());
        let weights =
            if options.dropout == 0.0 { weights } else { weights.dropout(options.dropout) };
        match &seen {
            None => weights.matmul(value),
            Some(seen) => weights.matmul_where(value, &seen.reshape([rows, 1, keys])),
        }
    }
}

/// Operands of which the heads are `[heads of keys, queries to each]`.
struct Groups {
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Option<Tensor>,
}

impl Groups {
    fn new(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>) -> Result<Groups, Fault> {
        Tensor::all_valid([q, k, v].into_iter().chain(mask))?;
        if [q, k, v].iter().any(|t| t.ndim() < 3) {
            return refuse!(
                "wants heads, query {:?}, key {:?}, value {:?}",
                q.shape(),
                k.shape(),
                v.shape()
            );
        }
        let [heads, of_keys, of_values] = [q, k, v].map(|t| t.shape()[t.ndim() - 3]);
        if of_keys == 0 || of_keys != of_values || heads % of_keys != 0 {
            return refuse!(
                "{heads} heads of queries are no groups of {of_keys} of keys and {of_values} of values"
            );
        }
        let split = |t: &Tensor| match t.ndim() {
            0..3 => t.clone(),
            n if t.shape()[n - 3] == heads => t.unflatten(-3, [of_keys, heads / of_keys]),
            _ => t.unsqueeze(-3),
        };
        Ok(Groups {
            query: q.unflatten(-3, [of_keys, heads / of_keys]),
            key: k.unsqueeze(-3),
            value: v.unsqueeze(-3),
            mask: mask.map(split),
        })
    }

    #[track_caller]
    fn attended(&self, options: &AttentionOptions<'_>) -> Tensor {
        let options = AttentionOptions { mask: self.mask.as_ref(), ..*options };
        let y = self.query.attended(&self.key, &self.value, &options);
        if y.error().is_some() { y } else { y.flatten_axes(-4, -3) }
    }
}
