//! Tensors as blocks, as the `gguf` package makes them.

use super::kind::Kind;
use crate::error::{Fault, refuse};
use crate::{DType, Tensor};

/// How a tensor's elements are written.
#[allow(non_camel_case_types, reason = "the format's names")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GgufType {
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// 32 elements of eight bits, and their factor: 34 bytes.
    Q8_0,
    /// 32 elements of four bits, and their factor: 18 bytes.
    Q4_0,
}

/// Elements of a block.
const BLOCK: usize = 32;

impl GgufType {
    pub(super) fn kind(self) -> Kind {
        match self {
            GgufType::F32 => Kind::F32,
            GgufType::F16 => Kind::F16,
            GgufType::Q8_0 => Kind::Q8_0,
            GgufType::Q4_0 => Kind::Q4_0,
        }
    }

    /// What is written of a tensor.
    pub(super) fn encoded(self, name: &str, t: &Tensor) -> Result<Tensor, Fault> {
        if !t.dtype().is_float() {
            return refuse!("{name} is {}: {self:?} is for floats", t.dtype());
        }
        let row = t.shape().last().copied().unwrap_or(1);
        let (block, _) = self.kind().block();
        if !row.is_multiple_of(block) {
            return refuse!("{name} has rows of {row}, no multiple of {self:?}'s {block}");
        }
        let x = t.detach().cast(DType::F32);
        Ok(match self {
            GgufType::F32 => x,
            GgufType::F16 => x.cast(DType::F16),
            GgufType::Q8_0 => eight_bits(&blocks(&x)),
            GgufType::Q4_0 => four_bits(&blocks(&x)),
        })
    }
}

fn blocks(x: &Tensor) -> Tensor {
    x.reshape([x.numel() / BLOCK, BLOCK])
}

/// The inverse of a factor, which may be 0.
fn inverse(d: &Tensor) -> Tensor {
    d.eq(0.0).where_(0.0f32, 1.0 / d)
}

/// The factor as two bytes, then the elements.
fn joined(d: &Tensor, elements: &Tensor) -> Tensor {
    Tensor::cat([d.cast(DType::F16).bitcast(DType::U8), elements.clone()], 1)
}

/// The largest becomes 127. Halves are rounded away from 0.
fn eight_bits(x: &Tensor) -> Tensor {
    let d = x.abs().max_keepdim(1) / 127.0;
    let y = x * &inverse(&d);
    let (size, whole) = (y.abs(), y.abs().floor());
    let rounded = &whole + &((size - &whole) * 2.0).floor();
    joined(&d, &(y.sign() * rounded).cast(DType::I8).bitcast(DType::U8))
}

/// The largest becomes -8; the first of equal ones counts.
fn four_bits(x: &Tensor) -> Tensor {
    let largest = x.gather(1, &x.abs().argmax(1).unsqueeze(1));
    let d = largest / -8.0;
    let q = (x * &inverse(&d) + 8.5).trunc().clamp(0, 15).cast(DType::U8);
    joined(&d, &(q.narrow(1, 0, 16) | (q.narrow(1, 16, 16) << 4)))
}
