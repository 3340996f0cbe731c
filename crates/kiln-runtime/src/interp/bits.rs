//! Scalars in memory: little-endian, each in the bits of its own type.

use kiln_ir::eval::{from_bits, to_bits};
use kiln_ir::{Const, DType};
use std::cell::Cell;

/// Element `i` of a memory of `dtype`; `None` past its end.
pub(super) fn read(memory: &[Cell<u8>], dtype: DType, i: usize) -> Option<Const> {
    let bytes = element(memory, dtype, i)?;
    let bits = bytes.iter().rev().fold(0, |bits, byte| bits << 8 | byte.get() as u64);
    Some(from_bits(bits, dtype))
}

/// Overwrites element `i`; `None` past the end.
pub(super) fn write(memory: &[Cell<u8>], dtype: DType, i: usize, value: Const) -> Option<()> {
    let mut bits = to_bits(value, dtype);
    for byte in element(memory, dtype, i)? {
        byte.set(bits as u8);
        bits >>= 8;
    }
    Some(())
}

fn element(memory: &[Cell<u8>], dtype: DType, i: usize) -> Option<&[Cell<u8>]> {
    let start = i.checked_mul(dtype.size())?;
    memory.get(start..start.checked_add(dtype.size())?)
}
