//! Scalar expressions in infix form, for messages and tests: `r0*4 + r1`.

use crate::arg::{Arg, Space};
use crate::dtype::Const;
use crate::op::Op;
use crate::uop::UOp;

/// Expressions are shared graphs and their spelled-out form can be exponentially longer; this much is enough to read.
const MAX_LENGTH: usize = 4000;

/// What is still to be written.
enum Piece<'a> {
    /// A node, in a place that binds as tightly as the number says.
    Node(&'a UOp, u8),
    Text(String),
}

/// The expression in infix form with as few parentheses as Rust would need: `r0` is the range of axis 0, `v0` the
/// variable and `p0` the parameter of slot 0. Not parsed back; cut with `...` where it is very long.
pub fn expr(node: &UOp) -> String {
    expr_with(node, &|_| None)
}

/// The same, with names in the place of some nodes.
pub(super) fn expr_with(node: &UOp, name: &dyn Fn(&UOp) -> Option<String>) -> String {
    let mut out = String::new();
    let mut todo = vec![Piece::Node(node, 0)];
    while let Some(piece) = todo.pop() {
        match piece {
            Piece::Text(text) => out += &text,
            Piece::Node(node, tightness) => {
                if let Some(name) = name(node) {
                    out += &name;
                    continue;
                }
                let mut pieces = Vec::new();
                spell(node, tightness, &mut pieces);
                todo.extend(pieces.into_iter().rev());
            }
        }
        if out.len() > MAX_LENGTH {
            return out + "...";
        }
    }
    out
}

/// Rust's spelling of a binary op and how tightly it binds.
fn infix(op: Op) -> Option<(&'static str, u8)> {
    Some(match op {
        Op::CmpLt => (" < ", 1),
        Op::CmpEq => (" == ", 1),
        Op::CmpNe => (" != ", 1),
        Op::Or => (" | ", 2),
        Op::Xor => (" ^ ", 3),
        Op::And => (" & ", 4),
        Op::Shl => (" << ", 5),
        Op::Shr => (" >> ", 5),
        Op::Add => (" + ", 6),
        Op::Sub => (" - ", 6),
        Op::Mul => ("*", 7),
        Op::Div => ("/", 7),
        Op::FloorDiv => ("//", 7),
        Op::FloorMod => ("%", 7),
        _ => return None,
    })
}

const UNARY: u8 = 8;

fn spell<'a>(node: &'a UOp, tightness: u8, out: &mut Vec<Piece<'a>>) {
    let srcs = node.srcs();
    let text = |t: &str| Piece::Text(t.to_string());
    match (node.op(), node.arg(), srcs) {
        (Op::Const, Arg::Const(c), _) => out.push(Piece::Text(c.to_string())),
        (Op::Range, Arg::Range { axis, .. }, _) => out.push(Piece::Text(format!("r{axis}"))),
        (Op::Var, Arg::Var { slot, .. }, _) => out.push(Piece::Text(format!("v{slot}"))),
        (Op::Param, Arg::Param { slot, .. }, _) => out.push(Piece::Text(format!("p{slot}"))),
        (Op::Local, Arg::Memory { space: Space::Scratch, id, .. }, _) => {
            out.push(Piece::Text(format!("scratch{id}")));
        }
        (Op::Local, Arg::Memory { space: Space::Register, id, .. }, _) => {
            out.push(Piece::Text(format!("reg{id}")));
        }
        (Op::After, _, [x, ..]) | (Op::Splat, _, [x]) => out.push(Piece::Node(x, tightness)),
        (Op::Load, _, [memory, index, gate @ ..]) => {
            out.extend([Piece::Node(memory, UNARY), text("["), Piece::Node(index, 0)]);
            for gate in gate {
                out.extend([text(" if "), Piece::Node(gate, 0)]);
            }
            out.push(text("]"));
        }
        (Op::Lane, Arg::Lane(i), [x]) => {
            out.extend([Piece::Node(x, UNARY), Piece::Text(format!(".{i}"))]);
        }
        (Op::Neg, _, [x]) => out.extend([text("-"), Piece::Node(x, UNARY)]),
        (Op::Not, _, [x]) => out.extend([text("!"), Piece::Node(x, UNARY)]),
        (Op::Cast, _, [x]) => call(node.dtype().name(), std::slice::from_ref(x), out),
        (op, _, [a, b]) => match infix(op) {
            Some((sign, own)) => binary(sign, own, [a, b], own <= tightness, out),
            None => call(op.name(), srcs, out),
        },
        (op, ..) => call(op.name(), srcs, out),
    }
}

/// `tightness` of the place is the binding strength of what stands beside it; the left operand may bind equally.
fn binary<'a>(sign: &str, own: u8, [a, b]: [&'a UOp; 2], wrap: bool, out: &mut Vec<Piece<'a>>) {
    if wrap {
        out.push(Piece::Text("(".to_string()));
    }
    out.push(Piece::Node(a, own.saturating_sub(if own == 1 { 0 } else { 1 })));
    match b.as_const() {
        Some(Const::Int(i)) if i < 0 && sign == " + " => {
            out.push(Piece::Text(format!(" - {}", i.unsigned_abs())));
        }
        _ => out.extend([Piece::Text(sign.to_string()), Piece::Node(b, own)]),
    }
    if wrap {
        out.push(Piece::Text(")".to_string()));
    }
}

fn call<'a>(name: &str, srcs: &'a [UOp], out: &mut Vec<Piece<'a>>) {
    out.push(Piece::Text(format!("{name}(")));
    for (i, src) in srcs.iter().enumerate() {
        out.extend([Piece::Text(if i > 0 { ", " } else { "" }.to_string()), Piece::Node(src, 0)]);
    }
    out.push(Piece::Text(")".to_string()));
}
