//! Methods that people use daily and no network is made of: order, scans, positions, and arrays that are small.

use super::case::{Build, Case, Run, Tolerance, Work, run};
use super::table::square_of;
use crate::data::{floats, labels};
use kiln::{DType, Error, Tensor};

const N: usize = 4096 * 4096;
/// A batch of logits over a large vocabulary.
const LOGITS: [usize; 2] = [1024, 50_257];

pub(super) const CASES: &[Case] = &[
    method("sort", "2^20 numbers in order", [1 << 20; 2], 1, || {
        let x = floats(1, &[1 << 20])?;
        run(move || x.sort(0, false).0)
    }),
    method(
        "topk",
        "64 largest of each of 1024 x 50257",
        [LOGITS[0] * LOGITS[1], 65_536],
        1,
        || {
            let x = floats(1, &LOGITS)?;
            run(move || x.topk(64, -1, true).0)
        },
    ),
    method("cumsum-last", "running sums along rows of 4096 x 4096", [N; 2], 4096, || {
        square_of(|x| x.cumsum(-1))
    }),
    method("cumsum-first", "running sums along columns of 4096 x 4096", [N; 2], 4096, || {
        square_of(|x| x.cumsum(0))
    }),
    method("gather", "an element of its row for each of 4096 x 4096", [3 * N, N], 1, || {
        let (x, at) = (floats(1, &[4096, 4096])?, mixed()?);
        run(move || x.gather(1, &at))
    }),
    method("scatter", "each of 4096 x 4096 to another place of its row", [4 * N, N], 1, || {
        let (x, y, at) = (floats(1, &[4096, 4096])?, floats(2, &[4096, 4096])?, mixed()?);
        run(move || x.scatter(1, &at, &y))
    }),
    method("roll", "rows of 4096 x 4096, turned by 1000", [N; 2], 1, || {
        square_of(|x| x.roll(1000, 1))
    }),
    method("max-last", "maxima of rows of 4096 x 4096", [N, 4096], 1, || square_of(|x| x.max(-1))),
    method("sine", "sin of 4096 x 4096", [N; 2], 1, || square_of(Tensor::sin)),
    method("gelu-erf", "gelu by the error function, of 4096 x 4096", [N; 2], 1, || {
        square_of(Tensor::gelu_erf)
    }),
    method(
        "conv-channel",
        "convolution 5 x 5, 64 x 1 x 28 x 28 to 32",
        [50_976, 1_179_648],
        25,
        || {
            let (x, w) = (floats(1, &[64, 1, 28, 28])?, floats(2, &[32, 1, 5, 5])?);
            run(move || x.conv2d(&w, None, 1, 1, 1, 0))
        },
    ),
    method(
        "conv-depthwise",
        "convolution 7 x 7 of each channel between two of 1 x 1, 96 x 56 x 56",
        [324_192, 301_056],
        96 * 49 * 96,
        || {
            let (x, a) = (floats(1, &[1, 96, 56, 56])?, floats(2, &[96, 96, 1, 1])?);
            let (w, b) = (floats(3, &[96, 1, 7, 7])?, floats(4, &[96, 96, 1, 1])?);
            run(move || {
                let y = x.conv2d(&a, None, 1, 1, 1, 0).conv2d(&w, None, 96, 1, 1, 3);
                y.conv2d(&b, None, 1, 1, 1, 0)
            })
        },
    ),
    method("matmul-32", "A @ B, 32 x 32", [2048, 1024], 32, || {
        let (a, b) = (floats(1, &[32, 32])?, floats(2, &[32, 32])?);
        run(move || a.matmul(&b))
    }),
    method("softmax-64", "softmax over rows, 64 x 64", [4096; 2], 64, || {
        let x = floats(1, &[64, 64])?;
        run(move || x.softmax(-1))
    }),
    method("sum-64", "sums of rows, 64 x 64", [4096, 64], 64, || {
        let x = floats(1, &[64, 64])?;
        run(move || x.sum(-1))
    }),
];

/// For each row of 4096 the positions below 4096 in an order of its own, i64.
fn mixed() -> Result<Tensor, Error> {
    let start = labels(3, 4096, 4096)?.reshape([4096, 1]);
    let at = (Tensor::arange(4096).cast(DType::I64) * 2731 + start) % 4096;
    at.realize()?;
    Ok(at)
}

/// So many f32 read and written; each result is the sum of so many terms.
const fn method(
    name: &'static str,
    what: &'static str,
    [read, written]: [usize; 2],
    terms: usize,
    build: fn() -> Result<Run, Error>,
) -> Case {
    let work = Work::streaming(read, written);
    let tolerance = Tolerance::f32(terms);
    Case { name, what, work, tolerance, goal: 1.0, pieces: 1, build: Build::By(build) }
}
