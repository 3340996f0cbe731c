//! What `kiln bench` runs.

use kiln::{Error, Tensor};

/// A program, called again and again.
pub(super) type Run = Box<dyn Fn() -> Result<(), Error>>;

/// One that can be chosen.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// Makes its inputs.
    pub(super) build: fn() -> Result<Run, Error>,
}

pub(super) const PROGRAMS: &[Program] = &[
    Program { name: "matmul", what: "512 x 512 times 512 x 512", build: matmul },
    Program { name: "dense", what: "128 x 512 times 512 x 256, a bias, gelu", build: dense },
    Program { name: "matvec", what: "4096 x 2048 times a vector", build: matvec },
    Program { name: "softmax", what: "softmax of 1024 rows of 4096", build: softmax },
    Program { name: "layernorm", what: "layer norm of 1024 rows of 4096", build: layernorm },
    Program { name: "sum", what: "the sum of 2048 x 2048", build: sum },
    Program { name: "columns", what: "the sums of the columns of 2048 x 2048", build: columns },
    Program { name: "transpose", what: "2048 x 2048, transposed", build: transpose },
    Program { name: "conv", what: "3 x 3, 4 images of 32 x 28 x 28, 32 channels", build: conv },
    Program { name: "attention", what: "4 heads of 128 x 64", build: attention },
];

fn data(shape: &[usize]) -> Result<Tensor, Error> {
    let t = Tensor::rand(shape) - 0.5;
    t.realize()?;
    Ok(t)
}

fn run(f: impl Fn() -> Tensor + 'static) -> Result<Run, Error> {
    Ok(Box::new(move || f().realize().map(|_| ())))
}

fn matmul() -> Result<Run, Error> {
    let (a, b) = (data(&[512, 512])?, data(&[512, 512])?);
    run(move || a.matmul(&b))
}

fn dense() -> Result<Run, Error> {
    let (x, w, b) = (data(&[128, 512])?, data(&[512, 256])?, data(&[256])?);
    run(move || (x.matmul(&w) + &b).gelu())
}

fn matvec() -> Result<Run, Error> {
    let (a, x) = (data(&[4096, 2048])?, data(&[2048])?);
    run(move || a.matmul(&x))
}

fn softmax() -> Result<Run, Error> {
    let x = data(&[1024, 4096])?;
    run(move || x.softmax(-1))
}

fn layernorm() -> Result<Run, Error> {
    let x = data(&[1024, 4096])?;
    run(move || x.layernorm(-1))
}

fn sum() -> Result<Run, Error> {
    let x = data(&[2048, 2048])?;
    run(move || x.sum(..))
}

fn columns() -> Result<Run, Error> {
    let x = data(&[2048, 2048])?;
    run(move || x.sum(0))
}

fn transpose() -> Result<Run, Error> {
    let x = data(&[2048, 2048])?;
    run(move || x.permute([1, 0]).contiguous())
}

fn conv() -> Result<Run, Error> {
    let (x, w) = (data(&[4, 32, 28, 28])?, data(&[32, 32, 3, 3])?);
    run(move || x.conv2d(&w, None, 1, 1, 1, 1))
}

fn attention() -> Result<Run, Error> {
    let shape = [4, 128, 64];
    let (q, k, v) = (data(&shape)?, data(&shape)?, data(&shape)?);
    run(move || (q.matmul(&k.permute([0, 2, 1])) * 0.125).softmax(-1).matmul(&v))
}
