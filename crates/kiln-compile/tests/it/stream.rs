//! Which outputs are written past the caches, and how that is spelled.

use crate::dots;
use crate::options::kernel_of;
use kiln_compile::lower::lower;
use kiln_compile::optimize::optimize;
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
    plain(&doubled((1 << 21) + 1), &target(8 << 20));
    plain(&doubled(1 << 21), &Target { vector_bytes: 32, ..target(8 << 20) });
    plain(&doubled(1 << 21), &Target { streams: false, ..target(8 << 20) });
    // lines that begin where no line of memory does
    let x = UOp::param(0, DType::F32, [1 << 11, 1027].as_slice());
    let sum = x.reduce(kiln_ir::arg::ReduceOp::Add, &[1][..]);
    plain(&(&x * sum.reshape(&[1 << 11, 1][..]).expand(x.shape().clone())), &target(8 << 20));
}
