//! Paths that are followed back through a table of positions: each lookup is at a position that a reduction has found.

use super::{both, whole};
use crate::fuzz::Rng;
use kiln::{DType, Tensor, s};

/// The best path through scores `[b, t, k]` (Viterbi, "Error bounds for convolutional codes", 1967): in each step
/// the best last tag for each tag, and then the tags from the end back. Sequences are shorter than `t`.
fn best_path(scores: &Tensor, moves: &Tensor, lengths: &Tensor) -> Tensor {
    let t = scores.shape()[1];
    let is_in = Tensor::arange(t as i64).to(lengths.device()).unsqueeze(0).lt(lengths.unsqueeze(1));
    let is_in = |i: usize| is_in.get(s![.., i]);
    let (mut best, mut from) = (scores.get(s![.., 0]), Vec::new());
    for i in 1..t {
        let all = best.unsqueeze(2) + moves;
        from.push(all.argmax(1));
        best = is_in(i).unsqueeze(1).where_(&(all.max(1) + scores.get(s![.., i])), &best);
    }
    let mut tag = best.argmax(1);
    let mut path = vec![tag.clone()];
    for i in (1..t).rev() {
        let before = from[i - 1].gather(1, &tag.unsqueeze(1)).squeeze(1);
        tag = is_in(i).where_(&before, &tag);
        path.push(tag.clone());
    }
    Tensor::stack(&path, 1).cast(DType::F32)
}

/// Kernels that look up and reduce in another order do not become one. With 23 steps, two of the kernels that check
/// positions would have: in one a loop ends before another one, and in the other after it.
#[test]
fn paths_that_are_followed_back() {
    for [b, t, k] in [[8, 23, 7], [9, 23, 7], [3, 11, 5]] {
        let [on_cpu, on_interp] = both(|device| {
            let mut rng = Rng(7);
            let scores = whole(&mut rng, &[b, t, k], device);
            let moves = whole(&mut rng, &[k, k], device);
            let lengths = (0..b).map(|i| (t - i % 4) as i64).collect();
            let lengths = Tensor::from_vec_on(lengths, [b], device);
            vec![best_path(&scores, &moves, &lengths)]
        });
        assert_eq!(on_cpu, on_interp, "{b} {t} {k}");
    }
}
