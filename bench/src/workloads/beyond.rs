//! What a table of round sizes would not show: sizes that no tile divides, transposed operands, one row, other dtypes,
//! other axes.

use super::case::{Build, Case, Run, Tolerance, Unit, Work, run};
use super::table::{attention, convolution, convolution_case, square_of, squares};
use crate::data::{floats, labels, scaled, typed};
use kiln::{DType, Error, Tensor};

/// A square of 64 MiB.
const N: usize = 4096 * 4096;
/// Rows and columns that nothing divides.
const ODD: [usize; 2] = [4093, 4099];
const ODD_N: usize = ODD[0] * ODD[1];

pub(super) const CASES: &[Case] = &[
    product("matmul-1000", "A @ B, 1000 x 1000", [1000; 3], || squares(1000)),
    product("matmul-1023", "A @ B, 1023 x 1023", [1023; 3], || squares(1023)),
    product("matmul-1025", "A @ B, 1025 x 1025", [1025; 3], || squares(1025)),
    product("matmul-long", "A @ B, 64 x 100000 x 64", [64, 100_000, 64], || {
        let (a, b) = (floats(1, &[64, 100_000])?, floats(2, &[100_000, 64])?);
        run(move || a.matmul(&b))
    }),
    product("matmul-tn", "A.T @ B, 1024 x 1024", [1024; 3], || {
        squares_of(|a, b| a.transpose(0, 1).matmul(b))
    }),
    product("matmul-nt", "A @ B.T, 1024 x 1024", [1024; 3], || {
        squares_of(|a, b| a.matmul(&b.transpose(0, 1)))
    }),
    product("linear-gelu", "gelu(x @ W + b), 1024 x 1024", [1024; 3], || {
        let (x, w) = (floats(1, &[1024, 1024])?, scaled(2, &[1024, 1024], 1.0 / 32.0)?);
        let b = floats(3, &[1024])?;
        run(move || (x.matmul(&w) + &b).gelu())
    }),
    product("matmul-row", "x @ W, 1 x 4096 x 4096", [1, 4096, 4096], || {
        let (x, w) = (floats(1, &[1, 4096])?, floats(2, &[4096, 4096])?);
        run(move || x.matmul(&w))
    }),
    product("matmul-few", "x @ W, 8 x 768 x 3072", [8, 768, 3072], || {
        let (x, w) = (floats(1, &[8, 768])?, floats(2, &[768, 3072])?);
        run(move || x.matmul(&w))
    }),
    Case {
        name: "attention-causal",
        what: "attention, 12 heads x 512 x 64, of keys up to the query's position",
        work: Work::new(
            (2 * 12 * 512 * 513 * 64) as f64,
            Unit::F32,
            4.0 * (3 * 12 * 512 * 64) as f64,
            4.0 * (12 * 512 * 64) as f64,
        ),
        tolerance: Tolerance::f32(512),
        goal: 0.0,
        pieces: 1,
        build: Build::By(|| attention(true)),
    },
    convolution_case(
        "conv-one",
        "convolution 3 x 3, padding 1, 1 x 64 x 56 x 56 to 64 channels",
        1,
        0.0,
        || convolution(1),
    ),
    streaming("add-odd", "a + b, 4093 x 4099", [2 * ODD_N, ODD_N], || {
        let (a, b) = (floats(1, &ODD)?, floats(2, &ODD)?);
        run(move || &a + &b)
    }),
    streaming("softmax-odd", "softmax over rows, 4093 x 4099", [ODD_N; 2], || {
        odd_of(|x| x.softmax(-1))
    }),
    streaming("layernorm-odd", "layer norm over rows, 4093 x 4099", [ODD_N; 2], || {
        odd_of(|x| x.layernorm(-1))
    }),
    streaming("rmsnorm", "RMS norm over rows of 4096", [N; 2], || {
        square_of(|x| x.rmsnorm_with(-1, 1e-5))
    }),
    streaming("sum-rows", "sums of rows of 4096 x 4096", [N, 4096], || square_of(|x| x.sum(1))),
    streaming("sum-columns", "sums of columns of 4096 x 4096", [N, 4096], || {
        square_of(|x| x.sum(0))
    }),
    streaming("transpose", "A.T of 4096 x 4096, in a row", [N; 2], || {
        square_of(|x| x.transpose(0, 1).contiguous())
    }),
    streaming("transpose-odd", "A.T of 4093 x 4099, in a row", [ODD_N; 2], || {
        odd_of(|x| x.transpose(0, 1).contiguous())
    }),
    streaming("add-turned", "a + b.T, 4096 x 4096", [2 * N, N], || {
        let (a, b) = (floats(1, &[4096, 4096])?, floats(2, &[4096, 4096])?);
        run(move || &a + b.transpose(0, 1))
    }),
    streaming("cross-entropy", "cross entropy of 4096 x 4096 logits", [N, 0], || {
        let (x, y) = (floats(1, &[4096, 4096])?, labels(2, 4096, 4096)?);
        run(move || x.cross_entropy(&y))
    }),
    Case {
        name: "matmul-f64",
        what: "A @ B, 512 x 512, f64",
        work: Work::product([512; 3], Unit::F64, 8),
        tolerance: Tolerance { epsilon: f64::EPSILON, terms: 512 },
        goal: 0.0,
        pieces: 1,
        build: Build::By(|| {
            let (a, b) = (typed(1, &[512, 512], DType::F64)?, typed(2, &[512, 512], DType::F64)?);
            run(move || a.matmul(&b))
        }),
    },
    Case {
        tolerance: Tolerance { epsilon: f64::EPSILON, terms: 1 },
        ..streaming("exp-f64", "exp of 2048 x 4096, f64", [N; 2], || {
            let x = typed(1, &[2048, 4096], DType::F64)?;
            run(move || x.exp())
        })
    },
];

const fn product(
    name: &'static str,
    what: &'static str,
    sizes: [usize; 3],
    build: fn() -> Result<Run, Error>,
) -> Case {
    let work = Work::product(sizes, Unit::F32, 4);
    Case {
        name,
        what,
        work,
        tolerance: Tolerance::f32(sizes[1]),
        goal: 0.0,
        pieces: 1,
        build: Build::By(build),
    }
}

/// So many f32 read and written.
const fn streaming(
    name: &'static str,
    what: &'static str,
    [read, written]: [usize; 2],
    build: fn() -> Result<Run, Error>,
) -> Case {
    let work = Work::streaming(read, written);
    Case {
        name,
        what,
        work,
        tolerance: Tolerance::f32(4096),
        goal: 0.0,
        pieces: 1,
        build: Build::By(build),
    }
}

fn squares_of(f: fn(&Tensor, &Tensor) -> Tensor) -> Result<Run, Error> {
    let (a, b) = (floats(1, &[1024, 1024])?, floats(2, &[1024, 1024])?);
    run(move || f(&a, &b))
}

fn odd_of(f: fn(&Tensor) -> Tensor) -> Result<Run, Error> {
    let x = floats(1, &ODD)?;
    run(move || f(&x))
}
