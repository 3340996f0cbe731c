//! Choosing the next token by its logits.

use crate::outcome::{Failure, Outcome};

/// How tokens are drawn.
pub(super) struct Sampler {
    /// 0 takes the likeliest.
    pub(super) temperature: f64,
    /// Only so many of the likeliest.
    pub(super) top_k: Option<usize>,
    /// Only the likeliest that have so much of the probability together.
    pub(super) top_p: f64,
    /// The state of the random numbers.
    pub(super) state: u64,
}

impl Sampler {
    /// The token that comes next.
    pub(super) fn pick(&mut self, logits: &[f32]) -> Outcome<usize> {
        if !logits.iter().all(|x| x.is_finite()) {
            return Err(Failure::new("the model gives numbers that are not finite"));
        }
        if self.temperature == 0.0 {
            return likeliest(logits);
        }
        let candidates = self.candidates(logits);
        let total: f64 = candidates.iter().map(|(_, weight)| weight).sum();
        let mut left = self.uniform() * total;
        let drawn = candidates.iter().find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        // rounding may leave a little
        let last = candidates.last().ok_or_else(|| Failure::new("the model has no tokens"))?;
        Ok(drawn.unwrap_or(last).0)
    }

    /// Tokens that may be drawn, the likeliest first, with their weights.
    fn candidates(&self, logits: &[f32]) -> Vec<(usize, f64)> {
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |x: &f32| (f64::from(x - most) / self.temperature).exp();
        let mut all: Vec<(usize, f64)> = logits.iter().map(weight).enumerate().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(self.top_k.unwrap_or(all.len()));
        let wanted = self.top_p * all.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut so_far = 0.0;
        let enough = all.iter().position(|(_, weight)| {
            so_far += weight;
            so_far >= wanted
        });
        all.truncate(enough.map_or(all.len(), |at| at + 1));
        all
    }

    /// From 0 to 1: splitmix64.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The first of the largest.
fn likeliest(logits: &[f32]) -> Outcome<usize> {
    let best = (0..logits.len()).reduce(|a, b| if logits[b] > logits[a] { b } else { a });
    best.ok_or_else(|| Failure::new("the model has no tokens"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(temperature: f64, top_k: Option<usize>, top_p: f64) -> Sampler {
        Sampler { temperature, top_k, top_p, state: 7 }
    }

    /// How often each of three tokens is drawn, of 10 000.
    fn drawn(mut sampler: Sampler) -> [usize; 3] {
        // probabilities of 0.5, 0.3 and 0.2
        let logits = [0.2f32.ln(), 0.5f32.ln(), 0.3f32.ln()];
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            counts[sampler.pick(&logits).ok().expect("finite")] += 1;
        }
        counts
    }

    /// Five standard deviations of 10 000 draws are 250 at most.
    fn is_near(counts: [usize; 3], expected: [usize; 3]) -> bool {
        counts.iter().zip(expected).all(|(a, b)| a.abs_diff(b) < 250)
    }

    #[test]
    fn tokens_are_drawn_by_their_probabilities() {
        assert!(is_near(drawn(sampler(1.0, None, 1.0)), [2000, 5000, 3000]));
        // squares of them: 0.04, 0.25, 0.09
        assert!(is_near(drawn(sampler(0.5, None, 1.0)), [1053, 6579, 2368]));
    }

    #[test]
    fn only_the_likeliest_are_drawn() {
        assert_eq!(drawn(sampler(0.0, None, 1.0)), [0, 10_000, 0]);
        assert_eq!(drawn(sampler(1.0, Some(1), 1.0)), [0, 10_000, 0]);
        assert!(is_near(drawn(sampler(1.0, Some(2), 1.0)), [0, 6250, 3750]));
        assert!(is_near(drawn(sampler(1.0, None, 0.7)), [0, 6250, 3750]));
        assert_eq!(drawn(sampler(1.0, None, 0.0)), [0, 10_000, 0]);
    }

    #[test]
    fn numbers_that_are_not_finite_are_an_error() {
        assert!(sampler(1.0, None, 1.0).pick(&[0.0, f32::NAN]).is_err());
        assert!(sampler(0.0, None, 1.0).pick(&[]).is_err());
        assert!(sampler(1.0, None, 1.0).pick(&[]).is_err());
    }
}
