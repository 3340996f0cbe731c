//! Tests matrix units before the first use of a device. Each unit multiplies matrices that fill its registers, and the
//! result is compared with the interpreter's. If it differs, kernels do without the unit, and a warning gives the
//! reason. The outcome is noted on disk for these test programs.

use kiln_compile::optimize::{Opt, apply, collapsed};
use kiln_compile::pass::Checks;
use kiln_compile::pipeline::{compile_with, lower, schedule};
use kiln_compile::target::{Mma, Target};
use kiln_ir::arg::{RangeKind, ReduceOp};
use kiln_ir::program::Program;
use kiln_ir::{Const, DType, UOp, eval};
use kiln_runtime::Backend;
use kiln_runtime::cpu::CpuBackend;
use kiln_runtime::interp::InterpBackend;
use kiln_runtime::warnings::warn_once;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// The note if the units work; any other note is the reason why they do not.
const WORK: &str = "work";

/// The target, without matrix units that failed the test.
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
    let tried = |unit| programs(target, unit).map(|programs| (unit, programs));
    let all = target.mmas.iter().map(tried).collect::<Result<Vec<_>, _>>()?;
    let about = about(all.iter().map(|(_, [with, _])| with));
    match backend.note(&about).as_deref() {
        Some(WORK) => return Ok(()),
        Some(why) => return Err(why.to_owned()),
        None => {}
    }
    let found =
        all.iter().try_for_each(|(unit, programs)| multiplies(backend, unit.intrinsic, programs));
    backend.set_note(&about, found.as_ref().map_or_else(String::as_str, |()| WORK));
    found
}

/// The name of the note about these programs. Other programs are tested again.
fn about<'a>(programs: impl Iterator<Item = &'a Program>) -> String {
    let mut h = FxHasher::default();
    programs.for_each(|program| program.source.hash(&mut h));
    format!("matrix units {:016x}", h.finish())
}

/// Whether the product of a unit equals the interpreter's.
fn multiplies(
    backend: &dyn Backend,
    name: &str,
    [with, without]: &[Program; 2],
) -> Result<(), String> {
    if !with.has_matrices() {
        return Err(format!("{name} cannot be tried"));
    }
    let found = outcome(backend, with).map_err(|why| format!("{name}: {why}"))?;
    match found == outcome(&InterpBackend::new(), without)? {
        true => Ok(()),
        false => Err(format!("{name} gives wrong results")),
    }
}

/// A product by the unit, and by loops. Both loops over results are unrolled twice: with four results and two matrices
/// of each operand, all registers of AMX are in use.
fn programs(target: &Target, unit: &Mma) -> Result<[Program; 2], String> {
    let kernel = collapsed(&product(unit, target)?);
    let stage = |operand| Opt::Stage { operand, depth: 0, lanes: 1 };
    let twice = |axis| Opt::Split { kind: RangeKind::Upcast, axis, by: 2 };
    let dot = Opt::Dot { axis: 2, parts: unit.parts };
    let mma = Opt::Mma { axes: [0, 2, 1], by: unit.shape.map(usize::from) };
    let options = [dot, mma, twice(1), twice(0), stage(0), stage(1)];
    let with = compile_with(&kernel, target, &options)?.program;
    let plain = lower(&apply(&kernel, &[])?.ast, &Target::interp(), Checks::default());
    Ok([with, plain.map_err(|bug| bug.to_string())?])
}

/// The kernel of a product of matrices of twice the unit's sides.
fn product(unit: &Mma, target: &Target) -> Result<UOp, String> {
    let parts = DType::U32.size() / unit.parts[0].size();
    let [m, k, n] = unit.shape.map(|side| 2 * usize::from(side));
    let k = k * parts;
    let [x, y] = unit.parts;
    let x = UOp::param(0, x, [m, k].as_slice()).cast(unit.sum).reshape(&[m, 1, k][..]);
    let y = UOp::param(1, y, [k, n].as_slice()).cast(unit.sum).permute(&[1, 0][..]);
    let x = x.expand(&[m, n, k][..]);
    let y = y.reshape(&[1, n, k][..]).expand(&[m, n, k][..]);
    let root = (x * y).reduce(ReduceOp::Add, &[2][..]);
    let schedule = schedule(&[root], target, Checks::default()).map_err(|bug| bug.to_string())?;
    schedule.kernels.first().map(|k| k.ast.clone()).ok_or_else(|| "no kernel".to_owned())
}

/// The result of the program for small whole numbers, whose sums are exact in any order.
fn outcome(backend: &dyn Backend, program: &Program) -> Result<Vec<u8>, String> {
    let run = || {
        let mut buffers = Vec::new();
        for (slot, param) in program.params.iter().enumerate() {
            let buffer = backend.alloc(param.len * param.dtype.size())?;
            buffer.write(&numbers(param.dtype, param.len, slot))?;
            buffers.push(buffer);
        }
        backend.load(program)?.kernel.launch(&buffers, &[])?;
        buffers[0].to_vec()
    };
    run().map_err(|e: kiln_runtime::Error| e.to_string())
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
            let all = (0..unit.registers).map(|n| format!("(i8 {n}"));
            assert!(all.into_iter().all(|n| with.source.contains(&n)), "{}", with.source);
            let found = multiplies(&InterpBackend::new(), "unit", &[with, without]);
            assert_eq!(found, Ok(()), "{unit:?}");
        }
    }

    #[test]
    fn a_unit_with_wrong_results_is_not_used() {
        let mmas = Mma::of(|_| true);
        let target = Target { language: Language::Llvm, mmas: mmas.clone(), ..Target::interp() };
        let [[with, _], [_, without]] =
            [0, 1].map(|n| programs(&target, &mmas[n]).expect("compiles"));
        let found = multiplies(&InterpBackend::new(), "unit", &[with, without]);
        assert_eq!(found, Err("unit gives wrong results".to_owned()));
    }

    #[test]
    fn other_programs_are_tried_again() {
        let target = |cpu: &str| Target {
            language: Language::Llvm,
            cpu: cpu.to_owned(),
            mmas: Mma::of(|_| true),
            ..Target::interp()
        };
        let name = |cpu| {
            let target = target(cpu);
            let programs = |unit| programs(&target, unit).expect("compiles").into_iter().take(1);
            about(target.mmas.iter().flat_map(programs).collect::<Vec<_>>().iter())
        };
        assert_eq!(name("sapphirerapids"), name("sapphirerapids"));
        assert_ne!(name("sapphirerapids"), name("graniterapids"));
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
