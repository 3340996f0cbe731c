//! A general kernel runs only if it takes about as long as a kernel for the same numbers.

use super::with_lengths;
use kiln::{DType, Tensor, s};
use kiln_ir::observe::{self, Log, Observer, Seen};
use std::sync::Arc;

/// What was decided by counting instructions while `f` ran.
fn decided(f: impl FnOnce()) -> Vec<String> {
    let log = Arc::new(Log::default());
    let observer: Arc<dyn Observer> = log.clone();
    observe::with(Some(observer), || with_lengths(1, f));
    let text = |seen: Seen| match seen {
        Seen::Decision(text) if text.contains("instructions") => Some(text),
        _ => None,
    };
    log.seen().into_iter().filter_map(text).collect()
}

/// The two numbers in `KERNEL general (general N instructions, exact M instructions): ..`
fn instructions(text: &str) -> [f64; 2] {
    let words = text.split([' ', '(']).filter_map(|word| word.parse::<f64>().ok());
    words.collect::<Vec<_>>().try_into().expect("two numbers")
}

/// What was decided in runs of these lengths, and how many kernels were compiled at the fourth and later.
fn late(lengths: &[usize], run: impl Fn(usize)) -> (Vec<String>, u64) {
    let mut late = 0;
    let found = decided(|| {
        for (nth, &n) in lengths.iter().enumerate() {
            let ((), counts) = kiln::measure(|| run(n));
            late += if nth < 3 { 0 } else { counts.compiled + counts.loaded };
        }
    });
    assert!(!found.is_empty(), "nothing was decided");
    (found, late)
}

/// A few rows by a transposed matrix. A kernel for all lengths copies the matrix in panels, which many rows gain by: for few of them it
/// executes ten times as many instructions. One for lengths near theirs serves them all.
#[test]
fn a_kernel_that_suits_other_lengths_gives_way_to_one_for_lengths_near() {
    let (x, w) = (Tensor::full([640, 1536], 0.5f32), Tensor::full([384, 1536], 0.25f32));
    let (x, w) = (x.contiguous(), w.contiguous());
    kiln::realize([&x, &w]).expect("there is memory");
    let (found, late) = late(&[480, 300, 630, 5, 12, 4, 14, 9, 6], |n| {
        let y = x.narrow(0, 0, n).matmul(&w.t()).neg().to_vec::<f32>();
        assert_eq!(y.expect("computes"), vec![-192.0; n * 384]);
    });
    assert!(found.iter().any(|text| text.contains(" exact (general ")), "{found:?}");
    assert!(late <= 3, "{late} kernels for six lengths: {found:?}");
}

/// A row longer at each step, as text is decoded: many instructions, and one kernel for all steps.
#[test]
fn a_kernel_that_suits_all_lengths_is_used() {
    let rows = Tensor::full([64, 900], 0.5f32).contiguous();
    rows.realize().expect("there is memory");
    let mut compiled = 0;
    let found = decided(|| {
        for n in 800..820 {
            let x = rows.narrow(1, 0, n);
            let (sums, counts) = kiln::measure(|| x.sin().exp().sum(1).to_vec::<f32>());
            assert_eq!(sums.expect("computes").len(), 64);
            compiled += counts.compiled + counts.loaded;
        }
    });
    assert!(compiled <= 4, "{compiled} kernels");
    assert!(found.iter().all(|text| text.contains(" general (general ")), "{found:?}");
    assert!(found.len() <= 2, "asked again and again: {found:?}");
}

/// Rows of scores are kept in scratch, which has room for the longest row. Scores behind the end of a row are not computed, also
/// where a block of rows is no whole number of tiles; and as many rows are computed at a time as fit a cache at usual
/// lengths. Before, a kernel for many lengths took up to 50 times as long.
#[test]
fn attention_of_many_lengths_is_one_kernel() {
    let [q, k, v] = [2, 3, 5].map(|step| {
        let numbers = (0..2 * 600 * 32).map(|i| ((i * step) % 23) as f32 / 23.0).collect();
        let x = Tensor::from_vec(numbers, [1, 2, 600, 32]);
        x.realize().expect("there is memory");
        x
    });
    let attend = |n: usize| {
        let [q, k, v] = [&q, &k, &v].map(|x| x.narrow(2, 0, n));
        let before = Tensor::arange(0..n).le(Tensor::arange(0..n).unsqueeze(1));
        q.scaled_dot_product_attention(&k, &v, Some(&before), false)
    };
    let (found, late) = late(&[505, 312, 131, 390, 64, 277, 451], |n| {
        attend(n).to_vec::<f32>().expect("computes");
    });
    assert!(found.iter().all(|text| text.contains(" general (general ")), "{found:?}");
    assert_eq!(late, 0, "kernels of the fourth length and later");
}

/// A layer of a language model for prompts of any length, also of a few tokens.
#[test]
fn a_product_of_any_number_of_rows_is_one_kernel() {
    let (x, w) = (Tensor::full([640, 768], 0.5f32), Tensor::full([768, 1280], 0.25f32));
    let (x, w) = (x.contiguous(), w.contiguous());
    kiln::realize([&x, &w]).expect("there is memory");
    let (found, late) = late(&[505, 312, 131, 390, 64, 17, 600, 5, 23, 2], |n| {
        let y = x.narrow(0, 0, n).matmul(&w).sqrt().square().to_vec::<f32>().expect("computes");
        assert_eq!(y.len(), n * 1280);
        // a root and a square round once each
        assert!(y.iter().all(|y| (y - 96.0).abs() <= 96.0 * 3.0 * f32::EPSILON), "{n} rows");
    });
    assert_eq!(late, 0, "kernels of the fourth length and later: {found:?}");
}

/// How far a row of a softmax is read depends on whether it is one of the last block's. The loop that fills the row knows the
/// most that it may be, and does not run to the end of the longest row: that would be 30 times as many instructions.
#[test]
fn rows_of_a_masked_softmax_are_filled_to_their_end() {
    let w = Tensor::randn([320, 960]);
    w.realize().expect("there is memory");
    let attend = |n: usize| {
        let x = Tensor::from_vec(vec![0.5f32; 4 * n * 320], [4, n, 320]);
        let heads = x.matmul(&w).reshape([4, n, 3, 5, 64]).permute([2, 0, 3, 1, 4]);
        let [q, k, v] = [0, 1, 2].map(|i| heads.get(s![i]));
        let scores = q.matmul(&k.transpose(-1, -2)) / 8.0;
        (scores + Tensor::full([n, n], f32::NEG_INFINITY).triu(1)).softmax(-1).matmul(&v)
    };
    let found = decided(|| {
        for n in [9, 20, 31, 42, 17, 28, 39] {
            attend(n).square().mean(..).item::<f32>().expect("computes");
        }
    });
    let is_near = |text: &String| {
        let [general, exact] = instructions(text);
        general / exact < 8.0
    };
    assert!(!found.is_empty(), "nothing was decided");
    assert!(found.iter().all(is_near), "{found:?}");
}

/// A kernel for many lengths has scratch for the longest. That of this gradient took 35 GB.
#[test]
fn scratch_for_the_longest_lengths_is_bounded() {
    let slope = |[channels, outputs, batch, size]: [usize; 4]| {
        let (x, w) = ([batch, channels, size, size], [outputs, channels, 3, 3]);
        let [x, w] = [&x, &w].map(|shape| Tensor::full_with(shape, 0.5, DType::F64).contiguous());
        kiln::realize([&x, &w]).expect("there is memory");
        let w = w.set_requires_grad(true);
        x.conv2d(&w, None, 1, 1, 1, 1).square().sum(..).backward().expect("has a gradient");
        w.grad().expect("has one").to_vec::<f64>().expect("computes")
    };
    let shapes = [[5, 10, 2, 6], [5, 10, 10, 13], [3, 4, 5, 9], [3, 6, 7, 7]];
    let [general, exact] = [2, 0].map(|mode| with_lengths(mode, || shapes.map(slope)));
    assert_eq!(general, exact);
}
