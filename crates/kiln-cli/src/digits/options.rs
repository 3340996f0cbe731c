//! The options of `kiln digits`.

use kiln::DType;
use std::path::PathBuf;

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seed of the weights and of the order of the images
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Times that every training image is seen [default: 20, with --load 0]
    #[arg(long)]
    pub(super) epochs: Option<usize>,
    /// Images per step
    #[arg(long, default_value_t = 64, value_parser = at_least_one)]
    pub(super) batch: usize,
    /// Learning rate of the first step; it falls to 0 along half a cosine
    #[arg(long, default_value_t = 0.008)]
    pub(super) lr: f64,
    /// What products are computed in, in training and in testing; weights are f32
    #[arg(long, default_value = "f32", value_name = "f32|f16|bf16", value_parser = precision)]
    pub(super) precision: DType,
    /// Use at most so many images for training, and as many for testing
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) limit: Option<usize>,
    /// Write the weights to a safetensors file
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    /// Start from the weights in a safetensors file
    #[arg(long, value_name = "FILE")]
    pub(super) load: Option<PathBuf>,
    /// Print the loss of every step, to the last bit
    #[arg(long)]
    pub(super) losses: bool,
    /// Print one line of JSON to standard output, and the rest to standard error
    #[arg(long)]
    pub(super) json: bool,
}

const EPOCHS: usize = 20;

impl Options {
    /// How often every training image is seen.
    pub(super) fn epochs(&self) -> usize {
        self.epochs.unwrap_or(if self.load.is_some() { 0 } else { EPOCHS })
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("0 is too few".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a number".into()),
    }
}

fn precision(text: &str) -> Result<DType, String> {
    match text.parse() {
        Ok(dtype @ (DType::F32 | DType::F16 | DType::BF16)) => Ok(dtype),
        _ => Err("wants f32, f16 or bf16".into()),
    }
}
