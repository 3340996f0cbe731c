//! Random views, and what makes one tensor fit another.

use super::generate::Generator;
use super::numbers::DTYPES;
use super::program::{Expr, Ix, View};
use kiln::DType;

/// Whether programs look at elements of one size as elements of another. Writes through such views lose what is beside
/// the written bits.
const BITCASTS_BETWEEN_SIZES: bool = true;

impl Generator {
    /// A random view of an expression.
    pub(super) fn viewed(&mut self, expr: Expr) -> Option<Expr> {
        let handle = self.handle(&expr)?;
        let shape = handle.shape;
        let rank = shape.len();
        let view = match self.rng.below(17) {
            0..6 => View::Get(self.index(&shape)),
            6 | 7 => View::Reshape(self.reshaped(&shape)),
            8 | 9 => View::Permute(self.order(rank)),
            10 | 11 if rank > 0 => View::Flip(self.rng.below(rank)),
            12 => View::Expand(self.expanded(&shape)),
            13 => View::Detach,
            14 => View::Clone,
            15 => View::Here,
            _ => View::Bitcast(self.bits_as(handle.dtype)),
        };
        let expr = expr.view(view);
        self.handle(&expr).map(|_| expr)
    }

    fn bits_as(&mut self, dtype: DType) -> DType {
        let alike = |d: &DType| BITCASTS_BETWEEN_SIZES || d.size() == dtype.size();
        let dtypes: Vec<DType> = DTYPES.into_iter().filter(alike).collect();
        self.rng.pick(&dtypes)
    }

    /// Indices of some axes.
    pub(super) fn index(&mut self, shape: &[usize]) -> Vec<Ix> {
        let given = if self.rng.one_in(3) { self.rng.below(shape.len() + 1) } else { shape.len() };
        let mut index = Vec::new();
        for &n in &shape[..given] {
            if self.rng.one_in(12) {
                index.push(Ix::NewAxis);
            }
            index.push(self.one_index(n));
        }
        if given < shape.len() && self.rng.one_in(2) {
            index.push(Ix::Ellipsis);
        }
        index
    }

    fn one_index(&mut self, n: usize) -> Ix {
        match self.rng.below(8) {
            0 | 1 if n > 0 => {
                let i = self.rng.below(n);
                Ix::At(self.place(i, n))
            }
            2 => Ix::Slice(None, None, 1),
            3 => Ix::Slice(None, None, -1),
            _ => {
                let wanted = self.rng.below(n + 1);
                self.stretch(n, wanted)
            }
        }
    }

    /// A position, now and then counted from the end.
    fn place(&mut self, i: usize, n: usize) -> i64 {
        if self.rng.one_in(4) { i as i64 - n as i64 } else { i as i64 }
    }

    /// A slice of `n` positions that picks `wanted` of them.
    fn stretch(&mut self, n: usize, wanted: usize) -> Ix {
        if wanted == 0 {
            return Ix::Slice(Some(1), Some(1), 1);
        }
        let widest = if wanted == 1 { 1 } else { ((n - 1) / (wanted - 1)).clamp(1, 3) };
        let step = 1 + self.rng.below(widest);
        let covered = (wanted - 1) * step + 1;
        let first = self.rng.below(n - covered + 1);
        let last = first + covered - 1;
        if self.rng.one_in(4) {
            let stop = first.checked_sub(1).map(|i| i as i64);
            return Ix::Slice(Some(self.place(last, n)), stop, -(step as i64));
        }
        let start = if first == 0 { None } else { Some(self.place(first, n)) };
        let stop = if last + 1 == n { None } else { Some((last + 1) as i64) };
        Ix::Slice(start, stop, step as i64)
    }

    fn order(&mut self, rank: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..rank).collect();
        for i in 1..rank {
            let other = self.rng.below(i + 1);
            order.swap(i, other);
        }
        order
    }

    /// Another shape of as many elements.
    fn reshaped(&mut self, shape: &[usize]) -> Vec<usize> {
        let n: usize = shape.iter().product();
        match self.rng.below(4) {
            0 => vec![n],
            1 => [shape, &[1]].concat(),
            _ => {
                let factors: Vec<usize> = (1..=n.max(1)).filter(|f| n.is_multiple_of(*f)).collect();
                let outer = self.rng.pick(&factors);
                vec![outer, n / outer]
            }
        }
    }

    /// The shape with one axis more, or with axes of length 1 repeated.
    fn expanded(&mut self, shape: &[usize]) -> Vec<usize> {
        let longer = |&n: &usize| if n == 1 { 3 } else { n };
        match self.rng.one_in(2) {
            true => std::iter::once(2).chain(shape.iter().copied()).collect(),
            false => shape.iter().map(longer).collect(),
        }
    }

    /// A view of `expr` that broadcasts to `shape`.
    pub(super) fn fitted(&mut self, expr: Expr, shape: &[usize]) -> Option<Expr> {
        let handle = self.handle(&expr)?;
        let from = handle.shape.clone();
        if from != shape && handle.numel() == shape.iter().product::<usize>() {
            return Some(expr.view(View::Reshape(shape.to_vec())));
        }
        if from.len() == shape.len() && from.iter().zip(shape).all(|(have, want)| have >= want) {
            if from == shape && self.rng.one_in(2) {
                return Some(expr);
            }
            let index = from.iter().zip(shape).map(|(&have, &want)| self.stretch(have, want));
            let index = index.collect();
            return Some(expr.view(View::Get(index)));
        }
        handle.expand(shape).map(|_| expr)
    }
}
