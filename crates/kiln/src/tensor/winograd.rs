//! Convolutions 3 x 3 with fewer multiplications: Winograd's F(2 x 2, 3 x 3) (Lavin and Gray, 2016, arXiv:1509.09308).
//!
//! Four results that are neighbours take 16 products for each channel instead of 36: of a tile of 4 x 4 elements and the
//! kernel, both transformed by sums. The sums round too, so results are less exact than those of the direct form: the
//! error is at most 32 rounding errors of the sum of all `|x w|`, for up to 64 channels. `WINO=1` asks for it.

use super::Tensor;
use super::window::{Frame, Window, pad_last, slide_last};
use crate::engine;
use crate::error::Fault;
use kiln_ir::UOp;
use kiln_ir::arg::{Axes, PadAxis, SliceAxis};

/// The transform of a tile's elements, along each axis.
const OF_ELEMENTS: [&[f64]; 4] =
    [&[1.0, 0.0, -1.0, 0.0], &[0.0, 1.0, 1.0, 0.0], &[0.0, -1.0, 1.0, 0.0], &[0.0, 1.0, 0.0, -1.0]];
/// That of a kernel.
const OF_KERNEL: [&[f64]; 4] =
    [&[1.0, 0.0, 0.0], &[0.5, 0.5, 0.5], &[0.5, -0.5, 0.5], &[0.0, 0.0, 1.0]];
/// From products to results.
const OF_PRODUCTS: [&[f64]; 2] = [&[1.0, 1.0, 1.0, 0.0], &[0.0, 1.0, -1.0, -1.0]];

/// Results of a tile along each axis, and its elements.
const RESULTS: usize = 2;
const ELEMENTS: usize = 4;

/// Whether a convolution is computed so: one over two axes, 3 x 3, of neighbours, of floats.
pub(super) fn is_wanted(x: &UOp, kernel: &[usize], frame: &Frame) -> bool {
    let neighbours = |w: &Window| w.stride == 1 && w.dilation == 1;
    let fits = |(n, sides): (&usize, &[usize; 2])| n + sides[0] + sides[1] >= 3;
    kernel == [3, 3]
        && x.dtype().is_float()
        && frame.windows.iter().all(neighbours)
        && x.numel() > 0
        && x.shape()[2..].iter().zip(&frame.sides).all(fits)
        && engine::wants_winograd()
}

/// The sums of the convolution of `[batch, channels, rows, columns]` with `[outputs, channels of a group, 3, 3]`.
pub(super) fn sums(x: &Tensor, w: &Tensor, groups: usize, frame: &Frame) -> Result<UOp, Fault> {
    let padded = pad_last(&x.value()?, &frame.sides)?;
    let counts = [2, 3].map(|axis| padded.shape()[axis] - 2);
    let tiles = counts.map(|n| n.div_ceil(RESULTS));
    let seen = slide_last(&whole_tiles(&padded, counts), &[tile(), tile()])?;
    // [batch, groups, inputs, tile rows, 4, tile columns, 4]
    let (batch, channels) = (x.shape()[0], x.shape()[1]);
    let (outputs, inputs) = (w.shape()[0] / groups, channels / groups);
    let seen = Tensor::from_node(seen, x.device());
    let seen = seen.reshape([batch, groups, inputs, tiles[0], ELEMENTS, tiles[1], ELEMENTS]);
    let seen = transformed(&transformed(&seen, 4, &OF_ELEMENTS), 6, &OF_ELEMENTS);
    let places = batch * tiles[0] * tiles[1];
    let squares = ELEMENTS * ELEMENTS;
    let seen = seen.permute([4, 6, 1, 2, 0, 3, 5]).contiguous();
    let seen = seen.reshape([squares, groups, inputs, places]);
    let kernel = w.reshape([groups, outputs, inputs, 3, 3]);
    let kernel = transformed(&transformed(&kernel, 3, &OF_KERNEL), 4, &OF_KERNEL);
    let kernel = kernel.permute([3, 4, 0, 1, 2]).contiguous();
    let products = kernel.reshape([squares, groups, outputs, inputs]).times(&seen);
    let shape = [ELEMENTS, ELEMENTS, groups, outputs, batch, tiles[0], tiles[1]];
    let products = products.contiguous().reshape(shape);
    let results = transformed(&transformed(&products, 0, &OF_PRODUCTS), 1, &OF_PRODUCTS);
    // [batch, groups, outputs, tile rows, 2, tile columns, 2]
    let results = results.value()?.permute(Axes::from_slice(&[4, 2, 3, 5, 0, 6, 1]));
    let [rows, columns] = tiles.map(|n| n * RESULTS);
    let results = results.reshape([batch, groups * outputs, rows, columns].as_slice());
    let [rows, columns] = counts.map(SliceAxis::full);
    let all = [batch, groups * outputs].map(SliceAxis::full);
    Ok(results.slice(&[all[0], all[1], rows, columns]))
}

fn tile() -> Window {
    Window { size: ELEMENTS, stride: RESULTS, dilation: 1 }
}

/// With a row and a column of zeros where the last tiles need them.
fn whole_tiles(padded: &UOp, counts: [usize; 2]) -> UOp {
    let mut pads = [PadAxis::default(); 4];
    for (pad, n) in pads[2..].iter_mut().zip(counts) {
        pad.after = n % RESULTS;
    }
    padded.pad(&pads)
}

/// Each row of a matrix is a sum over an axis.
fn transformed(x: &Tensor, axis: i64, matrix: &[&[f64]]) -> Tensor {
    let rows = matrix.iter().map(|row| {
        let terms = row.iter().enumerate().filter(|(_, factor)| **factor != 0.0);
        let term = |(i, factor): (usize, &f64)| {
            let part = x.select(axis, i as i64);
            if *factor == 1.0 { part } else { part.mul(*factor) }
        };
        terms.map(term).reduce(|a, b| a.add(b)).expect("no row is zero")
    });
    Tensor::stack(rows.collect::<Vec<_>>(), axis)
}
