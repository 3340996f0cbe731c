//! The networks of kiln-models at the sizes that people run: one sample, and training steps with AdamW.

use super::case::{self, Build, Case, Run, Tolerance, Work, run};
use kiln::optim::AdamW;
use kiln::{DType, Error};
use kiln_models::cases::{self, Size};

/// A model's two workloads.
macro_rules! models {
    ($($name:literal, $inference:literal, $train:literal, $batch:literal, $what:literal;)*) => {
        pub(super) const CASES: &[Case] = &[$(
            Case {
                name: $inference,
                what: concat!($what, ", one sample"),
                work: Work::NONE,
                // about a hundred layers, each of sums of some thousands
                tolerance: Tolerance::f32(100 * 4096),
                goal: 1.0,
                pieces: 1,
                build: Build::By(|| forward($name)),
            },
            Case {
                name: $train,
                what: concat!($what, ", a training step with AdamW on ", $batch, " samples"),
                work: Work::NONE,
                // Adam's first steps are signs of gradients, which rounding decides where they are near 0
                tolerance: Tolerance { epsilon: 1e-3, terms: 1 },
                goal: 1.0,
                pieces: 1,
                build: Build::By(|| training($name, $batch)),
            },
        )*];
    };
}
models! {
    "resnet50", "model-resnet50", "model-resnet50-train", 2, "ResNet-50, images of 224 x 224";
    "mobilenet", "model-mobilenet", "model-mobilenet-train", 2, "MobileNetV2, images of 224 x 224";
    "unet", "model-unet", "model-unet-train", 2, "U-Net of 32 to 512 channels, images of 128 x 128";
    "vit", "model-vit", "model-vit-train", 2, "ViT-B/16, images of 224 x 224";
    "gpt2", "model-gpt2", "model-gpt2-train", 2, "GPT-2 of 124 million weights, 64 tokens";
    "llama", "model-llama", "model-llama-train", 2, "LLaMA, 12 layers of 768, 64 tokens";
    "moe", "model-moe", "model-moe-train", 2, "8 experts, 6 layers of 512, 64 tokens";
    "bert", "model-bert", "model-bert-train", 2, "BERT-base, 128 tokens";
    "whisper", "model-whisper", "model-whisper-train", 2, "Whisper tiny, 30 s of sound, 32 tokens";
    "lstm", "model-lstm", "model-lstm-train", 16, "LSTM, 2 layers of 650, 35 tokens";
    "denoiser", "model-denoiser", "model-denoiser-train", 2, "a denoiser, images of 32 x 32";
    "graph", "model-graph", "model-graph-train", 2, "a graph network, 1000 nodes, 8000 edges";
}

fn real(name: &str) -> Result<cases::Case, Error> {
    Ok(cases::Case::of(name, Size::Real, DType::F32)?.expect("a name of NAMES"))
}

fn forward(name: &'static str) -> Result<Run, Error> {
    let model = real(name)?;
    let inputs = model.inputs(1);
    kiln::realize(&inputs)?;
    run(move || model.output(&inputs))
}

/// Forward, backward, and new weights; the result is the loss.
fn training(name: &'static str, batch: usize) -> Result<Run, Error> {
    let model = real(name)?;
    let inputs = model.inputs(batch);
    kiln::realize(&inputs)?;
    let optimizer = AdamW::new(model.module().parameters(), 1e-5);
    case::training(move || model.loss(&inputs), optimizer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_models_are_measured() {
        for name in cases::NAMES {
            let of = |suffix| CASES.iter().any(|c| c.name == format!("model-{name}{suffix}"));
            assert!(of("") && of("-train"), "{name}");
        }
        assert_eq!(CASES.len(), 2 * cases::NAMES.len());
    }
}
