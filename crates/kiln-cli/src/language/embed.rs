//! `kiln embed`: a vector for each text.

use super::folder::{Config, Folder, load, tokens};
use crate::outcome::{Failure, Outcome};
use kiln::nn::StateDict;
use kiln::{DType, Tensor, no_grad};
use kiln_models::{Bert, BertConfig};
use serde_json::json;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::PathBuf;
use tokenizers::{Tokenizer, TruncationParams};

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder with the model's files, as published: config.json, weights as safetensors or .bin, tokenizer.json or
    /// vocab.txt
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Texts that are computed together
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// The texts; without any, each line of the standard input is one
    texts: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let folder = Folder(&options.model);
    let config = folder.config()?;
    let state = folder.weights("bert.")?;
    let sizes = sizes(&config, &state)?;
    let most =
        folder.settings("sentence_bert_config.json")?.and_then(|c| c.optional("max_seq_length"));
    let most = most.map_or(sizes.positions, |n| sizes.positions.min(n as usize));
    let tokenizer = cut(folder.tokenizer()?, most)?;
    let model = Bert::new(&sizes);
    load(&model, state)?;
    let mut texts = options.texts.clone();
    if texts.is_empty() {
        texts = stdin().lock().lines().collect::<Result<_, _>>()?;
    }
    for texts in texts.chunks(options.batch as usize) {
        no_grad(|| embed(&model, &tokenizer, texts, sizes.vocabulary))?;
    }
    Ok(())
}

/// How large the model is.
fn sizes(config: &Config, state: &StateDict) -> Outcome<BertConfig> {
    config.is_one_of("model_type", &[json!("bert")])?;
    config.is_one_of("hidden_act", &[json!("gelu")])?;
    config.is_one_of("layer_norm_eps", &[json!(1e-12)])?;
    config.is_one_of("position_embedding_type", &[json!("absolute")])?;
    let width = config.number(&["hidden_size"])?;
    Ok(BertConfig {
        vocabulary: config.number(&["vocab_size"])?,
        positions: config.number(&["max_position_embeddings"])?,
        width,
        inner: config.number(&["intermediate_size"])?,
        layers: config.layers("num_hidden_layers", state, "encoder.layer.")?,
        heads: config.heads("num_attention_heads", width)?,
    })
}

/// A tokenizer that gives as many tokens as a text has, and not more than `most`.
fn cut(mut tokenizer: Tokenizer, most: usize) -> Outcome<Tokenizer> {
    tokenizer.with_padding(None);
    let truncation = TruncationParams { max_length: most, ..TruncationParams::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(Failure::new)?;
    Ok(tokenizer)
}

/// Writes the vectors of some texts: a line for each, a list of numbers.
fn embed(model: &Bert, tokenizer: &Tokenizer, texts: &[String], vocabulary: usize) -> Outcome {
    let rows = texts.iter().map(|text| tokens(tokenizer, text, vocabulary));
    let rows = rows.collect::<Outcome<Vec<Vec<i64>>>>()?;
    let length = rows.iter().map(Vec::len).max().unwrap_or(0);
    if let Some(empty) = rows.iter().position(Vec::is_empty) {
        return Err(Failure::new(format!("no tokens in {:?}", texts[empty])));
    }
    let at = |row: &Vec<i64>, i: usize| row.get(i).copied().unwrap_or(0);
    let ids = rows.iter().flat_map(|row| (0..length).map(|i| at(row, i))).collect();
    let there = rows.iter().flat_map(|row| (0..length).map(|i| i < row.len())).collect();
    let [ids, mask] = [
        Tensor::from_vec::<i64>(ids, [rows.len(), length]),
        Tensor::from_vec::<bool>(there, [rows.len(), length]),
    ];
    let vectors = model.embed(&ids, &mask).cast(DType::F32);
    let values = vectors.to_vec::<f32>()?;
    let mut out = stdout().lock();
    for vector in values.chunks(values.len() / rows.len()) {
        writeln!(out, "{}", json!(vector))?;
    }
    Ok(())
}
