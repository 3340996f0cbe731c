//! `kiln gpt2`: goes on with a text.

use super::folder::{Config, Folder, load, tokens};
use super::sampling::Sampler;
use crate::outcome::{Failure, Outcome};
use kiln::nn::{Module, StateDict};
use kiln::{DType, Tensor, no_grad};
use kiln_models::{Gpt2, Gpt2Config};
use serde_json::json;
use std::io::{Write, stderr, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokenizers::Tokenizer;

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder with the model's files, as published: config.json, weights as safetensors or .bin, tokenizer.json or
    /// vocab.json and merges.txt
    #[arg(long, value_name = "DIR")]
    weights: PathBuf,
    /// The text to go on with
    #[arg(long, default_value = "")]
    prompt: String,
    /// How many tokens to write at most
    #[arg(long, default_value_t = 100)]
    tokens: usize,
    /// How far from the likeliest token to stray; 0 takes the likeliest
    #[arg(long, default_value_t = 0.0, value_parser = not_negative)]
    temperature: f64,
    /// Draw among so many of the likeliest tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top_k: Option<u32>,
    /// Draw among the likeliest tokens that have so much of the probability together
    #[arg(long, default_value_t = 1.0, value_parser = a_share)]
    top_p: f64,
    /// Seed of what is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What to compute in: f32, bf16 or f16
    #[arg(long, default_value = "f32", value_parser = float)]
    dtype: DType,
}

fn not_negative(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|x: &f64| x.is_finite() && *x >= 0.0)
        .ok_or("no number from 0 on".into())
}

fn a_share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x| (0.0..=1.0).contains(x)).ok_or("no number from 0 to 1".into())
}

fn float(text: &str) -> Result<DType, String> {
    match text {
        "f32" => Ok(DType::F32),
        "bf16" => Ok(DType::BF16),
        "f16" => Ok(DType::F16),
        _ => Err("none of f32, bf16 and f16".into()),
    }
}

pub(crate) fn run(options: &Options) -> Outcome {
    let folder = Folder(&options.weights);
    let (config, tokenizer) = (folder.config()?, folder.tokenizer()?);
    let state = folder.weights("transformer.")?;
    let sizes = sizes(&config, &state)?;
    let last = config.optional("eos_token_id");
    let mut text = tokens(&tokenizer, &options.prompt, sizes.vocabulary)?;
    if text.is_empty() {
        // a text begins after the end of another
        text.extend(last.filter(|id| *id < sizes.vocabulary as u64).map(|id| id as i64));
    }
    if text.is_empty() || text.len() >= sizes.positions {
        let most = sizes.positions - 1;
        return Err(Failure::new(format!("the prompt has {} tokens, not 1 to {most}", text.len())));
    }
    let mut model = Gpt2::new(&sizes);
    model.to(options.dtype)?;
    load(&model, state)?;
    kiln::realize(model.state_dict().values())?;
    let count = options.tokens.min(sizes.positions - text.len());
    let mut writer = Writer { model, tokenizer, sampler: options.sampler(), last };
    // a gradient would need each older state of the cache, so that every token would copy it
    no_grad(|| writer.write(&options.prompt, text, count))
}

impl Options {
    fn sampler(&self) -> Sampler {
        Sampler {
            temperature: self.temperature,
            top_k: self.top_k.map(|k| k as usize),
            top_p: self.top_p,
            state: self.seed,
        }
    }
}

/// How large the model is.
fn sizes(config: &Config, state: &StateDict) -> Outcome<Gpt2Config> {
    config.is_one_of("model_type", &[json!("gpt2")])?;
    config.is_one_of("activation_function", &[json!("gelu_new"), json!("gelu_pytorch_tanh")])?;
    config.is_one_of("layer_norm_epsilon", &[json!(1e-5)])?;
    config.is_one_of("scale_attn_by_inverse_layer_idx", &[json!(false)])?;
    let width = config.number(&["n_embd"])?;
    config.is_one_of("n_inner", &[json!(null), json!(4 * width)])?;
    Ok(Gpt2Config {
        vocabulary: config.number(&["vocab_size"])?,
        positions: config.number(&["n_positions", "n_ctx"])?,
        width,
        layers: config.layers("n_layer", state, "h.")?,
        heads: config.heads("n_head", width)?,
    })
}

/// What writes on.
struct Writer {
    model: Gpt2,
    tokenizer: Tokenizer,
    sampler: Sampler,
    /// The token that ends a text.
    last: Option<u64>,
}

impl Writer {
    /// Writes the prompt and up to `count` tokens, each as soon as it is there, and how fast that was.
    fn write(&mut self, prompt: &str, mut text: Vec<i64>, count: usize) -> Outcome {
        let mut out = stdout().lock();
        write!(out, "{prompt}")?;
        let (mut cache, mut times) = (self.model.cache(1), Vec::new());
        let mut decoder = self.tokenizer.decode_stream(true);
        for _ in 0..count {
            let start = Instant::now();
            let length = text.len();
            let input = Tensor::from_vec(text, [1, length]);
            let logits = self.model.next(&input, &mut cache).cast(DType::F32).to_vec::<f32>()?;
            let next = self.sampler.pick(&logits)?;
            times.push(start.elapsed());
            if Some(next as u64) == self.last {
                break;
            }
            // a token may be a part of a letter, which is written with its other parts
            let piece = decoder.step(next as u32).map_err(Failure::new)?;
            write!(out, "{}", piece.unwrap_or_default())?;
            out.flush()?;
            text = vec![next as i64];
        }
        writeln!(out)?;
        Ok(writeln!(stderr(), "{}", speed(&times))?)
    }
}

/// How long the tokens took, the first of which is computed with the whole prompt.
fn speed(times: &[Duration]) -> String {
    let Some((first, others)) = times.split_first() else { return "no tokens".to_owned() };
    let (first, others) = (first.as_secs_f64(), others.iter().sum::<Duration>().as_secs_f64());
    let rate = (times.len() - 1) as f64 / others.max(1e-9);
    format!("{} tokens: the first after {first:.2} s, then {rate:.1} a second", times.len())
}
