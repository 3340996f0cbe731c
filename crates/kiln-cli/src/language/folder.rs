//! The files of a model, as published: `config.json`, weights as safetensors or `.bin`, a tokenizer. None of them is trusted.

use crate::outcome::{Failure, Outcome};
use kiln::nn::{Module, StateDict, state};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use tokenizers::models::bpe::BPE;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::{Model, Tokenizer};

/// Where the files are.
pub(super) struct Folder<'a>(pub(super) &'a Path);

/// The settings of a model.
pub(super) struct Config {
    path: PathBuf,
    value: Value,
}

/// No model that is published has larger numbers in its settings.
const LARGEST: u64 = 1 << 24;

impl Config {
    /// A number under one of these names.
    pub(super) fn number(&self, names: &[&str]) -> Outcome<usize> {
        let found = names.iter().find_map(|name| self.value.get(name));
        match found.and_then(Value::as_u64).filter(|n| (1..=LARGEST).contains(n)) {
            Some(number) => Ok(number as usize),
            None => Err(self.wrong(&format!("{} is no number from 1 to {LARGEST}", names[0]))),
        }
    }

    /// A number, if there is one.
    pub(super) fn optional(&self, name: &str) -> Option<u64> {
        self.value.get(name).and_then(Value::as_u64)
    }

    /// Fails if a setting is there and is none of these.
    pub(super) fn is_one_of(&self, name: &str, values: &[Value]) -> Outcome {
        match self.value.get(name) {
            Some(value) if !values.contains(value) => {
                Err(self.wrong(&format!("{name} {value} is unknown")))
            }
            _ => Ok(()),
        }
    }

    /// The heads of attention, which have to divide the width.
    pub(super) fn heads(&self, name: &str, width: usize) -> Outcome<usize> {
        let heads = self.number(&[name])?;
        match width.is_multiple_of(heads) {
            true => Ok(heads),
            false => Err(self.wrong(&format!("{heads} heads do not divide a width of {width}"))),
        }
    }

    /// How many layers there are: as many as have weights.
    pub(super) fn layers(&self, name: &str, state: &StateDict, prefix: &str) -> Outcome<usize> {
        let layers = self.number(&[name])?;
        let last = format!("{prefix}{}.", layers - 1);
        match state.keys().any(|key| key.starts_with(&last)) {
            true => Ok(layers),
            false => {
                Err(self.wrong(&format!("{name} is {layers}, and the weights have fewer layers")))
            }
        }
    }

    fn wrong(&self, why: &str) -> Failure {
        Failure::new(format!("{}: {why}", self.path.display()))
    }
}

impl Folder<'_> {
    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.0.join(name)).filter(|path| path.is_file())
    }

    fn json(&self, name: &str) -> Outcome<Config> {
        let path = self.0.join(name);
        let wrong =
            |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|why| wrong(&why))?;
        let value = serde_json::from_str(&text).map_err(|why| wrong(&why))?;
        Ok(Config { path, value })
    }

    /// `config.json`.
    pub(super) fn config(&self) -> Outcome<Config> {
        self.json("config.json")
    }

    /// Another file of settings, if it is there.
    pub(super) fn settings(&self, name: &str) -> Outcome<Option<Config>> {
        self.file(name).map(|_| self.json(name)).transpose()
    }

    /// The weights, under names without `prefix`.
    pub(super) fn weights(&self, prefix: &str) -> Outcome<StateDict> {
        let names = ["model.safetensors", "model.safetensors.index.json"];
        let state = match names.iter().find_map(|name| self.file(name)) {
            Some(path) => state::load(path)?,
            None => match self.file("pytorch_model.bin") {
                Some(path) => state::torch_load(path)?,
                None => return Err(self.lacks("model.safetensors nor pytorch_model.bin")),
            },
        };
        Ok(state.into_iter().map(|(name, tensor)| (plain(&name, prefix), tensor)).collect())
    }

    fn lacks(&self, what: &str) -> Failure {
        Failure::new(format!("{} has neither {what}", self.0.display()))
    }

    /// `tokenizer.json`, or the vocabulary in older files.
    pub(super) fn tokenizer(&self) -> Outcome<Tokenizer> {
        // a library that reads what nobody checked: if it panics, the file is at fault
        let read = catch_unwind(AssertUnwindSafe(|| self.read_tokenizer()));
        read.unwrap_or_else(|_| Err(self.broken(&"its reader failed")))
    }

    fn read_tokenizer(&self) -> Outcome<Tokenizer> {
        if let Some(path) = self.file("tokenizer.json") {
            return Tokenizer::from_file(path).map_err(|why| self.broken(&why));
        }
        match (self.file("vocab.json"), self.file("merges.txt"), self.file("vocab.txt")) {
            (Some(vocabulary), Some(merges), _) => self.pairs(&vocabulary, &merges),
            (_, _, Some(vocabulary)) => self.pieces(&vocabulary),
            _ => Err(self.lacks("tokenizer.json, vocab.json with merges.txt, nor vocab.txt")),
        }
    }

    /// Pairs of bytes, as GPT-2 has them.
    fn pairs(&self, vocabulary: &Path, merges: &Path) -> Outcome<Tokenizer> {
        let [vocabulary, merges] = [vocabulary, merges].map(|p| p.to_string_lossy().into_owned());
        let model =
            BPE::from_file(&vocabulary, &merges).build().map_err(|why| self.broken(&why))?;
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
        tokenizer.with_decoder(Some(ByteLevel::default()));
        Ok(tokenizer)
    }

    /// Pieces of words, as BERT has them.
    fn pieces(&self, vocabulary: &Path) -> Outcome<Tokenizer> {
        let path = vocabulary.to_string_lossy();
        let model = WordPiece::from_file(&path)
            .unk_token("[UNK]".to_owned())
            .build()
            .map_err(|why| self.broken(&why))?;
        let mark = |name: &str| match model.token_to_id(name) {
            Some(id) => Ok((name.to_owned(), id)),
            None => Err(self.broken(&format!("no token {name}"))),
        };
        let ends = BertProcessing::new(mark("[SEP]")?, mark("[CLS]")?);
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_normalizer(Some(BertNormalizer::default()));
        tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
        tokenizer.with_post_processor(Some(ends));
        Ok(tokenizer)
    }

    fn broken(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::new(format!("the tokenizer in {}: {why}", self.0.display()))
    }
}

/// A name without what some files put before it, and as it is spelled today.
fn plain(name: &str, prefix: &str) -> String {
    let name = name.strip_prefix(prefix).unwrap_or(name);
    match name.rsplit_once('.') {
        Some((of, "gamma")) => format!("{of}.weight"),
        Some((of, "beta")) => format!("{of}.bias"),
        _ => name.to_owned(),
    }
}

/// Gives a model its weights: all of them; what else the file has is left.
pub(super) fn load(model: &impl Module, mut state: StateDict) -> Outcome {
    let own = model.state_dict();
    if let Some(missing) = own.keys().find(|name| !state.contains_key(*name)) {
        return Err(Failure::new(format!("the weights lack {missing}")));
    }
    state.retain(|name, _| own.contains_key(name));
    Ok(model.load_state_dict(&state, true)?)
}

/// The tokens of a text, each of which the model has to know.
pub(super) fn tokens(tokenizer: &Tokenizer, text: &str, vocabulary: usize) -> Outcome<Vec<i64>> {
    let encode = || tokenizer.encode(text, true);
    let ids = match catch_unwind(AssertUnwindSafe(encode)) {
        Ok(Ok(encoding)) => encoding.get_ids().to_vec(),
        Ok(Err(why)) => return Err(Failure::new(format!("the tokenizer: {why}"))),
        Err(_) => return Err(Failure::new("the tokenizer failed")),
    };
    match ids.iter().find(|id| **id as usize >= vocabulary) {
        Some(id) => Err(Failure::new(format!(
            "the tokenizer has token {id}, and the model {vocabulary} tokens"
        ))),
        None => Ok(ids.into_iter().map(i64::from).collect()),
    }
}
