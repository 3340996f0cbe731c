//! The content hash of a node: 128 bits, the same in every process and on every machine of one pointer width.

use super::UOp;
use crate::arg::Arg;
use crate::dtype::DType;
use crate::op::Op;
use std::hash::{Hash, Hasher};

/// Odd, with about as many ones as zeros and no pattern: the digits of pi.
const FACTOR: u128 = 0x243f_6a88_85a3_08d3_1319_8a2e_0370_7345;

/// A hash of the parts and the sources' hashes. Nobody chooses graphs to make hashes collide, so what counts is that
/// two different nodes among a billion have equal hashes with a chance of about 1e-21. Interning compares the nodes all
/// the same; keys of caches, whose graphs are gone, take equal hashes for equal graphs.
pub(super) fn content_hash(op: Op, dtype: DType, lanes: u16, srcs: &[UOp], arg: &Arg) -> u128 {
    let parts = op as u64 | (dtype as u64) << 8 | (lanes as u64) << 16 | (srcs.len() as u64) << 32;
    let mut mixer = Mixer(parts as u128);
    srcs.iter().for_each(|src| mixer.add(src.hash()));
    if !arg.is_none() {
        arg.hash(&mut mixer);
    }
    mixer.finish128()
}

/// Mixes in one word at a time by a bijection of 128 bits, so that nothing is lost on the way: a product carries each
/// bit to those above it, and the shift brings the upper half back down.
#[derive(Clone, Default)]
pub struct Mixer(u128);

impl Mixer {
    /// Mixes in a word.
    #[inline]
    pub fn add(&mut self, word: u128) {
        let product = (self.0 ^ word).wrapping_mul(FACTOR);
        self.0 = product ^ (product >> 64);
    }

    /// The hash: two more rounds, so that each bit of the last word reaches all bits.
    pub fn finish128(mut self) -> u128 {
        self.add(FACTOR >> 1);
        self.add(0);
        self.0
    }
}

/// How arguments are fed in: integers as one word each, bytes in groups of 16 and then their number.
impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let (groups, rest) = bytes.as_chunks();
        groups.iter().for_each(|group| self.add(u128::from_le_bytes(*group)));
        match <[u8; 8]>::try_from(rest) {
            // the last length of a shape: the usual case, without a copy of unknown size
            Ok(word) => self.add(u64::from_le_bytes(word) as u128),
            Err(_) if rest.is_empty() => {}
            Err(_) => {
                let mut word = [0; 16];
                word[..rest.len()].copy_from_slice(rest);
                self.add(u128::from_le_bytes(word));
            }
        }
        self.add(bytes.len() as u128);
    }

    fn write_u8(&mut self, i: u8) {
        self.add(i as u128);
    }

    fn write_u16(&mut self, i: u16) {
        self.add(i as u128);
    }

    fn write_u32(&mut self, i: u32) {
        self.add(i as u128);
    }

    fn write_u64(&mut self, i: u64) {
        self.add(i as u128);
    }

    fn write_u128(&mut self, i: u128) {
        self.add(i);
    }

    fn write_usize(&mut self, i: usize) {
        self.add(i as u128);
    }

    fn finish(&self) -> u64 {
        self.0 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flipping any bit of any of three words flips about half of the hash.
    #[test]
    fn every_bit_reaches_every_bit() {
        let hash = |words: [u128; 3]| {
            let mut mixer = Mixer(0);
            words.iter().for_each(|&w| mixer.add(w));
            mixer.finish128()
        };
        let words = [1, 2, 3];
        let (mut fewest, mut most, mut sum) = (128, 0, 0);
        for bit in 0..3 * 128 {
            let mut flipped = words;
            flipped[bit / 128] ^= 1 << (bit % 128);
            let changed = (hash(words) ^ hash(flipped)).count_ones();
            (fewest, most, sum) = (fewest.min(changed), most.max(changed), sum + changed);
        }
        let mean = sum as f64 / (3 * 128) as f64;
        assert!(
            fewest >= 36 && most <= 92 && (62.0..66.0).contains(&mean),
            "{fewest} {most} {mean}"
        );
    }

    /// Caches on disk are keyed by these numbers.
    #[test]
    fn the_hash_is_stable() {
        let sum = UOp::var(0, DType::I32, 0, 9) + 3;
        assert_eq!(format!("{:032x}", sum.hash()), "4a805bb9f26b9fd9a9e5408043150c8b");
    }
}
