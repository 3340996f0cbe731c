//! How often elements are there.

use super::Tensor;
use super::shape_args::AxesArg;
use crate::defaults::OrFloat;
use crate::error::{Error, Fault, refuse};
use crate::origin::outermost;
use kiln_ir::DType;

/// Frequencies.
impl Tensor {
    /// The different elements in order. Computes the tensor.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 1, 3, 2]).unique().to_vec::<i32>()?, [1, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Whatever computing the tensor gives.
    #[must_use]
    #[track_caller]
    pub fn unique(&self) -> Tensor {
        let _method = outermost("unique");
        let sorted = self.flatten().sort(0, false).0;
        let n = sorted.numel();
        if n < 2 {
            return sorted;
        }
        // neighbours are compared now, and elements are chosen from it later: it would be sorted twice
        if let Err(error) = sorted.realize() {
            return Tensor::broken(error);
        }
        let differs = sorted.piece(0, 1, n - 1).ne(sorted.piece(0, 0, n - 1));
        sorted
            .masked_select(&Tensor::cat([Tensor::full_with([1], true, self.device()), differs], 0))
    }

    /// How often each of the numbers 0, 1, .. is there, up to the largest, or to before `least` if that is more; i64.
    /// Computes the tensor.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([2, 0, 2]).bincount(0).to_vec::<i64>()?, [1, 0, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Numbers that are no integers or negative, more than one axis; whatever computing the tensor gives.
    #[must_use]
    #[track_caller]
    pub fn bincount(&self, least: usize) -> Tensor {
        let _method = outermost("bincount");
        match self.bins(least) {
            Ok(bins) => {
                let one = Tensor::ones_with(self.shape(), (DType::I64, self.device()));
                let zeros = Tensor::zeros_with([bins], (DType::I64, self.device()));
                if self.numel() == 0 {
                    zeros
                } else {
                    zeros.scatter_reduce(0, self, one, "sum", true)
                }
            }
            Err(fault) => Tensor::broken(fault.at("bincount")),
        }
    }

    /// How many numbers there are to count.
    fn bins(&self, least: usize) -> Result<usize, Fault> {
        Tensor::all_valid([self])?;
        if !self.dtype().is_int() || self.ndim() != 1 {
            return refuse!(
                "wants integers along one axis, not {} {:?}",
                self.dtype(),
                self.shape()
            );
        }
        if self.numel() == 0 {
            return Ok(least);
        }
        let wide = self.cast(DType::I64);
        let (low, high) = (wide.min(..).read_as::<i64>()?[0], wide.max(..).read_as::<i64>()?[0]);
        match low {
            0.. => Ok(least.max(usize::try_from(high).unwrap_or(usize::MAX).saturating_add(1))),
            _ => refuse!("{low} is negative"),
        }
    }

    /// How many elements lie in each of `bins` intervals of one width from `low` to `high`, both included; in the dtype of
    /// the elements.
    ///
    /// ```
    /// let t = kiln::Tensor::from([0.0f32, 1.0, 1.5, 4.0, 9.0]);
    /// assert_eq!(t.histc(2, 0.0, 4.0).to_vec::<f32>()?, [3.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No intervals; ends that are not in order.
    #[must_use]
    #[track_caller]
    pub fn histc(&self, bins: usize, low: f64, high: f64) -> Tensor {
        let _method = outermost("histc");
        match self.placed(bins, low, high) {
            Ok(place) => self.counted(bins, &place, &self.within(low, high)),
            Err(fault) => self.refused("histc", fault),
        }
    }

    /// How many elements lie in each of `bins` intervals of one length from `low` to `high`, both included, and the ends of
    /// the intervals. An element at an end between two intervals is in the upper one.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let (counts, edges) = Tensor::from([0.5, 1.5, 1.75]).histogram(2, 0.0, 2.0);
    /// assert_eq!(counts.to_vec::<f64>()?, [1.0, 2.0]);
    /// assert_eq!(edges.to_vec::<f64>()?, [0.0, 1.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`histc`](Tensor::histc).
    #[must_use]
    #[track_caller]
    pub fn histogram(&self, bins: usize, low: f64, high: f64) -> (Tensor, Tensor) {
        let _method = outermost("histogram");
        let place = match self.placed(bins, low, high) {
            Ok(place) => place,
            Err(fault) => {
                let refused = self.refused("histogram", fault);
                return (refused.clone(), refused);
            }
        };
        let options = (self.dtype().or_float(), self.device());
        let edges = Tensor::linspace_with(low, high, bins + 1, options);
        // the distance from `low` rounds, and so do the ends: the interval may be the next one
        let x = self.flatten();
        let down = x.lt(edges.index_select(0, &place)).cast(DType::I32);
        let up = x.ge(edges.index_select(0, &place.add(1))).cast(DType::I32);
        let place = place.sub(down).add(up).clamp(0, bins as i64 - 1);
        (self.counted(bins, &place, &self.within(low, high)), edges)
    }

    /// The interval of each element by its distance from `low`; of one outside any.
    #[track_caller]
    fn placed(&self, bins: usize, low: f64, high: f64) -> Result<Tensor, Fault> {
        // places are of i32
        let fits = (1..i32::MAX as usize).contains(&bins);
        if !fits || low >= high || !(high - low).is_finite() {
            return refuse!("no {bins} intervals from {low} to {high}");
        }
        let distance = self.flatten().cast(DType::F64).sub(low);
        let place = distance.mul(bins as f64).div(high - low).floor();
        let place = place.isnan().where_(0.0, place);
        // as integers, whose bounds anybody can tell
        Ok(place.cast(DType::I32).clamp(0, bins as i64 - 1))
    }

    /// Whether each element is between two numbers, which round as the elements do.
    #[track_caller]
    fn within(&self, low: f64, high: f64) -> Tensor {
        let x = self.flatten();
        let x = if x.dtype().is_float() { x } else { x.cast(DType::F64) };
        x.ge(low).logical_and(x.le(high))
    }

    /// How many elements that are `inside` have each place.
    #[track_caller]
    fn counted(&self, bins: usize, place: &Tensor, inside: &Tensor) -> Tensor {
        let empty = Tensor::zeros_with([bins + 1], (DType::I64, self.device()));
        let counts = match self.numel() {
            0 => empty,
            _ => {
                // what is not inside is counted apart. Counting goes in order: what is counted is in memory before, computed by all
                // threads, and clamped, so that anybody can tell its bounds
                let slot = inside.where_(place, bins as i64).contiguous();
                let slot = slot.clamp(0, bins as i64);
                let ones = Tensor::ones_with(slot.shape(), (DType::I64, self.device()));
                empty.scatter_reduce(0, &slot, ones, "sum", true)
            }
        };
        counts.piece(0, 0, bins).cast(self.dtype())
    }

    /// The most frequent element along an axis, of several the smallest. `..` is of all elements.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 1, 3, 2]).mode(0).item::<i32>()?, 3);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Several axes, one that is not there or is empty.
    #[must_use]
    #[track_caller]
    pub fn mode(&self, axis: impl AxesArg) -> Tensor {
        let _method = outermost("mode");
        let (sorted, axis, n) = match self.in_order(axis) {
            Ok(parts) => parts,
            Err(fault) => return Tensor::broken(fault.at("mode")),
        };
        let mut line = vec![1; sorted.ndim()];
        line[axis] = n;
        let place = Tensor::arange_with(n, self.device()).reshape(line);
        let differs = sorted.piece(axis, 1, n - 1).ne(sorted.piece(axis, 0, n - 1));
        let first = sorted.piece(axis, 0, 1).zeros_like_with(DType::Bool).logical_not();
        // where the run of equals began that a place is in
        let start = Tensor::cat([first, differs], axis).where_(&place, 0).cummax(axis).0;
        let longest = place.sub(start).argmax(axis).unsqueeze(axis);
        sorted.gather(axis, &longest).squeeze(axis)
    }

    /// Whether both have the same shape and the same elements. Computes both.
    ///
    /// ```
    /// assert!(kiln::Tensor::from([1, 2]).equal(&kiln::Tensor::from([1, 2]))?);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Other devices; whatever computing gives.
    #[track_caller]
    pub fn equal(&self, other: &Tensor) -> Result<bool, Error> {
        let _method = outermost("equal");
        match [self, other].into_iter().find_map(Tensor::error) {
            Some(error) => Err(error),
            None if self.shape() != other.shape() => Ok(false),
            None => self.eq(other).all(..).item(),
        }
    }
}
