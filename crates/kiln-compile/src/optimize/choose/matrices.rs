//! Part of pass `choose`: plans for matrix units. A tile is a few matrices of results, and both operands are staged
//! matrix by matrix. Blocks, threads and loops are planned as for any other tile.

use super::super::access::Kernel;
use super::super::dot;
use super::super::opt::Opt;
use super::chooser::{Chooser, Context};
use super::operand::Operand;
use super::order::{Chosen, Form};
use super::planner::{Planner, Tile};
use super::priced;
use crate::target::{Mma, Target};
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;
use std::rc::Rc;

/// The options for a sum of products by a matrix unit, if that is cheaper than `others`.
pub(super) fn plan(
    ast: &UOp,
    target: &Target,
    nodes: usize,
    context: &Context,
    least_of_others: impl FnOnce() -> f64,
) -> Option<Chosen> {
    let fits = |unit: &Mma| dot::axis(ast, unit.parts, unit.sum).map(|axis| (*unit, axis));
    let (unit, axis) = target.mmas.iter().find_map(fits)?;
    let packed = dot::pack(ast, axis, unit.parts).ok()?;
    let kernel = Rc::new(Kernel::of(&packed));
    let mut chooser = Chooser::new(&kernel, target, nodes, context.clone());
    let mut planner = Planner::of(&mut chooser, &packed, target)?;
    let depth = planner.reduces.iter().copied().find(|&i| planner.axis(i) == axis)?;
    let (price, tile) = planner.best_matrices(&unit, depth)?;
    let (price, others) = (price / dot::count(unit.parts[0]) as f64, least_of_others());
    if context.order.is_none() {
        let ways = [("matrix unit", price), ("vectors", others)];
        priced::between("sums of products", "cycles a point", ways, (price >= others) as usize);
    }
    if price >= others {
        return None;
    }
    planner.carry_out_matrices(&unit, depth, tile);
    let mut options = vec![Opt::Dot { axis, parts: unit.parts }];
    options.append(&mut chooser.options);
    Some(Chosen { options, form: Form::Matrices })
}

impl Planner<'_> {
    /// The cheapest tile of whole matrices, and its price for a point.
    fn best_matrices(&self, unit: &Mma, depth: usize) -> Option<(f64, Tile)> {
        if self.operands.len() != 2 {
            return None;
        }
        let mut best: Option<(f64, Tile)> = None;
        for (row_loop, lane_loop) in self.sides() {
            for tile in self.matrix_tiles(unit, row_loop, lane_loop) {
                let cost = self.matrix_cost(unit, depth, &tile);
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, tile));
                }
            }
        }
        best
    }

    /// Pairs of loops along each of which one operand moves while the other stands still.
    fn sides(&self) -> Vec<(usize, usize)> {
        let pairs = self.outputs.iter().flat_map(|&r| self.outputs.iter().map(move |&c| (r, c)));
        let only = |i: usize, j: usize| {
            let (i, j) = (self.axis(i), self.axis(j));
            self.operands.iter().any(|o| o.moves(i) && !o.moves(j))
        };
        pairs.filter(|&(r, c)| only(r, c) && only(c, r)).collect()
    }

    /// All tiles whose results and operands fit the registers, and of which no matrix lies past the end.
    fn matrix_tiles(&self, unit: &Mma, row_loop: usize, lane_loop: usize) -> Vec<Tile> {
        let [height, _, lanes] = unit.shape.map(usize::from);
        let most = |i: usize, by: usize| self.size(i).div_ceil(by).min(unit.registers);
        let mut tiles = Vec::new();
        for rows in 1..=most(row_loop, height) {
            for across in 1..=most(lane_loop, lanes) {
                if rows * across + rows + across <= unit.registers {
                    tiles.push(Tile { lane_loop, lanes, across, row_loop, rows: rows * height });
                }
            }
        }
        tiles
    }

    /// The price of a point of the iteration space.
    fn matrix_cost(&self, unit: &Mma, depth: usize, tile: &Tile) -> f64 {
        let [height, words, _] = unit.shape.map(usize::from);
        let (rows, across) = (tile.rows / height, tile.across);
        let costs = self.costs();
        let step = costs.matrix_product * (rows * across) as f64
            + costs.matrix_load * (rows + across) as f64;
        let points = tile.rows * words * tile.lanes * across;
        let deep = self.size(depth).next_multiple_of(words) as f64 / self.size(depth) as f64;
        let copies: f64 = self.operands.iter().map(|o| self.matrix_copy(o, depth, tile)).sum();
        step / points as f64 * deep * self.rounding(tile) * self.balance(tile)
            + copies
            + self.outside(tile)
            + costs.through_scratch / self.depth()
    }

    /// Each element of an operand is copied once.
    fn matrix_copy(&self, operand: &Operand, depth: usize, tile: &Tile) -> f64 {
        let in_a_row = operand.stride(self.axis(depth)) == Some(operand.parts)
            && !operand.moves(self.axis(tile.lane_loop))
            || operand.stride(self.axis(tile.lane_loop)) == Some(1);
        self.costs().copy(in_a_row) / self.uses(operand)
    }

    fn carry_out_matrices(&mut self, unit: &Mma, depth: usize, tile: Tile) {
        let sides = [tile.row_loop, depth, tile.lane_loop];
        let (axes, by) = (sides.map(|i| self.axis(i)), unit.shape.map(usize::from));
        self.chooser.options.push(Opt::Mma { axes, by });
        for (i, by) in sides.into_iter().zip(by) {
            self.chooser.left[i].0 = self.chooser.left[i].0.div_ceil(by);
        }
        self.chooser.apply(RangeKind::Upcast, tile.lane_loop, tile.across);
        self.chooser.apply(RangeKind::Upcast, tile.row_loop, tile.rows / by[0]);
        let whole = |(i, n): (usize, usize)| {
            let left = self.chooser.left[i].0;
            let most = if i == depth { n / by[1] } else { n };
            let n = super::tile::largest_divisor(left, most);
            (n > 1 && n < left).then_some((i, n))
        };
        let chunk = match self.chooser.order {
            Some(_) => self.given_chunk(),
            None => self.chunk(&tile).and_then(whole),
        };
        if let Some((i, n)) = chunk {
            self.block_depth *= n as f64 / self.chooser.left[i].0 as f64;
        }
        self.divide_and_stage(&tile, &[true; 2], chunk);
    }
}
