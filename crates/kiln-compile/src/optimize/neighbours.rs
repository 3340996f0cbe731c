//! Beside stage `optimize`, for a search: the option lists that are one step away from another.
//!
//! A step changes, removes or adds one option, or makes one side of a register tile larger and another smaller. Only
//! legal lists are given, and none that makes the code much longer.

use super::check;
use super::loops::{Loops, packed};
use super::nests::Nests;
use super::opt::Opt;
use super::room::MAX_NODES;
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::toposort;

/// Values that loops after a reduction need again may take this many bytes.
const KEPT: usize = 128 << 10;

/// All lists of options for a kernel that are one step from `options`, in order of the steps.
pub fn neighbours(ast: &UOp, options: &[Opt]) -> Vec<Vec<Opt>> {
    let mut lists = changed(options);
    lists.extend(traded(options));
    lists.extend(added(ast, options));
    // the heuristic counts code more exactly than this, so its own choice is never too large
    let room = (2 * MAX_NODES / toposort(ast).len().max(1)).max(2 * replicas(options));
    let mut found: Vec<Vec<Opt>> = Vec::new();
    for list in lists {
        let is_new = list != options && !found.contains(&list);
        if is_new && replicas(&list) <= room && check(ast, &list).is_ok() {
            found.push(list);
        }
    }
    found
}

/// A legal list of at most so many steps from none, each drawn from all that are one step further. `below(n)` draws a
/// number less than `n`.
pub fn drawn(ast: &UOp, steps: usize, below: &mut impl FnMut(usize) -> usize) -> Vec<Opt> {
    let room = 2 * MAX_NODES / toposort(ast).len().max(1);
    let mut options = Vec::new();
    for _ in 0..steps {
        let mut lists = changed(&options);
        lists.extend(traded(&options));
        lists.extend(added(ast, &options));
        let Some(at) = (!lists.is_empty()).then(|| below(lists.len())) else { break };
        let list = lists.swap_remove(at);
        if replicas(&list) <= room && check(ast, &list).is_ok() {
            options = list;
        }
    }
    options
}

/// How many times longer options make a kernel's code.
fn replicas(options: &[Opt]) -> usize {
    let by = |o: &Opt| match *o {
        Opt::Split { kind: RangeKind::Upcast | RangeKind::Unroll, by, .. } => by,
        _ => 1,
    };
    options.iter().map(by).fold(1, usize::saturating_mul)
}

/// Each option left out, or of another size.
fn changed(options: &[Opt]) -> Vec<Vec<Opt>> {
    let mut lists = Vec::new();
    for (at, opt) in options.iter().enumerate() {
        for new in others(*opt) {
            let mut list = options.to_vec();
            list[at] = new;
            lists.push(list);
        }
        lists.push([&options[..at], &options[at + 1..]].concat());
    }
    lists
}

/// The same option in other sizes.
fn others(opt: Opt) -> Vec<Opt> {
    match opt {
        Opt::Split { kind: RangeKind::Thread, .. }
        | Opt::Dot { .. }
        | Opt::Align { .. }
        | Opt::Mma { .. }
        | Opt::Keep { .. }
        | Opt::Subgroup { .. }
        | Opt::Combine { .. }
        | Opt::Nest { .. } => Vec::new(),
        Opt::Rows { by, blocks } => [by / 2, by * 2].map(|by| Opt::Rows { by, blocks }).to_vec(),
        Opt::Split { kind: RangeKind::Vector, axis, by } => {
            let split = |by| Opt::Split { kind: RangeKind::Vector, axis, by };
            [by / 2, by * 2].map(split).to_vec()
        }
        Opt::Split { kind, axis, by } => {
            let sizes = [by.saturating_sub(1), by + 1, by / 2, by * 2];
            sizes.map(|by| Opt::Split { kind, axis, by }).to_vec()
        }
        Opt::Block { axis, by } => {
            [by / 2, by * 2, by / 4, by * 4].map(|by| Opt::Block { axis, by }).to_vec()
        }
        Opt::Share { operand, depth, banks } => {
            let at = |depth| Opt::Share { operand, depth, banks };
            vec![at(depth.saturating_sub(1)), at(depth + 1)]
        }
        Opt::Stage { operand, depth, lanes } => {
            let at = |depth| Opt::Stage { operand, depth, lanes };
            let narrower = Opt::Stage { operand, depth, lanes: lanes / 2 };
            vec![at(depth.wrapping_sub(1).min(depth)), at(depth + 1), narrower]
        }
    }
}

/// One side of a register tile longer and another shorter, with about as many registers.
fn traded(options: &[Opt]) -> Vec<Vec<Opt>> {
    let is_side = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Upcast, .. });
    let sides: Vec<usize> = (0..options.len()).filter(|&i| is_side(&options[i])).collect();
    let mut lists = Vec::new();
    for &i in &sides {
        for &j in sides.iter().filter(|&&j| j != i) {
            let (n, m) = (size(&options[i]), size(&options[j]));
            for longer in [n + 1, n + 2, n * 2] {
                let mut list = options.to_vec();
                list[i] = sized(options[i], longer);
                list[j] = sized(options[j], n * m / longer);
                lists.push(list);
            }
        }
    }
    lists
}

fn size(opt: &Opt) -> usize {
    match *opt {
        Opt::Split { by, .. } | Opt::Block { by, .. } => by,
        Opt::Dot { .. }
        | Opt::Align { .. }
        | Opt::Mma { .. }
        | Opt::Stage { .. }
        | Opt::Share { .. }
        | Opt::Keep { .. }
        | Opt::Subgroup { .. }
        | Opt::Combine { .. }
        | Opt::Rows { .. }
        | Opt::Nest { .. } => 1,
    }
}

fn sized(opt: Opt, by: usize) -> Opt {
    match opt {
        Opt::Split { kind, axis, .. } => Opt::Split { kind, axis, by },
        Opt::Block { axis, .. } => Opt::Block { axis, by },
        Opt::Dot { .. }
        | Opt::Align { .. }
        | Opt::Mma { .. }
        | Opt::Stage { .. }
        | Opt::Share { .. }
        | Opt::Keep { .. }
        | Opt::Subgroup { .. }
        | Opt::Combine { .. }
        | Opt::Rows { .. }
        | Opt::Nest { .. } => opt,
    }
}

/// One more option, at the place of its kind. None for several nests, whose options are in separate lists.
fn added(ast: &UOp, options: &[Opt]) -> Vec<Vec<Opt>> {
    if Nests::of(ast).is_some() {
        return Vec::new();
    }
    let Ok(ast) = packed(ast, options) else { return Vec::new() };
    let mut loops = Loops::of(&ast);
    let (axes, operands) = (loops.axes(), loops.operands().len());
    options.iter().for_each(|&opt| loops.apply(opt));
    let mut new: Vec<Opt> = Vec::new();
    for (axis, kind) in axes {
        let left = loops.standing(axis).map_or(1, |s| s.left);
        let split = |kind, by| Opt::Split { kind, axis, by };
        let inner = if kind == RangeKind::Reduce { RangeKind::Unroll } else { RangeKind::Upcast };
        new.extend([16, 8, 4].map(|by| split(RangeKind::Vector, by)));
        new.extend([2, 3, 4, 8].map(|by| split(inner, by)));
        new.push(split(RangeKind::Thread, 1));
        new.extend(
            [8, 64, 512].into_iter().filter(|&by| by < left).map(|by| Opt::Block { axis, by }),
        );
    }
    let depths = 0..options.len().min(4) + 2;
    let stage = |operand| depths.clone().map(move |depth| Opt::Stage { operand, depth, lanes: 8 });
    new.extend((0..operands).flat_map(stage));
    new.push(Opt::Keep { bytes: KEPT });
    new.into_iter().map(|opt| inserted(options, opt)).collect()
}

/// The list with one more option before the first that is applied after its kind.
fn inserted(options: &[Opt], opt: Opt) -> Vec<Opt> {
    let at = options.iter().position(|o| order(o) > order(&opt)).unwrap_or(options.len());
    [&options[..at], &[opt], &options[at..]].concat()
}

fn order(opt: &Opt) -> u8 {
    match opt {
        Opt::Rows { .. } | Opt::Nest { .. } | Opt::Dot { .. } | Opt::Mma { .. } => 0,
        Opt::Align { .. } => 0,
        Opt::Split { kind: RangeKind::Vector, .. } => 0,
        Opt::Split { kind: RangeKind::Thread, .. } => 3,
        Opt::Split { .. } => 1,
        Opt::Block { .. } => 2,
        Opt::Stage { .. } | Opt::Share { .. } => 4,
        Opt::Keep { .. } | Opt::Subgroup { .. } | Opt::Combine { .. } => 5,
    }
}
