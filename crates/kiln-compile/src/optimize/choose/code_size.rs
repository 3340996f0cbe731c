//! Part of pass `choose`: how much code a tile makes.

use super::planner::{Planner, Tile};
use kiln_ir::scope::AxisSet;

/// What varies over neither the lanes nor the rows of a tile, over the lanes, the rows, or both.
const CLASSES: usize = 2 * 2;

/// How much of the code varies over neither, the lanes, the rows, or both of a tile.
#[derive(Default)]
pub(super) struct CodeSize {
    inside: [usize; CLASSES],
    /// What is not inside the reduction.
    outside: [usize; CLASSES],
    /// Of that, accesses whose lanes are no neighbours.
    apart: [usize; CLASSES],
}

impl CodeSize {
    /// The code of a kernel with tiles over two loops.
    pub(super) fn of(planner: &Planner<'_>, lane_loop: usize, row_loop: usize) -> CodeSize {
        let (lane, row) = (planner.axis(lane_loop), planner.axis(row_loop));
        let class = |s: &AxisSet| s.contains(lane) as usize + 2 * s.contains(row) as usize;
        let mut text = CodeSize::default();
        // lane by lane, an access also takes lanes out of vectors, or puts them in
        let (whole, by_lane) = (planner.costs().access_nodes, 2 * planner.costs().access_nodes);
        let kernel = &planner.chooser.kernel;
        for scope in &kernel.operations {
            let of = if planner.is_inside(scope) { &mut text.inside } else { &mut text.outside };
            of[class(scope)] += 1;
        }
        for access in &kernel.accesses {
            let (of, each) = match access.stride(lane) {
                _ if planner.is_inside(&access.scope) => (&mut text.inside, whole),
                Some(0 | 1) => (&mut text.outside, whole),
                _ => (&mut text.apart, by_lane),
            };
            of[class(&access.scope)] += each;
        }
        text
    }

    /// The length of the code with a tile.
    pub(super) fn of_tile(&self, planner: &Planner<'_>, tile: &Tile) -> usize {
        let times = [1, tile.across, tile.rows, tile.across * tile.rows];
        let all =
            |part: &[usize; CLASSES]| part.iter().zip(times).map(|(n, t)| n * t).sum::<usize>();
        let outside = match self.is_apart() && planner.chunk(tile).is_some() {
            true => 0,
            false => all(&self.outside) + all(&self.apart) * tile.lanes,
        };
        all(&self.inside) + outside
    }

    /// Whether results are stored, or read with, lanes that are no neighbours.
    pub(super) fn is_apart(&self) -> bool {
        self.apart != [0; CLASSES]
    }
}
