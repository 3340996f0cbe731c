//! Layers: values and gradients against PyTorch, and what they have in common.

mod common;
mod more;
mod values;
