//! Elements at positions of a grid, which lie between elements: spatial transformers (Jaderberg et al., 2015).

use super::interpolate::{Sampling, keys};
use super::shape_args::{ShapeArg, new_shape};
use super::{PadMode, Tensor};
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::DType;

/// Sampling at positions.
impl Tensor {
    /// The elements of `[batch, channels, height, width]` at the positions of `grid`, `[batch, rows, columns, 2]`, in which
    /// (-1, -1) is the top left and (1, 1) the bottom right, x first; with a depth there are three. They are the borders, or if
    /// `align_corners` the outermost elements. Outside are zeros, or what `around` says: the outermost elements or mirrored
    /// ones. Sampling is nearest, linear, or of planes cubic. Gives `[batch, channels, rows, columns]`.
    ///
    /// ```
    /// use kiln::{Sampling, Tensor};
    /// let x = Tensor::from([[[[1.0f32, 2.0], [3.0, 4.0]]]]);
    /// let middle = Tensor::zeros([1, 1, 1, 2]);
    /// let y = x.grid_sample(&middle, Sampling::Linear, None, false);
    /// assert_eq!(y.to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not belong together, other dtypes than floats, other devices; a circular border; another sampling.
    #[must_use]
    #[track_caller]
    pub fn grid_sample(
        &self,
        grid: &Tensor,
        sampling: Sampling,
        around: Option<PadMode>,
        align_corners: bool,
    ) -> Tensor {
        let _method = outermost("grid_sample");
        let sampled = sampler(self, grid, sampling, around, align_corners);
        Tensor::or_broken("grid_sample", sampled.map(|s| s.sampled(grid, sampling)))
    }

    /// The grid of positions that [`grid_sample`](Tensor::grid_sample) wants for an output of `shape`, `[batch, channels,
    /// height, width]`, under these affine maps, `[batch, 2, 3]`; with a depth they are `[batch, 3, 4]`.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let same = Tensor::from([[[1.0f32, 0.0, 0.0], [0.0, 1.0, 0.0]]]);
    /// let grid = same.affine_grid([1, 1, 1, 2], true);
    /// assert_eq!(grid.to_vec::<f32>()?, [-1.0, 0.0, 1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Maps of another shape or dtype than floats.
    #[must_use]
    #[track_caller]
    pub fn affine_grid(&self, shape: impl ShapeArg, align_corners: bool) -> Tensor {
        let _method = outermost("affine_grid");
        Tensor::or_broken("affine_grid", affine(self, shape, align_corners))
    }
}

fn affine(maps: &Tensor, shape: impl ShapeArg, align_corners: bool) -> Result<Tensor, Fault> {
    Tensor::all_valid([maps])?;
    let shape = new_shape(shape)?;
    let n = shape.len().saturating_sub(2);
    if ![2, 3].contains(&n) || maps.shape() != [shape[0], n, n + 1] || !maps.dtype().is_float() {
        return refuse!("maps {} {:?} do not belong to {shape:?}", maps.dtype(), maps.shape());
    }
    let lengths = &shape[2..];
    let (dtype, device) = (maps.dtype(), maps.device());
    let along = |axis: usize| {
        let m = lengths[axis];
        let i = Tensor::arange_with(m, (DType::F64, device));
        let place = match (align_corners, m) {
            (_, 1) => i.mul(0.0),
            (true, _) => i.mul(2.0 / (m - 1) as f64).sub(1.0),
            (false, _) => i.mul(2.0).add(1.0).div(m as f64).sub(1.0),
        };
        let mut aligned = vec![1; n];
        aligned[axis] = m;
        place.cast(dtype).reshape(aligned).expand(lengths)
    };
    // x first, and what is added last
    let mut columns: Vec<Tensor> = (0..n).rev().map(along).collect();
    columns.push(Tensor::ones_with(lengths, (dtype, device)));
    let places = Tensor::stack(&columns, -1).reshape([-1, n as i64 + 1]);
    let grid = places.unsqueeze(0).times(&maps.transpose(1, 2));
    let whole: Vec<usize> = [&[shape[0]], lengths, &[n]].concat();
    Ok(grid.reshape(whole))
}

/// What is sampled, in the accumulator's dtype: `[batch, channels, elements]`.
struct Sampler {
    flat: Tensor,
    lengths: Vec<usize>,
    around: Option<PadMode>,
    align_corners: bool,
    dtype: DType,
}

fn sampler(
    x: &Tensor,
    grid: &Tensor,
    sampling: Sampling,
    around: Option<PadMode>,
    align_corners: bool,
) -> Result<Sampler, Fault> {
    Tensor::all_valid([x, grid])?;
    super::broadcast::one_device([x, grid])?;
    let (a, b, n) = (x.shape(), grid.shape(), x.ndim().saturating_sub(2));
    if ![2, 3].contains(&n)
        || b.len() != n + 2
        || a[0] != b[0]
        || b[n + 1] != n
        || a[2..].contains(&0)
    {
        return refuse!("input {a:?} and grid {b:?} do not belong together");
    }
    if !x.dtype().is_float() || !grid.dtype().is_float() {
        return refuse!("wants floats, not {} and {}", x.dtype(), grid.dtype());
    }
    if around == Some(PadMode::Circular)
        || sampling == Sampling::Area
        || (sampling == Sampling::Cubic && n != 2)
    {
        return refuse!("has no {sampling:?} sampling over {n} axes with {around:?} around");
    }
    let flat = x.cast(x.dtype().accumulator()).reshape([a[0], a[1], a[2..].iter().product()]);
    Ok(Sampler { flat, lengths: a[2..].to_vec(), around, align_corners, dtype: x.dtype() })
}

impl Sampler {
    /// The values at the grid's positions.
    fn sampled(&self, grid: &Tensor, sampling: Sampling) -> Tensor {
        let n = self.lengths.len();
        let wide = grid.cast(self.flat.dtype());
        // of the first axis first, where grids have x first
        let places: Vec<Tensor> =
            (0..n).map(|i| self.place(&wide.select(-1, n - 1 - i), i)).collect();
        let taps: Vec<Vec<[Tensor; 2]>> =
            places.iter().enumerate().map(|(i, p)| self.taps(p, i, sampling)).collect();
        let mut sum: Option<Tensor> = None;
        for choice in 0..taps[0].len().pow(n as u32) {
            let picked: Vec<&[Tensor; 2]> = taps
                .iter()
                .enumerate()
                .map(|(i, t)| &t[choice / t.len().pow(i as u32) % t.len()])
                .collect();
            let value = self.corner(&picked);
            sum = Some(sum.map_or(value.clone(), |s| s.add(&value)));
        }
        let shape = [&self.flat.shape()[..2], &grid.shape()[1..n + 1]].concat();
        sum.expect("a corner").reshape(shape).cast(self.dtype)
    }

    /// Positions from -1 to 1 as positions among the elements of an axis.
    fn place(&self, grid: &Tensor, axis: usize) -> Tensor {
        let n = self.lengths[axis] as f64;
        match self.align_corners {
            true => grid.add(1.0).mul((n - 1.0) / 2.0),
            false => grid.add(1.0).mul(n / 2.0).sub(0.5),
        }
    }

    /// Positions inside, as what is around says.
    fn inside(&self, place: &Tensor, axis: usize) -> Tensor {
        let n = self.lengths[axis] as f64;
        match self.around {
            None => place.clone(),
            Some(PadMode::Reflect) => {
                let (low, span) = if self.align_corners { (0.0, n - 1.0) } else { (-0.5, n) };
                if span == 0.0 {
                    return place.mul(0.0);
                }
                // a wave that goes up and down
                let phase = place.sub(low).modulo(2.0 * span);
                let mirrored = phase.le(span).where_(&phase, phase.neg().add(2.0 * span));
                mirrored.add(low).clamp(0.0, n - 1.0)
            }
            Some(_) => place.clamp(0.0, n - 1.0),
        }
    }

    /// Whole positions along an axis with their weights.
    fn taps(&self, place: &Tensor, axis: usize, sampling: Sampling) -> Vec<[Tensor; 2]> {
        let one = place.ones_like();
        match sampling {
            Sampling::Linear => {
                let place = self.inside(place, axis);
                let first = place.detach().floor();
                let share = place.sub(&first);
                let next = first.add(1.0);
                vec![[first, share.neg().add(1.0)], [next, share]]
            }
            Sampling::Cubic => {
                let first = place.detach().floor();
                let weights = keys(&place.sub(&first));
                let at = |(w, offset): (Tensor, f64)| [self.inside(&first.add(offset), axis), w];
                weights.into_iter().zip([-1.0, 0.0, 1.0, 2.0]).map(at).collect()
            }
            _ => vec![[self.inside(place, axis).detach().round(), one]],
        }
    }

    /// The elements at whole positions under their weights; nothing is outside.
    fn corner(&self, taps: &[&[Tensor; 2]]) -> Tensor {
        let (batch, channels) = (self.flat.shape()[0], self.flat.shape()[1]);
        let (mut index, mut weight, mut there) = (None::<Tensor>, None::<Tensor>, None::<Tensor>);
        for (&[place, w], &n) in taps.iter().zip(&self.lengths) {
            let last = n as f64 - 1.0;
            let is_in = place.ge(0.0).logical_and(place.le(last));
            // anybody can tell that it is inside
            let at = place.cast(DType::I32).clamp(0, n as i64 - 1);
            index = Some(index.map_or(at.clone(), |i| i.mul(n as i64).add(&at)));
            weight = Some(weight.map_or(w.clone(), |v| v.mul(w)));
            there = Some(there.map_or(is_in.clone(), |t| t.logical_and(&is_in)));
        }
        let (index, weight, there) =
            (index.expect("one"), weight.expect("one"), there.expect("one"));
        let count = index.numel() / batch.max(1);
        let row = |t: &Tensor| t.reshape([batch, 1, count]).expand([batch, channels, count]);
        let values = self.flat.gather(2, &row(&index));
        row(&there).where_(values.mul(row(&weight)), 0.0)
    }
}
