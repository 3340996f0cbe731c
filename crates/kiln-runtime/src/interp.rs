//! The INTERP device: executes a linear program slowly and obviously. It is the oracle that every other device is
//! compared with. So it takes each op's meaning from `kiln_ir::eval`, checks every access, and optimizes nothing.
//!
//! Work-groups run one after another. The items of a group run one after another up to a barrier; when all have reached
//! it, all continue.

mod bits;
mod code;
mod counts;
mod device;
mod error;
mod item;
mod races;

pub use counts::{Counts, Neighbours, Traffic};
pub use device::InterpBackend;
pub use error::{InterpBuffer, InterpError};

use code::{Code, Step};
use counts::Counter;
use item::{Item, Stop, Surroundings};
use kiln_ir::program::Program;
use races::{Races, Visitor};
use std::cell::{Cell, RefCell};

/// Runs all of `program`: every work-group, every thread's part, the last part first. `buffers` by parameter slot; `vars` as in the CPU
/// ABI, 8 raw bytes each.
pub fn run(
    program: &Program,
    buffers: &[InterpBuffer<'_>],
    vars: &[i64],
) -> Result<(), InterpError> {
    run_all(program, buffers, vars, None)
}

/// The same, and counts what the run does to memory on a device with such neighbours.
pub fn count(
    program: &Program,
    buffers: &[InterpBuffer<'_>],
    vars: &[i64],
    neighbours: Neighbours,
) -> Result<Counts, InterpError> {
    let counter = RefCell::new(Counter::new(neighbours));
    run_all(program, buffers, vars, Some(&counter))?;
    Ok(counter.into_inner().counts())
}

fn run_all(
    program: &Program,
    buffers: &[InterpBuffer<'_>],
    vars: &[i64],
    counter: Option<&RefCell<Counter>>,
) -> Result<(), InterpError> {
    let code = Code::new(program, vars)?;
    if buffers.len() < program.params.len() {
        return Err(InterpError::Missing { kernel: program.name.to_string(), what: "buffers" });
    }
    let races = RefCell::new(Races::default());
    let is_grid = !program.global.is_empty() || !program.local.is_empty();
    // Scratch begins as rubbish, so that a kernel that forgets to fill it is seen.
    let scratch = || vec![Cell::new(0xA5); code.scratch_bytes];
    for (number, group) in coordinates(&program.global).enumerate() {
        let (races, scratch) = (is_grid.then_some(&races), scratch());
        let around = Surroundings { code: &code, buffers, scratch: &scratch, races, counter };
        run_group(program, &around, (number, &group))?;
    }
    Ok(())
}

fn run_group(
    program: &Program,
    around: &Surroundings<'_>,
    (number, group): (usize, &[usize]),
) -> Result<(), InterpError> {
    let new_item = |(item, local): (usize, Vec<usize>)| {
        Item::new(around.code, group, &local, Visitor { group: number, item, phase: 0 })
    };
    let mut items: Vec<Item> = coordinates(&program.local).enumerate().map(new_item).collect();
    loop {
        let stops = items.iter_mut().map(|item| item.run(around));
        let stops = stops.collect::<Result<Vec<Stop>, InterpError>>()?;
        match stops.first() {
            Some(first) if stops.iter().any(|stop| stop != first) => {
                return Err(InterpError::Divergent { kernel: program.name.to_string() });
            }
            Some(Stop::Barrier(_)) => {
                around.count(Counter::passes_barrier);
                items.iter_mut().for_each(|item| item.visitor.phase += 1);
            }
            Some(&Stop::Shuffle(at)) => exchange(around.code, &mut items, at)?,
            Some(Stop::Finished) | None => return Ok(()),
        }
    }
}

/// Gives each item the value that another one has, all at the same time. It orders no accesses to memory.
fn exchange(code: &Code, items: &mut [Item], at: usize) -> Result<(), InterpError> {
    let Step::Shuffle { mask, lanes, from, to } = code.steps[at] else { return Ok(()) };
    let values: Vec<_> = items.iter().map(|item| item.scalars(from, lanes)).collect();
    for (number, item) in items.iter_mut().enumerate() {
        let absent = || InterpError::Unsupported {
            kernel: code.kernel.clone(),
            at,
            what: format!(
                "a shuffle of item {number} with item {}, which does not exist",
                number ^ mask
            ),
        };
        item.take(values.get(number ^ mask).ok_or_else(absent)?, to);
    }
    Ok(())
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
