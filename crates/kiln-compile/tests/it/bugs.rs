//! The compiler's own faults are errors that say where.

use kiln_compile::pipeline::{Bug, Settings, compile, schedule};
use kiln_compile::target::Target;
use kiln_ir::arg::{Arg, ReduceOp};
use kiln_ir::{DType, Op, UOp, text};

fn node(op: Op, dtype: DType, srcs: &[UOp]) -> UOp {
    UOp::new(op, dtype, 1, srcs.iter().cloned().collect(), Arg::None)
}

/// Something that no pass expects: a store of nothing to nowhere.
fn nonsense() -> UOp {
    node(Op::Sink, DType::Void, &[node(Op::Store, DType::Void, &[])])
}

fn bug(verify: bool) -> Bug {
    let settings = Settings { optimize: true, verify, ..Settings::default() };
    compile(&nonsense(), &Target::interp(), settings).expect_err("makes no sense")
}

#[test]
fn a_verified_graph_is_reported_before_a_pass_sees_it() {
    let bug = bug(true);
    assert_eq!(bug.pass, "schedule");
    assert!(bug.to_string().starts_with("bug in kiln: pass `schedule`: left a broken kernel: "));
    assert_eq!(bug.graph, text::print(&nonsense()));
}

#[test]
fn a_pass_that_panics_is_an_error() {
    let bug = bug(false);
    assert!(["optimize", "lower"].contains(&bug.pass), "{bug}");
    assert!(bug.to_string().contains("on the graph\n"), "{bug}");
    assert_eq!(bug.rule, None);
}

#[test]
fn roots_that_cannot_be_scheduled_are_an_error() {
    // an update that does not say where
    let x = UOp::param(0, DType::F32, [4].as_slice());
    let bug =
        schedule(&[node(Op::Update, DType::F32, &[x.clone(), x])]).expect_err("makes no sense");
    assert_eq!(bug.pass, "schedule");
}

#[test]
fn a_kernel_that_cannot_be_lowered_falls_back_to_fewer_options_then_to_none() {
    let x = UOp::param(0, DType::F32, [64, 64].as_slice());
    let y = UOp::param(1, DType::F32, [64, 64].as_slice());
    let wide = &[64, 64, 64][..];
    let product =
        x.reshape(&[64, 64, 1][..]).expand(wide) * y.reshape(&[1, 64, 64][..]).expand(wide);
    let kernel = &schedule(&[product.reduce(ReduceOp::Add, &[1][..])]).expect("is fine").kernels[0];
    let target = Target { vector_bytes: 32, vector_registers: 16, threads: 2, ..Target::interp() };
    let settings = Settings { optimize: true, verify: true, ..Settings::default() };
    let all = compile(&kernel.ast, &target, settings).expect("is fine");
    let number = all.applied.len();
    assert!(all.fallen.is_none() && number > 2, "{:?}", all.applied);
    for most in 0..number {
        let settings = Settings { most_options: Some(most), ..settings };
        let bug = compile(&kernel.ast, &target, settings).expect_err("wants more");
        assert_eq!((bug.pass, &bug.options), ("lower", &all.applied));
        let settings = Settings { fall_back: true, ..settings };
        let fewer = compile(&kernel.ast, &target, settings).expect("falls back");
        assert!(fewer.fallen.is_some_and(|bug| bug.options == all.applied));
        assert!(fewer.applied.len() <= most && all.applied.starts_with(&fewer.applied));
        assert_eq!(fewer.applied.is_empty(), most == 0, "{most} of {number}");
    }
}
