//! Kinds of boxes, and their colors.

use kiln_ir::{Op, UOp};

/// What a box is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BoxKind {
    Data,
    View,
    Math,
    Reduce,
    Write,
    Copy,
    Kernel,
}

impl BoxKind {
    /// The kind of a node of a tensor graph.
    pub(super) fn of(node: &UOp) -> BoxKind {
        match node.op() {
            Op::Reduce => BoxKind::Reduce,
            Op::Update | Op::Store => BoxKind::Write,
            Op::Copy => BoxKind::Copy,
            op if op.is_movement() => BoxKind::View,
            _ if node.srcs().is_empty() => BoxKind::Data,
            _ => BoxKind::Math,
        }
    }

    /// What the legend says.
    pub(super) const fn name(self) -> &'static str {
        match self {
            BoxKind::Data => "data, numbers, positions",
            BoxKind::View => "a view",
            BoxKind::Math => "arithmetic",
            BoxKind::Reduce => "a reduction",
            BoxKind::Write => "a write",
            BoxKind::Copy => "a copy between devices",
            BoxKind::Kernel => "a kernel",
        }
    }

    /// Inside and border, as on the page of `kiln viz`.
    pub(super) const fn colors(self) -> (&'static str, &'static str) {
        match self {
            BoxKind::Data => ("#dbeafe", "#6b9ae0"),
            BoxKind::View => ("#d6f2f1", "#52a9a6"),
            BoxKind::Math => ("#ffffff", "#b0a8a1"),
            BoxKind::Reduce | BoxKind::Kernel => ("#ffe6c7", "#dd9a3f"),
            BoxKind::Write => ("#d5f3df", "#55ac76"),
            BoxKind::Copy => ("#fbdcea", "#d0709f"),
        }
    }
}
