//! A kernel for groups that is written by hand: the tiled product of matrices of the CUDA C++ Programming Guide (Shared Memory),
//! extended by a tile of outputs for each item.

use kiln_ir::arg::{RangeKind, ReduceOp, Space};
use kiln_ir::uop::Srcs;
use kiln_ir::{Arg, DType, Op, UOp};

/// Rows and columns of a group's block of outputs, and of an item's tile; terms of the panels.
const BLOCK: usize = 64;
const TILE: usize = 4;
const TERMS: usize = 16;
/// Items along a side of the block, and all of them.
const SIDE: usize = BLOCK / TILE;
const ITEMS: usize = SIDE * SIDE;

/// The loops; of two, the first goes along rows.
struct Loops {
    n: usize,
    groups: [UOp; 2],
    items: [UOp; 2],
    tile: [UOp; 2],
    step: UOp,
    term: UOp,
}

/// `[n, n] x [n, n]`. A group shares `a[row][term]` and `b[term][column]`.
pub(crate) fn product(n: usize) -> UOp {
    let range = |axis, kind, size| UOp::range(axis, kind, size);
    Loops {
        n,
        groups: [0, 1].map(|axis| range(axis, RangeKind::Global, n.div_ceil(BLOCK))),
        items: [2, 3].map(|axis| range(axis, RangeKind::Local, SIDE)),
        tile: [8, 9].map(|axis| range(axis, RangeKind::Upcast, TILE)),
        step: range(4, RangeKind::Reduce, n.div_ceil(TERMS)),
        term: range(5, RangeKind::Reduce, TERMS),
    }
    .kernel()
}

impl Loops {
    fn kernel(self) -> UOp {
        let [a, b] = self.panels();
        let product = a * b;
        let result = product.reduce_ranges(ReduceOp::Add, [self.step.clone(), self.term.clone()]);
        let [row, column] = [0, 1].map(|side| &self.groups[side] * BLOCK as i64 + self.place(side));
        let (at, inside) = self.element(&row, &column);
        let store = UOp::store(&self.matrix(0), &at, &result, Some(&inside));
        UOp::kernel([store.end([self.groups, self.items, self.tile].concat())], "by_hand")
    }

    /// What an item reads of both panels, after all items have filled them.
    fn panels(&self) -> [UOp; 2] {
        let again = [&self.groups[..], &self.items, std::slice::from_ref(&self.step)].concat();
        let free = barrier(again);
        let fill_a = self.fill(0, &free, TERMS, |row, term| {
            (&self.groups[0] * BLOCK as i64 + row, &self.step * TERMS as i64 + term)
        });
        let fill_b = self.fill(1, &free, BLOCK, |term, column| {
            (&self.step * TERMS as i64 + term, &self.groups[1] * BLOCK as i64 + column)
        });
        let filled = barrier(vec![fill_a, fill_b]);
        let places =
            [self.place(0) * TERMS as i64 + &self.term, &self.term * BLOCK as i64 + self.place(1)];
        [0, 1].map(|id| UOp::load(&panel(id).after([filled.clone()]), &places[id as usize]))
    }

    /// The items copy a panel in rows of so many columns, from where the matrix has them.
    fn fill(
        &self,
        id: u32,
        free: &UOp,
        columns: usize,
        from: impl Fn(UOp, UOp) -> (UOp, UOp),
    ) -> UOp {
        let copy = UOp::range(6 + id, RangeKind::Loop, BLOCK * TERMS / ITEMS);
        let item = &self.items[0] * SIDE as i64 + &self.items[1];
        let at = &copy * ITEMS as i64 + item;
        let columns = UOp::index(columns as i64);
        let (row, column) = from(at.floordiv(&columns), at.floormod(&columns));
        let (element, inside) = self.element(&row, &column);
        let value = UOp::load_lanes(&self.matrix(1 + id as usize), &element, Some(&inside), 1);
        UOp::store(&panel(id).after([free.clone()]), &at, &value, None).end([copy])
    }

    /// Row or column of an output in its block: those of an item are as far apart as there are items along the side.
    fn place(&self, side: usize) -> UOp {
        &self.tile[side] * SIDE as i64 + &self.items[side]
    }

    fn matrix(&self, slot: usize) -> UOp {
        UOp::param(slot, DType::F32, [self.n * self.n].as_slice())
    }

    /// Where an element of a matrix is, and whether it has that row and column.
    fn element(&self, row: &UOp, column: &UOp) -> (UOp, UOp) {
        let n = UOp::index(self.n as i64);
        (row * self.n as i64 + column, row.lt(&n).and(&column.lt(&n)))
    }
}

fn panel(id: u32) -> UOp {
    UOp::local(Space::Scratch, id, BLOCK * TERMS, DType::F32, 1)
}

fn barrier(after: Vec<UOp>) -> UOp {
    UOp::new(Op::Barrier, DType::Void, 1, Srcs::from(after), Arg::None)
}
