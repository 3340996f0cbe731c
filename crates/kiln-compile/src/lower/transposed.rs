//! Part of pass `adjacent`: vectors across rows. Of rows `<a0, a1, a2, a3>`, `<b0, ..>`, `<c0, ..>`, and so on, it makes
//! `<a0, b0, c0, ..>`, the first column.
//!
//! A processor picks the lanes of a new vector from two others at a time, fastest within pieces of four. So two steps
//! transpose four rows: of `a` and `b` comes `<a0, b0, a1, b1>`, of `c` and `d` comes `<c0, d0, c1, d1>`, and of these
//! `<a0, b0, c0, d0>` and `<a1, b1, c1, d1>`. Of 16 rows, four fill a vector before these steps (rows 0, 4, 8 and 12;
//! 1, 5, 9 and 13; ..), which then transpose four squares at once. Columns share the steps: their nodes are the same.

use kiln_ir::uop::Srcs;
use kiln_ir::{Arg, Op, UOp};
use smallvec::smallvec;

/// Lanes of a row, and of the piece within which lanes are picked fastest, together 16 bytes.
const PIECE: u16 = 4;

/// The vector of these lanes, if they are a column of 4, 8 or 16 rows.
pub(super) fn column(lanes: &Srcs) -> Option<UOp> {
    let rows: Vec<&UOp> = lanes.iter().map(|lane| lane.src(0)).collect();
    let number = lanes[0].arg().lane()?;
    let is_row = |row: &&UOp| row.lanes() == PIECE && row.dtype().size() == 4;
    let is_column = lanes.iter().all(|lane| lane.arg().lane() == Some(number));
    let (squares, rest) = (rows.len() / PIECE as usize, rows.len() % PIECE as usize);
    if !is_column || rest > 0 || !squares.is_power_of_two() || !rows.iter().all(is_row) {
        return None;
    }
    let wide: Vec<UOp> = (0..PIECE as usize)
        .map(|i| joined(rows.iter().skip(i).step_by(PIECE as usize).map(|row| (*row).clone())))
        .collect();
    let upper = number >= PIECE / 2;
    let [ab, cd] = [0, 2].map(|i| zipped(&wide[i], &wide[i + 1], upper));
    Some(halves(&ab, &cd, number % 2 == 1))
}

/// Vectors one after the other, two at a time.
fn joined(rows: impl Iterator<Item = UOp>) -> UOp {
    let mut rows: Vec<UOp> = rows.collect();
    while rows.len() > 1 {
        rows = rows.chunks(2).map(|two| picked(two.iter().flat_map(all))).collect();
    }
    rows.swap_remove(0)
}

/// Of each piece, the lanes of one half in turn: `<a0, b0, a1, b1>`, or of the upper half `<a2, b2, a3, b3>`.
fn zipped(a: &UOp, b: &UOp, upper: bool) -> UOp {
    let from = if upper { PIECE / 2 } else { 0 };
    let pairs = pieces(a).flat_map(|piece| (0..PIECE / 2).map(move |i| piece + from + i));
    picked(pairs.flat_map(|i| [lane(a, i), lane(b, i)]))
}

/// Of each piece, one half of both: `<a0, a1, b0, b1>`, or the upper halves.
fn halves(a: &UOp, b: &UOp, upper: bool) -> UOp {
    let from = if upper { PIECE / 2 } else { 0 };
    let half = |v: &UOp, piece: u16| [lane(v, piece + from), lane(v, piece + from + 1)];
    picked(pieces(a).flat_map(|piece| half(a, piece).into_iter().chain(half(b, piece))))
}

/// The first lane of each piece.
fn pieces(vector: &UOp) -> impl Iterator<Item = u16> + use<> {
    (0..vector.lanes()).step_by(PIECE as usize)
}

fn all(vector: &UOp) -> impl Iterator<Item = UOp> {
    (0..vector.lanes()).map(move |i| lane(vector, i))
}

/// A lane that stays one of this vector: `UOp::lane` would look through it.
fn lane(vector: &UOp, i: u16) -> UOp {
    UOp::new(Op::Lane, vector.dtype(), 1, smallvec![vector.clone()], Arg::Lane(i))
}

fn picked(lanes: impl Iterator<Item = UOp>) -> UOp {
    UOp::stack(lanes.collect())
}
