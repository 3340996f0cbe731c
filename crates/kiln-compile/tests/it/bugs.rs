//! The compiler's own faults are errors that say where.

use crate::stages::{CHECKED, schedule};
use kiln_compile::pass::Checks;
use kiln_compile::passes;
use kiln_compile::pipeline::{self, Bug, Settings, compile};
use kiln_compile::schedule::ScheduledKernel;
use kiln_compile::target::Target;
use kiln_ir::arg::{Arg, PadAxis, ReduceOp};
use kiln_ir::observe::{self, Kind, Log, Observer, Seen};
use kiln_ir::{DType, Op, UOp, text};
use std::sync::Arc;

fn node(op: Op, dtype: DType, srcs: &[UOp]) -> UOp {
    UOp::new(op, dtype, 1, srcs.iter().cloned().collect(), Arg::None)
}

/// Something that no pass expects: a store of nothing to nowhere.
fn nonsense() -> UOp {
    node(Op::Sink, DType::Void, &[node(Op::Store, DType::Void, &[])])
}

fn bug(verify: bool) -> Bug {
    let checks = Checks { verify, spoiled: None };
    let settings = Settings { optimize: true, checks, ..Settings::default() };
    compile(&nonsense(), &Target::interp(), settings).expect_err("makes no sense")
}

#[test]
fn a_verified_graph_is_reported_before_a_pass_sees_it() {
    let bug = bug(true);
    assert_eq!(bug.pass, "schedule");
    assert!(bug.to_string().starts_with("bug in kiln: pass `schedule`: left a broken graph: "));
    assert_eq!(bug.graph, text::print(&nonsense()));
}

#[test]
fn a_pass_that_panics_is_an_error() {
    let bug = bug(false);
    let passes = passes::listed();
    let mut passes = passes.iter().flat_map(|stage| &stage.passes);
    assert!(passes.any(|(pass, _)| *pass == bug.pass), "{bug}");
    assert!(bug.to_string().contains("on the graph\n"), "{bug}");
    assert_eq!(bug.rule, None);
}

#[test]
fn roots_that_cannot_be_scheduled_are_an_error() {
    // an update that does not say where
    let x = UOp::param(0, DType::F32, [4].as_slice());
    let root = node(Op::Update, DType::F32, &[x.clone(), x]);
    let bug =
        pipeline::schedule(&[root], &target(), Checks::default()).expect_err("makes no sense");
    assert_eq!(bug.pass, "assign");
}

/// Of matrices of 64 x 64.
fn product() -> UOp {
    let x = UOp::param(0, DType::F32, [64, 64].as_slice());
    let y = UOp::param(1, DType::F32, [64, 64].as_slice());
    let wide = &[64, 64, 64][..];
    let product =
        x.reshape(&[64, 64, 1][..]).expand(wide) * y.reshape(&[1, 64, 64][..]).expand(wide);
    product.reduce(ReduceOp::Add, &[1][..])
}

fn target() -> Target {
    Target { vector_bytes: 32, vector_registers: 16, threads: 2, ..Target::interp() }
}

/// Each pass of each stage leaves a bad node, and is named; also without anything wrong, nothing is.
#[test]
fn a_pass_that_breaks_its_spec_is_named() {
    let compiled = |checks: Checks| {
        let schedule = pipeline::schedule(&[product()], &target(), checks)?;
        let settings = Settings { optimize: true, checks, ..Settings::default() };
        compile(&schedule.kernels[0].ast, &target(), settings)
    };
    compiled(CHECKED).expect("nothing is wrong");
    for stage in passes::listed() {
        for (pass, leaves) in stage.passes {
            let bug = compiled(Checks { spoiled: Some(pass), ..CHECKED }).expect_err(pass);
            assert_eq!(bug.pass, pass, "{bug}");
            assert!(bug.what.starts_with("left a broken graph: ") && !leaves.is_empty(), "{bug}");
        }
    }
}

#[test]
fn what_an_observer_sees_replays_to_the_same_graphs() {
    let log = Arc::new(Log::default());
    let observer: Arc<dyn Observer> = log.clone();
    let compiled = observe::with(Some(observer), || {
        let x = UOp::param(2, DType::F32, [30, 30].as_slice());
        let pads = [PadAxis { before: 1, between: 0, after: 2 }, PadAxis::default()];
        let x = x.pad(&pads);
        let largest = x.reduce(ReduceOp::Max, &[1][..]).reshape(&[33, 1][..]);
        let below = &x - largest.expand(&[33, 30][..]);
        let schedule = schedule(&[product(), below]);
        let settings = Settings { optimize: true, checks: CHECKED, ..Settings::default() };
        let compile = |k: &ScheduledKernel| compile(&k.ast, &target(), settings).expect("is fine");
        schedule.kernels.iter().map(compile).collect::<Vec<_>>()
    });
    let replay = log.replay().expect("rewrites give the graphs that were seen");
    assert!(replay.sets > 10 && replay.rewrites > 20, "{replay:?}");
    let log = log.seen();
    // one pass goes on from what the one before has left
    let passes = log.iter().filter_map(|seen| match seen {
        Seen::Pass { name, before, after } => Some((*name, before, after)),
        _ => None,
    });
    let passes = passes.collect::<Vec<_>>();
    for (stage, goes_on) in [("collapse", "trim"), ("mma", "index")] {
        let first = passes.iter().position(|p| p.0 == stage).expect("was seen");
        let last = first + passes[first..].iter().position(|p| p.0 == goes_on).expect("was seen");
        for pair in passes[first..=last].windows(2) {
            assert_eq!(pair[0].2, pair[1].1, "from {} to {}", pair[0].0, pair[1].0);
        }
    }
    let last = passes.iter().rev().find(|p| p.0 == "render").expect("was seen");
    assert_eq!(*last.2, compiled[compiled.len() - 1].program.ops);
    assert!(log.iter().any(|seen| matches!(seen, Seen::Decision(text) if text.contains("inline"))));
    assert!(!observe::is_wanted(Kind::Steps));
}

#[test]
fn a_kernel_that_cannot_be_lowered_falls_back_to_fewer_options_then_to_none() {
    let (kernel, target) = (&schedule(&[product()]).kernels[0], target());
    let settings = Settings { optimize: true, checks: CHECKED, ..Settings::default() };
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
