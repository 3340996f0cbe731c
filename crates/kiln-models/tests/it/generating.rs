//! GPT-2 token by token.

use kiln::{DType, Tensor};
use kiln_models::cases::{Case, Size};
use kiln_models::{Gpt2, Gpt2Config, formula};

fn small() -> Gpt2 {
    let config = Gpt2Config { vocabulary: 30, positions: 16, width: 16, layers: 2, heads: 2 };
    let model = Gpt2::new(&config);
    formula::fill(&model).expect("its own shapes");
    model
}

/// What is off, by the largest of what is expected.
fn off(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0f32, |a, b| a.max(b.abs()));
    found.iter().zip(expected).fold(0.0f32, |a, (x, y)| a.max((x - y).abs())) / largest
}

#[test]
fn a_cache_gives_the_logits_of_the_whole_text() {
    let (model, text) = (small(), formula::integers("text", &[2, 12], 30));
    let all = model.forward(&text);
    let mut cache = model.cache(2);
    for (start, end) in [(0, 5), (5, 6), (6, 7), (7, 10), (10, 11), (11, 12)] {
        let next = model.next(&text.get(kiln::s![.., start..end]), &mut cache);
        let expected = all.get(kiln::s![.., end - 1]).to_vec::<f32>().expect("computes");
        // other orders of the same sums, of up to 64 terms
        let off = off(&next.to_vec().expect("computes"), &expected);
        assert!(off < 8.0 * 8.0 * f32::EPSILON, "after {end}: {off:e}");
        assert_eq!(cache.len(), end);
    }
}

#[test]
fn a_text_that_is_too_long_is_an_error() {
    let model = small();
    let long = Tensor::zeros([1, 17]).cast(DType::I64);
    assert!(model.forward(&long).to_vec::<f32>().is_err());
    assert!(model.next(&long, &mut model.cache(1)).to_vec::<f32>().is_err());
    let flat = Tensor::zeros([3]).cast(DType::I64);
    assert!(model.forward(&flat).to_vec::<f32>().is_err());
    assert!(model.next(&flat, &mut model.cache(1)).to_vec::<f32>().is_err());
}

#[test]
fn a_name_that_is_no_models_is_none() {
    assert!(Case::of("vgg", Size::Small, DType::F32).expect("no error").is_none());
}

/// The table of positions is never realized: a row is computed for each token. Random bits come from the place of a number
/// among all that were drawn. The upper bits of these places are constants in a kernel, and differ from row to row.
#[test]
fn random_weights_that_wait_need_no_schedule_for_each_token() {
    kiln::manual_seed(1);
    let _drawn = Tensor::randn([50237 * 768]);
    let config = Gpt2Config { vocabulary: 20, positions: 1024, width: 768, layers: 1, heads: 12 };
    let model = Gpt2::new(&config);
    let made: Vec<u64> = kiln::no_grad(|| {
        let mut cache = model.cache(1);
        let prompt = Tensor::from_vec((0..8).collect::<Vec<i64>>(), [1, 8]);
        model.next(&prompt, &mut cache).realize().expect("computes");
        let mut step = |token: i64| {
            let token = Tensor::from_vec(vec![token], [1, 1]);
            model.next(&token, &mut cache).realize().map(drop).expect("computes");
        };
        (0..8).map(|t| kiln::measure(|| step(t)).1).map(|n| n.scheduled + n.compiled).collect()
    });
    assert!(made[3..].iter().all(|n| *n == 0), "{made:?}");
}
