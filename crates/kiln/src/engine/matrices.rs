//! Whether matrix units may be used, and do what they should: before a device is used that has some, each multiplies
//! two small matrices. Where that goes wrong kernels do without, and a warning says why. What was found is noted on disk.

use kiln_compile::lower::lower;
use kiln_compile::optimize::{Opt, apply, collapsed};
use kiln_compile::pipeline::{compile_with, schedule};
use kiln_compile::target::{Mma, Target};
use kiln_ir::arg::ReduceOp;
use kiln_ir::program::Program;
use kiln_ir::{Const, DType, UOp, eval};
use kiln_runtime::Backend;
use kiln_runtime::cpu::CpuBackend;
use kiln_runtime::interp::InterpBackend;
use kiln_runtime::warnings::warn_once;

/// What is noted, and where.
const ABOUT: &str = "matrix units";
const WORK: &str = "work";
const TRYING: &str = "trying";

/// The target, without matrix units that are of no use.
pub(super) fn checked(backend: &CpuBackend, mut target: Target) -> Target {
    if !target.mmas.is_empty()
        && let Err(why) = check(backend, &target)
    {
        warn_once(format!("matrix units are not used: {why}"));
        target.mmas.clear();
    }
    target
}

fn check(backend: &CpuBackend, target: &Target) -> Result<(), String> {
    backend.allow_matrices().map_err(|e| e.to_string())?;
    match backend.note(ABOUT).as_deref() {
        Some(WORK) => return Ok(()),
        // a process that tried them before did not get to the end
        Some(TRYING) => return Err("they ended a process".to_owned()),
        _ => backend.set_note(ABOUT, TRYING),
    }
    target.mmas.iter().try_for_each(|unit| multiplies(backend, target, unit))?;
    backend.set_note(ABOUT, WORK);
    Ok(())
}

/// Whether a product of the unit's size is what the interpreter says it is.
fn multiplies(backend: &CpuBackend, target: &Target, unit: &Mma) -> Result<(), String> {
    let [with, without] = programs(target, unit)?;
    if !with.has_matrices() {
        return Err(format!("{} cannot be tried", unit.intrinsic));
    }
    match outcome(backend, &with)? == outcome(&InterpBackend::new(), &without)? {
        true => Ok(()),
        false => Err(format!("{} gives wrong results", unit.intrinsic)),
    }
}

/// A product by the unit, and by loops.
fn programs(target: &Target, unit: &Mma) -> Result<[Program; 2], String> {
    let kernel = collapsed(&product(unit)?);
    let stage = |operand| Opt::Stage { operand, depth: 0, lanes: 1 };
    let dot = Opt::Dot { axis: 2, parts: unit.parts };
    let mma = Opt::Mma { axes: [0, 2, 1], by: unit.shape.map(usize::from) };
    let with = compile_with(&kernel, target, &[dot, mma, stage(0), stage(1)])?.program;
    Ok([with, lower(&apply(&kernel, &[])?.ast, &Target::interp())])
}

/// The kernel of a matrix product that fills the unit's registers.
fn product(unit: &Mma) -> Result<UOp, String> {
    let parts = DType::U32.size() / unit.parts[0].size();
    let [m, k, n] = unit.shape.map(usize::from);
    let k = k * parts;
    let [x, y] = unit.parts;
    let x = UOp::param(0, x, [m, k].as_slice()).cast(unit.sum).reshape(&[m, 1, k][..]);
    let y = UOp::param(1, y, [k, n].as_slice()).cast(unit.sum).permute(&[1, 0][..]);
    let x = x.expand(&[m, n, k][..]);
    let y = y.reshape(&[1, n, k][..]).expand(&[m, n, k][..]);
    let root = (x * y).reduce(ReduceOp::Add, &[2][..]);
    let schedule = schedule(&[root]).map_err(|bug| bug.to_string())?;
    schedule.kernels.first().map(|k| k.ast.clone()).ok_or_else(|| "no kernel".to_owned())
}

/// What the program leaves, from small whole numbers, whose sums no order rounds.
fn outcome(backend: &dyn Backend, program: &Program) -> Result<Vec<u8>, String> {
    let failed = |e: kiln_runtime::Error| e.to_string();
    let mut buffers = Vec::new();
    for (slot, param) in program.params.iter().enumerate() {
        let buffer = backend.alloc(param.len * param.dtype.size()).map_err(failed)?;
        buffer.write(&numbers(param.dtype, param.len, slot)).map_err(failed)?;
        buffers.push(buffer);
    }
    let kernel = backend.load(program).map_err(failed)?.kernel;
    kernel.launch(&buffers, &[]).map_err(failed)?;
    buffers[0].to_vec().map_err(failed)
}

fn numbers(dtype: DType, len: usize, slot: usize) -> Vec<u8> {
    let least = if dtype.is_float() || dtype == DType::I8 { 6 } else { 0 };
    let number = |i: usize| Const::Int((i * (5 + 2 * slot) % 13) as i64 - least).cast(dtype);
    let bytes = |i| eval::to_bits(number(i), dtype).to_le_bytes().into_iter().take(dtype.size());
    (0..len).flat_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_compile::target::Language;
    use kiln_runtime::cpu::config::CpuConfig;
    use kiln_runtime::cpu::{Rung, open};

    #[test]
    fn each_unit_is_tried_and_the_right_results_are_known() {
        let mmas = Mma::of(|_| true);
        let target = Target { language: Language::Llvm, mmas: mmas.clone(), ..Target::interp() };
        for unit in mmas {
            let [with, without] = programs(&target, &unit).expect("compiles");
            assert!(with.has_matrices() && with.source.contains(unit.intrinsic), "{unit:?}");
            let [with, without] = [with, without].map(|p| outcome(&InterpBackend::new(), &p));
            assert_eq!(with.expect("runs"), without.expect("runs"), "{unit:?}");
        }
    }
    #[test]
    fn units_that_this_process_may_not_use_are_taken_away() {
        let Ok(backend) = open(&CpuConfig::from_env(), Some(Rung::Llvm)) else { return };
        let cpu = "sapphirerapids".to_owned();
        let (language, mmas) = (Language::Llvm, Mma::of(|_| true));
        let target = checked(&backend, Target { language, cpu, mmas, ..Target::interp() });
        assert_eq!(target.mmas.is_empty(), backend.allow_matrices().is_err());
    }
}
