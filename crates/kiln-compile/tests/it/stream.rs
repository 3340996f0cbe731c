//! Which outputs are written past the caches, and how that is spelled.

use crate::dots;
use crate::options::kernel_of;
use crate::stages::{lower, optimize};
use kiln_compile::render::render;
use kiln_compile::target::Target;
use kiln_ir::{DType, UOp};

/// Vectors of a line, and a last cache of `cache` bytes.
fn target(cache: usize) -> Target {
    let cache_bytes = [32 << 10, 512 << 10, cache];
    Target { cache_bytes, streams: true, ..dots::target(false) }
}

/// Whether the only kernel of `root` streams what it writes, and its text.
fn compiled(root: &UOp, target: &Target) -> (bool, String) {
    let program = lower(&optimize(&kernel_of(root), target, true).ast, target);
    assert!(program.params[1..].iter().all(|p| !p.streamed), "what is read");
    (program.params[0].streamed, render(&program, target))
}

fn doubled(n: usize) -> UOp {
    let x = UOp::param(0, DType::F32, [n].as_slice());
    &x + &x
}

#[test]
fn large_outputs_in_whole_lines_are_streamed() {
    let (streamed, text) = compiled(&doubled(1 << 21), &target(8 << 20));
    assert!(streamed);
    assert!(text.contains("align 64, !nontemporal !0\n"), "{text}");
    assert!(text.contains("fence seq_cst\n  ret void"), "{text}");
    assert!(text.ends_with("!0 = !{i32 1}\n"), "{text}");
}

#[test]
fn others_are_not() {
    let plain = |root: &UOp, target: &Target| {
        let (streamed, text) = compiled(root, target);
        assert!(!streamed && !text.contains("nontemporal") && !text.contains("fence"), "{text}");
    };
    // it fits the last cache, or parts of lines are written, or nothing can be streamed
    plain(&doubled(1 << 21), &target(9 << 20));
    plain(&doubled(1 << 21), &Target { vector_bytes: 32, ..target(8 << 20) });
    plain(&doubled(1 << 21), &Target { streams: false, ..target(8 << 20) });
    // lines that begin where no line of memory does, in rows too short for loops of whole lines and their ends
    plain(&with_sums(1 << 14, 131), &target(8 << 20));
}

/// Every element with its row's sum.
fn with_sums(rows: usize, columns: usize) -> UOp {
    let x = UOp::param(0, DType::F32, [rows, columns].as_slice());
    let sum = x.reduce(kiln_ir::arg::ReduceOp::Add, &[1][..]);
    &x * sum.reshape(&[rows, 1][..]).expand(x.shape().clone())
}

#[test]
fn rows_that_begin_where_no_line_does_are_but_for_their_ends() {
    let target = Target { masks: true, ..target(8 << 20) };
    // one row with a ragged end. Threads share it in blocks, and the last block has the end
    for threads in [1, 2] {
        let target = Target { threads, ..target.clone() };
        let (streamed, text) = compiled(&doubled((1 << 21) + 1), &target);
        assert!(streamed, "{threads}: {text}");
    }
    let (streamed, text) = compiled(&with_sums(1 << 11, 1027), &target);
    assert!(streamed);
    let stores = |how: &str| text.lines().filter(|l| l.contains(how)).count();
    assert_eq!(stores("!nontemporal !0"), 1, "{text}");
    assert_eq!(stores("call void @llvm.masked.store"), 1, "{text}");
}
