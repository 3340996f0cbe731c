//! The digits: embedded, unpacked, split, shuffled.

use crate::outcome::{Failure, Outcome};
use flate2::read::GzDecoder;
use kiln::Tensor;
use std::io::Read;

/// The lines of `data/digits.csv.gz`; see `data/README.md` for where they come from.
const PACKED: &[u8] = include_bytes!("../../data/digits.csv.gz");
/// An image has this many rows, and as many columns.
pub(super) const SIDE: usize = 8;
const PIXELS: usize = SIDE * SIDE;
/// Pixels are 0 to this.
pub(super) const INK: f32 = 16.0;
/// One image in so many is held out.
const HELD_OUT: usize = 5;

/// Images and their labels.
#[derive(Default)]
pub(super) struct Images {
    /// Row by row, image by image, 0 to [`INK`].
    pixels: Vec<f32>,
    pub(super) labels: Vec<i32>,
}

/// What is trained on and what is held out.
pub(super) struct Digits {
    pub(super) train: Images,
    pub(super) test: Images,
}

/// Unpacks the digits; every fifth is held out. At most `limit` are kept of each part.
pub(super) fn load(limit: Option<usize>) -> Outcome<Digits> {
    let mut text = String::new();
    GzDecoder::new(PACKED).read_to_string(&mut text)?;
    let mut digits = Digits { train: Images::default(), test: Images::default() };
    for (i, line) in text.lines().enumerate() {
        let held_out = i % HELD_OUT == HELD_OUT - 1;
        let part = if held_out { &mut digits.test } else { &mut digits.train };
        if limit.is_none_or(|limit| part.len() < limit) {
            part.push(line).ok_or_else(|| Failure::new(format!("digits: line {i} is damaged")))?;
        }
    }
    Ok(digits)
}

impl Images {
    fn push(&mut self, line: &str) -> Option<()> {
        let numbers = line.split(',').map(str::parse).collect::<Result<Vec<u8>, _>>().ok()?;
        let (&label, pixels) = numbers.split_last()?;
        if pixels.len() != PIXELS || label > 9 {
            return None;
        }
        self.pixels.extend(pixels.iter().map(|&p| f32::from(p)));
        self.labels.push(i32::from(label));
        Some(())
    }

    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The pixels of one image.
    pub(super) fn image(&self, i: usize) -> &[f32] {
        &self.pixels[i * PIXELS..(i + 1) * PIXELS]
    }

    /// Some images as `[images, 1, rows, columns]`, around 0, and their labels.
    pub(super) fn batch(&self, chosen: &[usize]) -> (Tensor, Tensor) {
        let pixels = chosen.iter().flat_map(|&i| self.image(i)).map(|p| p / INK - 0.5);
        let labels = chosen.iter().map(|&i| self.labels[i]);
        let shape = [chosen.len(), 1, SIDE, SIDE];
        (Tensor::from_vec(pixels.collect(), shape), Tensor::from(labels.collect::<Vec<i32>>()))
    }
}

/// Orders that look random and are the same for the same seed, everywhere (SplitMix64).
pub(super) struct Shuffle(pub(super) u64);

impl Shuffle {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`. The remainder is uneven by a part in 2^50, which no order shows.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// The numbers `0..n` in some order.
    pub(super) fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_is_the_one_that_is_promised() {
        let digits = load(None).ok().expect("the embedded file is whole");
        assert_eq!((digits.train.len(), digits.test.len()), (1438, 359));
        assert_eq!(digits.train.labels[..6], [0, 1, 2, 3, 5, 6]);
        assert_eq!(digits.test.labels[..2], [4, 9]);
        assert_eq!(digits.train.image(0)[2..6], [5.0, 13.0, 9.0, 1.0]);
        assert_eq!(load(Some(7)).ok().expect("whole").train.len(), 7);
    }

    #[test]
    fn an_order_has_every_number_once() {
        let mut order = Shuffle(3).order(100);
        assert_ne!(order, Shuffle(4).order(100));
        assert_eq!(order, Shuffle(3).order(100));
        order.sort_unstable();
        assert!(order.into_iter().eq(0..100));
    }
}
