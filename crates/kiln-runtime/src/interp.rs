//! The INTERP device: executes a linear program slowly and obviously. It is the oracle that every other device is
//! compared with. So it takes each op's meaning from `kiln_ir::eval`, checks every access, and optimizes nothing.
//!
//! Work-groups run one after another. The items of a group run one after another up to a barrier; when all have reached
//! it, all continue.

mod bits;
mod code;
mod device;
mod error;
mod item;

pub use device::InterpBackend;
pub use error::{InterpBuffer, InterpError};

use code::Code;
use item::{Item, Stop, Surroundings};
use kiln_ir::program::Program;
use std::cell::Cell;

/// Runs all of `program`: every work-group, every thread's part, the last part first. `buffers` by parameter slot; `vars` as in the CPU
/// ABI, 8 raw bytes each.
pub fn run(
    program: &Program,
    buffers: &[InterpBuffer<'_>],
    vars: &[i64],
) -> Result<(), InterpError> {
    let code = Code::new(program, vars)?;
    if buffers.len() < program.params.len() {
        return Err(InterpError::Missing { kernel: program.name.to_string(), what: "buffers" });
    }
    for group in coordinates(&program.global) {
        run_group(program, &code, buffers, &group)?;
    }
    Ok(())
}

fn run_group(
    program: &Program,
    code: &Code,
    buffers: &[InterpBuffer<'_>],
    group: &[usize],
) -> Result<(), InterpError> {
    // Scratch begins as rubbish, so that a kernel that forgets to fill it is seen.
    let scratch = vec![Cell::new(0xA5); code.scratch_bytes];
    let around = Surroundings { code, buffers, scratch: &scratch };
    let new_item = |local: Vec<usize>| Item::new(code, group, &local);
    let mut items: Vec<Item> = coordinates(&program.local).map(new_item).collect();
    loop {
        let stops = items.iter_mut().map(|item| item.run(&around));
        let stops = stops.collect::<Result<Vec<Stop>, InterpError>>()?;
        match stops.first() {
            Some(first) if stops.iter().any(|stop| stop != first) => {
                return Err(InterpError::Divergent { kernel: program.name.to_string() });
            }
            Some(Stop::Barrier(_)) => {}
            Some(Stop::Finished) | None => return Ok(()),
        }
    }
}

/// Every coordinate of a grid, the last axis fastest; of no axes, one.
fn coordinates(sizes: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    (0..sizes.iter().product()).map(move |mut flat: usize| {
        let mut at = vec![0; sizes.len()];
        for (c, size) in at.iter_mut().zip(sizes).rev() {
            *c = flat % size;
            flat /= size;
        }
        at
    })
}
