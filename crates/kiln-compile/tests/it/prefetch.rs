//! Which loads fetch the next row along the way.

use crate::options::kernel_of;
use crate::stages::{lower, optimize};
use kiln_compile::render::render;
use kiln_compile::target::{Costs, Language, Target};
use kiln_ir::arg::ReduceOp;
use kiln_ir::{DType, Op, UOp, spec};

const ROWS: usize = 1 << 10;

fn target(language: Language) -> Target {
    Target {
        costs: Costs::CPU,
        language,
        vector_bytes: 64,
        vector_registers: 32,
        masks: true,
        threads: 2,
        cache_bytes: [32 << 10, 512 << 10, 8 << 20],
        groups: false,
        ..Target::interp()
    }
}

/// The text of the only kernel of `root`, and how many elements ahead its loads fetch.
fn compiled(root: &UOp, language: Language) -> (String, Vec<usize>) {
    let target = target(language);
    let program = lower(&optimize(&kernel_of(root), &target, true).ast, &target);
    spec::verify_program(&program.ops).expect("a program");
    let ahead = program.ops.iter().filter_map(|op| op.arg().prefetch()).collect();
    (render(&program, &target), ahead)
}

/// The sum over rows of `f` of the distance to the row's maximum.
fn sums(columns: usize, f: impl Fn(&UOp) -> UOp) -> UOp {
    let x = UOp::param(0, DType::F32, [ROWS, columns].as_slice());
    let max = x.reduce(ReduceOp::Max, &[1][..]).reshape(&[ROWS, 1][..]);
    f(&(&x - max.expand(x.shape().clone()))).reduce(ReduceOp::Add, &[1][..])
}

fn exp(x: &UOp) -> UOp {
    UOp::unary(Op::Exp, x)
}

#[test]
fn what_a_second_loop_over_rows_computes_with_is_fetched_a_row_ahead() {
    let (text, ahead) = compiled(&sums(4096, exp), Language::Llvm);
    assert!(!ahead.is_empty() && ahead.iter().all(|&n| n == 4096), "{ahead:?}");
    assert_eq!(text.matches("call void @llvm.prefetch.p0").count(), ahead.len(), "{text}");
    let (text, ahead) = compiled(&sums(4096, exp), Language::C);
    // as an integer: C knows no pointer that far past the end
    assert_eq!(text.matches("+4096)*4), 0, 2);").count(), ahead.len(), "{text}");
    // a row of no whole number of vectors
    assert_eq!(compiled(&sums(4095, exp), Language::Llvm).1, [4095]);
}

#[test]
fn nothing_else_is() {
    let none = |root: &UOp| assert_eq!(compiled(root, Language::Llvm).1, [0; 0]);
    // little to compute, one loop, rows that do not stay in the second cache
    none(&sums(4096, UOp::clone));
    none(&exp(&UOp::param(0, DType::F32, [ROWS, 4096].as_slice())));
    none(&sums(1 << 16, exp));
}
