//! Which float values are known to be short dyadic numbers, so that their sums are exact in any order.

use kiln::DType;

/// Every finite element is a multiple of `2^-scale` and at most `2^bits` in size. Rounding keeps both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) scale: u32,
    pub(super) bits: u32,
}

impl Grid {
    /// The grid of all values of an integer type or bool.
    pub(super) fn of_ints(dtype: DType) -> Grid {
        Grid { scale: 0, bits: if dtype == DType::Bool { 0 } else { dtype.bits() } }
    }

    /// Sums of two.
    pub(super) fn plus(self, other: Grid) -> Grid {
        let Grid { scale, bits } = self.or(other);
        Grid { scale, bits: bits + 1 }
    }

    /// Products.
    pub(super) fn times(self, other: Grid) -> Grid {
        Grid { scale: self.scale + other.scale, bits: self.bits + other.bits }
    }

    /// One of two.
    pub(super) fn or(self, other: Grid) -> Grid {
        Grid { scale: self.scale.max(other.scale), bits: self.bits.max(other.bits) }
    }

    /// Sums of `n`.
    pub(super) fn summed(self, n: usize) -> Grid {
        Grid { bits: self.bits + n.max(1).next_power_of_two().ilog2(), ..self }
    }

    /// Products of `n`.
    pub(super) fn multiplied(self, n: usize) -> Grid {
        let n = n as u32;
        Grid { scale: self.scale * n, bits: self.bits * n }
    }

    /// Rounded to whole numbers.
    pub(super) fn whole(self) -> Grid {
        Grid { scale: 0, bits: self.bits + 1 }
    }

    /// Whether every such number is exact in the type that sums of `dtype` are accumulated in.
    pub(super) fn is_exact(self, dtype: DType) -> bool {
        let digits = match dtype.accumulator() {
            DType::F64 => 53,
            DType::F32 => 24,
            _ => return true, // integers wrap, in any order to the same value
        };
        self.scale + self.bits <= digits
    }

    /// The grid, unless numbers of `dtype` are too coarse near 0 for it.
    pub(super) fn kept_by(self, dtype: DType) -> Option<Grid> {
        let finest = if dtype == DType::F16 { 24 } else { 100 };
        (self.scale <= finest && self.bits <= 100).then_some(self)
    }
}
