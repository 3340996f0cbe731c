//! The table that kiln is compared by.

use super::case::{Build, Case, Run, Tolerance, Unit, Work, run};
use super::convnet;
use crate::data::{floats, typed};
use kiln::{DType, Error, Tensor};

/// A square of 64 MiB: rows, and elements.
const ROWS: usize = 4096;
const N: usize = ROWS * ROWS;

pub(super) const CASES: &[Case] = &[
    square::<512>("matmul-512", "A @ B, 512 x 512"),
    square::<1024>("matmul-1024", "A @ B, 1024 x 1024"),
    square::<2048>("matmul-2048", "A @ B, 2048 x 2048"),
    Case {
        name: "matmul-bf16",
        what: "A @ B, 1024 x 1024, bf16",
        work: Work::product([1024; 3], Unit::Bf16, 2),
        // the result is rounded once more, to 8 bits
        tolerance: Tolerance { epsilon: 1.0 / 256.0, terms: 1 },
        goal: 0.8,
        pieces: 1,
        build: Build::By(|| {
            let a = typed(1, &[1024, 1024], DType::BF16)?;
            let b = typed(2, &[1024, 1024], DType::BF16)?;
            run(move || a.matmul(&b))
        }),
    },
    Case {
        name: "matvec",
        what: "A @ x, 50257 x 768",
        work: Work::product([50257, 768, 1], Unit::F32, 4),
        tolerance: Tolerance::f32(768),
        goal: 1.1,
        pieces: 1,
        build: Build::By(|| {
            let (a, x) = (floats(1, &[50257, 768])?, floats(2, &[768])?);
            run(move || a.matmul(&x))
        }),
    },
    Case {
        name: "add",
        what: "a + b, 4096 x 4096",
        work: Work::streaming(2 * N, N),
        tolerance: Tolerance::f32(1),
        goal: 2.2,
        pieces: 1,
        build: Build::By(|| {
            let (a, b) = (floats(1, &[ROWS, ROWS])?, floats(2, &[ROWS, ROWS])?);
            run(move || &a + &b)
        }),
    },
    Case {
        tolerance: Tolerance::f32(N),
        ..streaming("sum", "sum of 4096 x 4096", 0, 0.95, || square_of(|x| x.sum(..)))
    },
    streaming("exp", "exp of 4096 x 4096", N, 3.0, || square_of(Tensor::exp)),
    streaming("softmax", "softmax over rows of 4096", N, 3.0, || square_of(|x| x.softmax(-1))),
    streaming("layernorm", "layer norm over rows of 4096", N, 3.0, || {
        square_of(|x| x.layernorm(-1))
    }),
    streaming("gelu", "gelu(x) * x + x, tanh form, 4096 x 4096", N, 3.0, || {
        square_of(|x| x.gelu() * x + x)
    }),
    convolution_case(
        "conv",
        "convolution 3 x 3, padding 1, 8 x 64 x 56 x 56 to 64 channels",
        8,
        1.0,
        || convolution(8),
    ),
    Case {
        name: "attention",
        what: "attention, 12 heads x 512 x 64",
        work: Work::new(
            (4 * 12 * 512 * 512 * 64) as f64,
            Unit::F32,
            4.0 * (3 * 12 * 512 * 64) as f64,
            4.0 * (12 * 512 * 64) as f64,
        ),
        tolerance: Tolerance::f32(512),
        goal: 1.3,
        pieces: 1,
        build: Build::By(|| attention(false)),
    },
    Case {
        name: "train",
        what: "training step of an MNIST convnet, batch 128, Adam",
        work: Work::new(convnet::FLOPS, Unit::F32, 0.0, 0.0),
        // rounding decides signs of Adam's first steps, and which element is a maximum
        tolerance: Tolerance { epsilon: 1e-2 / 8.0, terms: 1 },
        goal: 1.5,
        pieces: 1,
        build: Build::By(convnet::training),
    },
];

/// A product of two squares.
const fn square<const SIZE: usize>(name: &'static str, what: &'static str) -> Case {
    Case {
        name,
        what,
        work: Work::product([SIZE; 3], Unit::F32, 4),
        tolerance: Tolerance::f32(SIZE),
        goal: 1.0,
        pieces: 1,
        build: Build::By(|| squares(SIZE)),
    }
}

/// Attention of twelve heads, of keys up to the query's position if it is causal.
pub(super) fn attention(causal: bool) -> Result<Run, Error> {
    let shape = [1, 12, 512, 64];
    let (q, k, v) = (floats(1, &shape)?, floats(2, &shape)?, floats(3, &shape)?);
    run(move || q.scaled_dot_product_attention(&k, &v, None, causal))
}

/// The product of two squares.
pub(super) fn squares(n: usize) -> Result<Run, Error> {
    let (a, b) = (floats(1, &[n, n])?, floats(2, &[n, n])?);
    run(move || a.matmul(&b))
}

/// Something of one square of [`ROWS`].
const fn streaming(
    name: &'static str,
    what: &'static str,
    written: usize,
    goal: f64,
    build: fn() -> Result<Run, Error>,
) -> Case {
    let work = Work::streaming(N, written);
    Case {
        name,
        what,
        work,
        tolerance: Tolerance::f32(ROWS),
        goal,
        pieces: 1,
        build: Build::By(build),
    }
}

/// A function of one square of [`ROWS`].
pub(super) fn square_of(f: fn(&Tensor) -> Tensor) -> Result<Run, Error> {
    let x = floats(1, &[ROWS, ROWS])?;
    run(move || f(&x))
}

/// A convolution of images of 64 x 56 x 56.
pub(super) const fn convolution_case(
    name: &'static str,
    what: &'static str,
    images: usize,
    goal: f64,
    build: fn() -> Result<Run, Error>,
) -> Case {
    let pixels = (images * 64 * 56 * 56) as f64;
    let weights = (64 * 64 * 9) as f64;
    let work = Work::new(
        2.0 * pixels * (64 * 9) as f64,
        Unit::F32,
        4.0 * (pixels + weights),
        4.0 * pixels,
    );
    Case {
        name,
        what,
        work,
        tolerance: Tolerance::f32(64 * 9),
        goal,
        pieces: 1,
        build: Build::By(build),
    }
}

/// A convolution of so many images.
pub(super) fn convolution(batch: usize) -> Result<Run, Error> {
    let (x, w) = (floats(1, &[batch, 64, 56, 56])?, floats(2, &[64, 64, 3, 3])?);
    run(move || x.conv2d(&w, None, 1, 1, 1, 1))
}
