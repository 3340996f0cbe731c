//! Attention with masks of every shape, scales and heads in groups.

use super::calls::{Args, calls};
use kiln::AttentionOptions;

calls! { a;
    unary;
    binary;
    "attention" [q, k, v] => q.scaled_dot_product_attention_with(k, v, &options(a));
    "attention" [q, k, v, mask] => {
        q.scaled_dot_product_attention_with(k, v, &options(a).mask(mask))
    };
}

fn options(a: Args<'_>) -> AttentionOptions<'static> {
    let is = |name: &str| a.0[0][name] == true;
    let options = AttentionOptions::new().causal(is("causal")).grouped(is("grouped"));
    match a.0[0]["scale"].as_f64() {
        Some(scale) => options.scale(scale),
        None => options,
    }
}
