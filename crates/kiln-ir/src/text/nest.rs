//! Kernels as loop nests for people: each loop around what it repeats, each statement where its operands are known.

use super::expr::expr_with;
use crate::arg::{RangeKind, ReduceOp};
use crate::op::Op;
use crate::scope::Ranges;
use crate::uop::{UOp, axis_of, toposort};
use rustc_hash::FxHashMap;

/// A loop, or a statement inside of loops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NestLine {
    /// How many loops are around it.
    pub depth: usize,
    /// What kind of loop it is; none for a statement.
    pub kind: Option<RangeKind>,
    /// `r0 in 0..64`, or `p0[r0] = acc0 + 1.0`.
    pub text: String,
}

/// A loop with what is inside of it, or a statement.
enum Part {
    Loop(UOp, Vec<Part>),
    Statement(String),
}

/// The loops and statements of a kernel (spec `KERNEL`), outermost first. A reduction is a statement `acc0 += ..` inside of
/// its loops.
pub fn nest(kernel: &UOp) -> Vec<NestLine> {
    let nodes = toposort(kernel);
    let ranges = Ranges::among(&nodes);
    let mut accumulators: FxHashMap<usize, usize> = FxHashMap::default();
    let mut top: Vec<Part> = Vec::new();
    for node in nodes.iter().filter(|n| matches!(n.op(), Op::Reduce | Op::Store)) {
        let mut loops: Vec<UOp> = ranges.of(node.scope()).cloned().collect();
        if node.op() == Op::Reduce {
            let closed = node.srcs()[1..].iter().filter(|n| n.op() == Op::Range);
            let mut closed: Vec<UOp> = closed.cloned().collect();
            closed.sort_by_key(axis_of);
            loops.extend(closed);
            accumulators.insert(node.id(), accumulators.len());
        }
        let text = statement(node, &accumulators);
        inside(&mut top, &loops).push(Part::Statement(text));
    }
    let mut lines = Vec::new();
    flatten(top, &mut lines);
    lines
}

/// The lines inside of these loops. Missing loops are made.
fn inside<'a>(mut parts: &'a mut Vec<Part>, loops: &[UOp]) -> &'a mut Vec<Part> {
    for range in loops {
        let is_it = |part: &Part| matches!(part, Part::Loop(other, _) if other == range);
        let at = parts.iter().position(is_it).unwrap_or_else(|| {
            parts.push(Part::Loop(range.clone(), Vec::new()));
            parts.len() - 1
        });
        match &mut parts[at] {
            Part::Loop(_, inner) => parts = inner,
            Part::Statement(_) => unreachable!("it is a loop"),
        }
    }
    parts
}

/// A line each. Loops are as deep as axes are many, but the walk does not recurse.
fn flatten(top: Vec<Part>, lines: &mut Vec<NestLine>) {
    let mut stack: Vec<(usize, Part)> = top.into_iter().rev().map(|part| (0, part)).collect();
    while let Some((depth, part)) = stack.pop() {
        match part {
            Part::Statement(text) => lines.push(NestLine { depth, kind: None, text }),
            Part::Loop(range, inner) => {
                let kind = range.arg().range().map(|(_, kind)| kind);
                let count = range.srcs().first().map(|n| expr_with(n, &|_| None));
                let count = count.unwrap_or_default();
                let text = format!("r{} in 0..{count}", axis_of(&range));
                lines.push(NestLine { depth, kind, text });
                stack.extend(inner.into_iter().rev().map(|part| (depth + 1, part)));
            }
        }
    }
}

/// What a store or a reduction does.
fn statement(node: &UOp, accumulators: &FxHashMap<usize, usize>) -> String {
    let name = |n: &UOp| accumulators.get(&n.id()).map(|number| format!("acc{number}"));
    let text = |n: &UOp| expr_with(n, &|other| name(other).filter(|_| other != node));
    if node.op() == Op::Reduce {
        let (own, value) = (name(node).unwrap_or_default(), text(node.src(0)));
        return match node.arg().reduce_op() {
            Some(ReduceOp::Add) => format!("{own} += {value}"),
            Some(ReduceOp::Mul) => format!("{own} *= {value}"),
            Some(op) => format!("{own} = {}({own}, {value})", op.name()),
            None => format!("{own} = {value}"),
        };
    }
    let (memory, index, value) = (text(node.src(0)), text(node.src(1)), text(node.src(2)));
    let gate = node.srcs().get(3).map_or_else(String::new, |gate| format!(" if {}", text(gate)));
    format!("{memory}[{index}] = {value}{gate}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse;

    fn drawn(text: &str) -> Vec<String> {
        let kernel = parse(text).expect("parses");
        let line = |l: NestLine| {
            let kind = l.kind.map_or_else(String::new, |kind| format!(" ({})", kind.name()));
            format!("{}{}{kind}", "  ".repeat(l.depth), l.text)
        };
        nest(&kernel).into_iter().map(line).collect()
    }

    #[test]
    fn a_sum_of_rows_has_two_loops() {
        let lines = drawn(
            "%out = param f32 slot=0 [8]
%x = param f32 slot=1 [32]
%i = range index axis=0 loop 8
%k = range index axis=1 reduce 4
%start = mul index %i 4
%at = add index %start %k
%v = load f32 %x %at
%sum = reduce f32 add %v %k
%s = store %out %i %sum
%e = end %s %i
sink name=r_8_4 %e",
        );
        let expected = [
            "r0 in 0..8 (loop)",
            "  r1 in 0..4 (reduce)",
            "    acc0 += p1[r0*4 + r1]",
            "  p0[r0] = acc0",
        ];
        assert_eq!(lines, expected);
    }
}
