//! Part of pass `choose`: loops whose phases decide conditions, as in the gradient of a convolution with a stride.
//!
//! Row `h` of an image was read by window `(h - k) / 2`, at its position `k`, if `(h - k) % 2` is 0. If the loop over `k` is
//! unrolled and two rows are computed at a time, each pair of a row and a position either always has a window or never:
//! half of the loads vanish. This is the polyphase form of a filter (Vaidyanathan, "Multirate Systems and Filter Banks").

use super::super::opt::Opt;
use super::super::ranges::{axis_of, kind_of};
use super::chooser::Chooser;
use kiln_ir::affine::gcd;
use kiln_ir::arg::RangeKind;

impl Chooser {
    /// Unrolls a loop over outputs as far as a remainder of it and a reduction's loop needs, if all else is known at compile time.
    pub(super) fn phases(&mut self) {
        let sums = self.kernel.sums();
        for remainder in &self.kernel.clone().remainders {
            let terms = remainder.terms.iter();
            if !terms.clone().any(|(axis, _)| sums.contains(*axis)) {
                continue;
            }
            let unknown = terms.map(|term| (term.0, self.phases_left(*term, remainder.by)));
            let unknown: Vec<(u32, usize)> = unknown.filter(|(_, phases)| *phases > 1).collect();
            let [(axis, phases)] = unknown[..] else { continue };
            let Some(i) = self.left.iter().position(|(_, r)| axis_of(r) == axis) else { continue };
            let (left, range) = &self.left[i];
            let is_free = kind_of(range) == RangeKind::Loop && !self.is_around(i);
            // of fewer iterations each is known, too
            let phases = phases.min(*left);
            if is_free && phases <= self.costs.most_tiled {
                // the loads are shared out among the rows, so there is as much code as before
                let room = self.room;
                self.apply(RangeKind::Upcast, i, phases);
                self.room = room;
            }
        }
    }

    /// How many iterations of a loop are needed so that each of them adds a known number to a remainder.
    fn phases_left(&self, (axis, factor): (u32, i64), by: u64) -> usize {
        if self.left.iter().any(|(left, r)| *left == 1 && axis_of(r) == axis) {
            return 1;
        }
        let iterations = |option: &Opt| match *option {
            Opt::Split { kind: RangeKind::Vector | RangeKind::Upcast, axis: a, by }
                if a == axis =>
            {
                by
            }
            _ => 1,
        };
        let known: usize = self.options.iter().map(iterations).product();
        let phases = by / gcd(by, factor.unsigned_abs());
        (phases / gcd(phases, known as u64)) as usize
    }
}
