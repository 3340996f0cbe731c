//! Kinds of boxes, and their colors.

use kiln_ir::{Op, UOp};

/// What a box is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Data,
    View,
    Math,
    Reduce,
    Write,
    Copy,
    Kernel,
}

impl Kind {
    /// The kind of a node of a tensor graph.
    pub(super) fn of(node: &UOp) -> Kind {
        match node.op() {
            Op::Reduce => Kind::Reduce,
            Op::Update | Op::Store => Kind::Write,
            Op::Copy => Kind::Copy,
            op if op.is_movement() => Kind::View,
            _ if node.srcs().is_empty() => Kind::Data,
            _ => Kind::Math,
        }
    }

    /// What the legend says.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Data => "data, numbers, positions",
            Kind::View => "a view",
            Kind::Math => "arithmetic",
            Kind::Reduce => "a reduction",
            Kind::Write => "a write",
            Kind::Copy => "a copy between devices",
            Kind::Kernel => "a kernel",
        }
    }

    /// Inside and border, as on the page of `kiln viz`.
    pub(super) const fn colors(self) -> (&'static str, &'static str) {
        match self {
            Kind::Data => ("#dbeafe", "#6b9ae0"),
            Kind::View => ("#d6f2f1", "#52a9a6"),
            Kind::Math => ("#ffffff", "#b0a8a1"),
            Kind::Reduce | Kind::Kernel => ("#ffe6c7", "#dd9a3f"),
            Kind::Write => ("#d5f3df", "#55ac76"),
            Kind::Copy => ("#fbdcea", "#d0709f"),
        }
    }
}
