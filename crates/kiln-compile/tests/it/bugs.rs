//! The compiler's own faults are errors that say where.

use kiln_compile::pipeline::{Bug, Settings, compile, schedule};
use kiln_compile::target::Target;
use kiln_ir::arg::Arg;
use kiln_ir::{DType, Op, UOp, text};

fn node(op: Op, dtype: DType, srcs: &[UOp]) -> UOp {
    UOp::new(op, dtype, 1, srcs.iter().cloned().collect(), Arg::None)
}

/// Something that no pass expects: a store of nothing to nowhere.
fn nonsense() -> UOp {
    node(Op::Sink, DType::Void, &[node(Op::Store, DType::Void, &[])])
}

fn bug(verify: bool) -> Bug {
    let settings = Settings { optimize: true, verify };
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
