//! Pass `dot` of stage `lower`: a `Dot` that the target has no instruction for becomes products and sums.
//! Post-condition: every `Dot` has an instruction.

use crate::target::Target;
use kiln_ir::uop::{reaches, rebuild, remade};
use kiln_ir::{DType, Op, UOp};

/// Replaces every `Dot` of a kind that the target lacks.
pub(super) fn without_units(kernel: &UOp, target: &Target) -> UOp {
    let lacks = |n: &UOp| n.op() == Op::Dot && !has(target, n);
    if !reaches(kernel, |_| true, lacks) {
        return kernel.clone();
    }
    remade(kernel, |node, srcs| match lacks(node) {
        true => apart(&rebuild(node, srcs), target),
        false => rebuild(node, srcs),
    })
}

fn has(target: &Target, dot: &UOp) -> bool {
    let fits = |unit: &crate::target::Dot| {
        dot.arg().parts() == Some(unit.parts)
            && (dot.dtype(), dot.lanes()) == (unit.sum, unit.lanes)
    };
    target.dots.iter().any(fits)
}

/// The products of the parts, added one after the other.
fn apart(dot: &UOp, target: &Target) -> UOp {
    let [of_x, of_y] = dot.arg().parts().expect("a dot's parts");
    let bits = of_x.bits() as i64;
    let part = |word: &UOp, of: DType, i: i64| {
        let low = if i == 0 {
            word.clone()
        } else {
            UOp::binary(Op::Shr, word, &word.const_like(i * bits))
        };
        let narrow = if bits == 16 { DType::U16 } else { DType::U8 };
        low.cast(narrow).bitcast(of).cast(dot.dtype())
    };
    (0..32 / bits).fold(dot.src(2).clone(), |sum, i| {
        let (x, y) = (part(dot.src(0), of_x, i), part(dot.src(1), of_y, i));
        match target.fma && dot.dtype().is_float() {
            true => UOp::ternary(Op::MulAdd, &x, &y, &sum),
            false => sum + x * y,
        }
    })
}
