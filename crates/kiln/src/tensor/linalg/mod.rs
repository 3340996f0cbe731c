//! Linear algebra beyond products, of stacks of matrices.

mod dense;
mod derivative;
mod factor;
mod functions;
mod jacobi;
mod solve;
mod spectral;
mod stack;

pub use functions::MatrixNorm;
