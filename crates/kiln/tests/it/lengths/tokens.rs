//! Five hundred tokens: each writes a row of a cache and reads all rows before it, and little is compiled for all of them.

use super::loops::{small, sum, wide};
use super::with_lengths;
use crate::fuzz::{Rng, seeds};
use kiln::{Counts, DType, Tensor, measure, s};

const TOKENS: usize = 500;
const ROWS: usize = 512;
const WIDTH: usize = 8;

/// What one row of a cache takes.
const ROW: u64 = (WIDTH * 4) as u64;

fn row(p: usize) -> Tensor {
    let values = (0..WIDTH).map(|d| small(p * 3 + d) as f32).collect::<Vec<_>>();
    let row = Tensor::from_vec(values, [1, WIDTH]);
    row.realize().expect("computes");
    row
}

/// What the cache holds up to a position, added up and doubled.
fn sums(p: usize) -> Vec<f64> {
    (0..WIDTH).map(|d| sum(p + 1, |q| small(q * 3 + d) * 2.0)).collect()
}

fn zeros(shape: &[usize], dtype: DType) -> Tensor {
    let t = Tensor::zeros_with(shape, dtype).contiguous();
    t.realize().expect("computes");
    t
}

fn forwards(cache: &Tensor, p: usize) -> Tensor {
    cache.set(s![p..p + 1], row(p) * 2.0);
    cache.get(s![..p + 1]).sum(0)
}

/// The newest row comes first.
fn backwards(cache: &Tensor, p: usize) -> Tensor {
    let at = ROWS - 1 - p;
    cache.set(s![.., at..at + 1], (row(p) * 2.0).t().cast(cache.dtype()));
    cache.get(s![.., at..]).flip(1).sum(1)
}

#[derive(Clone, Copy)]
struct Way {
    shape: [usize; 2],
    dtype: DType,
    step: fn(&Tensor, usize) -> Tensor,
}

const FORWARDS: Way = Way { shape: [ROWS, WIDTH], dtype: DType::F32, step: forwards };
const BACKWARDS: Way = Way { shape: [WIDTH, ROWS], dtype: DType::I32, step: backwards };

/// What each token cost. At 100 a copy of the cache is taken, which must stay.
fn decode(way: Way) -> Vec<Counts> {
    let cache = zeros(&way.shape, way.dtype);
    let (mut all, mut snapshot) = (Vec::new(), None);
    for p in 0..TOKENS {
        let (found, counts) = measure(|| wide(&(way.step)(&cache, p)));
        assert_eq!(found, sums(p), "token {p}");
        all.push(counts);
        if p == 100 {
            snapshot = Some(cache.copy());
        }
    }
    let axis = way.shape.iter().position(|n| *n == ROWS).expect("an axis of rows");
    let kept = wide(&snapshot.expect("taken").sum(axis as isize));
    assert_eq!(kept, sums(100), "the snapshot");
    all
}

/// Tokens that do not copy the cache, after those at which its length begins to vary.
fn late(all: &[Counts]) -> impl Iterator<Item = (usize, &Counts)> {
    all.iter().enumerate().filter(|(p, _)| *p > 16 && *p != 101)
}

#[test]
fn five_hundred_tokens_write_a_row_each() {
    for way in [FORWARDS, BACKWARDS] {
        let all = with_lengths(1, || decode(way));
        for (p, counts) in late(&all) {
            assert!(counts.kernels <= 2, "token {p}: {} kernels", counts.kernels);
            let most = (p as u64 + 1) * ROW + 6 * ROW;
            assert!(counts.bytes <= most, "token {p}: {} bytes, not {most}", counts.bytes);
        }
        let copied = (ROWS as u64) * ROW;
        assert!(all[101].bytes <= 2 * copied + 200 * ROW, "{} bytes", all[101].bytes);
        assert!(all[101].peak_memory >= copied, "the snapshot has the old memory");
    }
}

/// A length may leave what a schedule is for once or twice on the way.
#[test]
fn five_hundred_tokens_compile_next_to_nothing() {
    for way in [FORWARDS, BACKWARDS] {
        let all = with_lengths(1, || decode(way));
        let made = late(&all).filter(|(_, n)| n.compiled + n.loaded + n.scheduled > 0);
        let made: Vec<usize> = made.map(|(p, _)| p).collect();
        assert!(made.len() <= 3, "at tokens {made:?}");
    }
}

/// Tokens are taken back, and others come in their place.
#[test]
fn tokens_that_are_taken_back_are_not_read() {
    for mode in [1, 2] {
        with_lengths(mode, || {
            let cache = zeros(&[ROWS, WIDTH], DType::F32);
            let mut rows = vec![vec![0.0; WIDTH]; ROWS];
            let places = (0..40).chain(20..30).chain(3..5).chain(38..44).chain([0, 1, 43]);
            for (nth, p) in places.enumerate() {
                rows[p] = (0..WIDTH).map(|d| small((p + nth) * 3 + d)).collect();
                cache.set(s![p..p + 1], row(p + nth));
                let found = wide(&cache.get(s![..p + 1]).max(0));
                let largest =
                    |d| rows[..=p].iter().map(|row: &Vec<f64>| row[d]).fold(-9.0, f64::max);
                assert_eq!(found, (0..WIDTH).map(largest).collect::<Vec<_>>(), "{nth}, at {p}");
            }
        });
    }
}

/// A window over the last rows, in a ring that is written again and again.
#[test]
fn a_ring_of_rows_is_read_in_two_parts() {
    const RING: usize = 24;
    for mode in [1, 2] {
        with_lengths(mode, || {
            let ring = zeros(&[RING, WIDTH], DType::F32);
            for p in 0..80 {
                let at = p % RING;
                ring.set(s![at..at + 1], row(p));
                let parts = [ring.get(s![at + 1..]), ring.get(s![..at + 1])];
                let seen = Tensor::cat(&parts, 0).get(s![-10..]);
                let weights = Tensor::arange(10).cast(DType::F32).unsqueeze(1);
                let wanted = (0..WIDTH).map(|d| {
                    sum(10, |i| {
                        let q = (p + i + 1).checked_sub(10);
                        q.map_or(0.0, |q| small(q * 3 + d) * i as f64)
                    })
                });
                let found = wide(&(seen * weights).sum(0));
                assert_eq!(found, wanted.collect::<Vec<_>>(), "token {p}, LENGTHS={mode}");
            }
        });
    }
}

/// What a program does with a cache, on rows that its model holds.
struct Cache {
    rng: Rng,
    cache: Tensor,
    rows: Vec<[i32; WIDTH]>,
    /// Copies of the cache, with what they hold.
    copies: Vec<(Tensor, Vec<[i32; WIDTH]>)>,
}

impl Cache {
    /// It begins as zeros, or in memory.
    fn new(seed: u64) -> Cache {
        let mut rng = Rng(seed);
        let room = 6 + rng.below(30);
        let cache = Tensor::zeros_with([room, WIDTH], DType::I32);
        if rng.one_in(3) {
            cache.realize().expect("there is memory");
        }
        Cache { rng, cache, rows: vec![[0; WIDTH]; room], copies: Vec::new() }
    }

    /// Writes some rows from `from` on: new ones, or some that are read elsewhere, changed.
    fn write(&mut self, from: usize) -> usize {
        let n = 1 + self.rng.below((self.rows.len() - from).min(4));
        let number = |rng: &mut Rng| rng.below(19) as i32 - 9;
        let new: Vec<[i32; WIDTH]> = match self.rng.one_in(3) {
            true => {
                let other = self.rng.below(self.rows.len() - n + 1);
                let read = self.cache.get(s![other..other + n]) * 3 - 1;
                self.cache.set(s![from..from + n], read);
                self.rows[other..other + n]
                    .iter()
                    .map(|row| row.map(|x: i32| x.wrapping_mul(3).wrapping_sub(1)))
                    .collect()
            }
            false => {
                let rows: Vec<[i32; WIDTH]> =
                    (0..n).map(|_| std::array::from_fn(|_| number(&mut self.rng))).collect();
                let new = Tensor::from_vec(rows.concat(), [n, WIDTH]);
                self.cache.set(s![from..from + n], new * 2);
                rows.into_iter().map(|row| row.map(|x| x * 2)).collect()
            }
        };
        self.rows[from..from + n].copy_from_slice(&new);
        from + n
    }

    /// Reads rows from the front, in the middle, or all, and compares a sum of each column.
    fn read(&mut self, end: usize) {
        let start = if self.rng.one_in(4) { self.rng.below(end) } else { 0 };
        let end = if self.rng.one_in(6) { self.rows.len() } else { end };
        let found = self.cache.get(s![start..end]).sum(0).to_vec::<i32>().expect("computes");
        assert_eq!(found, totals(&self.rows[start..end]), "rows {start}..{end}");
    }

    fn step(&mut self, end: &mut usize) {
        let is_back = *end == self.rows.len() || self.rng.one_in(8);
        let from = if is_back { self.rng.below(self.rows.len()) } else { *end };
        *end = self.write(from);
        if self.rng.one_in(10) {
            self.copies.push((self.cache.copy(), self.rows.clone()));
        }
        if !self.rng.one_in(5) {
            self.read(*end);
        }
    }
}

fn totals(rows: &[[i32; WIDTH]]) -> Vec<i32> {
    (0..WIDTH).map(|d| rows.iter().map(|row| row[d]).fold(0, i32::wrapping_add)).collect()
}

/// Rows are written and read as a program with a cache may do it, in any order, with copies that must stay.
#[test]
fn caches_that_are_written_and_read_at_random() {
    for seed in seeds(12) {
        for mode in [0, 1, 2] {
            with_lengths(mode, || {
                let (mut cache, mut end) = (Cache::new(seed), 0);
                (0..30).for_each(|_| cache.step(&mut end));
                cache.copies.push((cache.cache.clone(), cache.rows.clone()));
                for (copy, rows) in &cache.copies {
                    let found = copy.sum(0).to_vec::<i32>().expect("computes");
                    assert_eq!(found, totals(rows), "seed {seed}, LENGTHS={mode}");
                }
            });
        }
    }
}
