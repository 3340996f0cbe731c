//! Networks that people run, written against kiln's public interface as a user would write them: examples to read, what the
//! `kiln` command generates text and embeds sentences with, and what tests and benchmarks compare with PyTorch.
//!
//! ```
//! use kiln::Tensor;
//! use kiln_models::{Gpt2, Gpt2Config};
//! let config = Gpt2Config { vocabulary: 20, positions: 8, width: 8, layers: 1, heads: 2 };
//! let logits = Gpt2::new(&config).forward(&Tensor::from([[3, 1, 4]]));
//! assert_eq!(logits.shape(), [1, 3, 20]);
//! ```

mod heads;
mod resnet;
mod mobilenet;
mod unet;
mod vit;
mod gpt2;
mod llama;
mod moe;
mod bert;
mod whisper;
mod lstm;
mod denoiser;
mod graph;
/// Numbers that follow from names.
pub mod formula;
/// All models, small and real, with their inputs and losses.
pub mod cases;

pub use bert::{Bert, BertConfig};
pub use denoiser::Denoiser;
pub use gpt2::{Gpt2, Gpt2Cache, Gpt2Config};
pub use graph::GraphNet;
pub use llama::{Llama, LlamaConfig};
pub use lstm::LstmModel;
pub use mobilenet::{Blocks, MobileNet};
pub use moe::{Mixture, MixtureConfig};
pub use resnet::ResNet;
pub use unet::UNet;
pub use vit::{ViT, ViTConfig};
pub use whisper::{Whisper, WhisperConfig};
