//! Pass `linearize` of stage `lower`: the kernel becomes a list of ops in order. A tree of loops is built, and each of
//! its blocks is sorted topologically.
//!
//! Every node goes to the block of its innermost range, so what does not vary over a loop is computed outside of it. A
//! loop inside another is one item of the outer one's block. Inside a block the order is that of the graph walk, with
//! these exceptions. What only a later loop needs comes after the loops before it. The sums of a tile advance together, one
//! operand after the other. Stores to arguments come as late as they can, because an argument that is written may be the same
//! memory as one that is read. A read of local memory comes before a write that it does not depend on.

use super::nest::Nest;
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::toposort;
use kiln_ir::{Arg, DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A block's number: 0 is the kernel's top, `r + 1` the body of range `r`.
type Block = usize;

/// The kernel's nodes as items of blocks. An item is a node; the item of a `Range` stands for its whole loop.
struct Items {
    topo: Vec<UOp>,
    /// The position of each node in `topo`.
    numbers: FxHashMap<UOp, usize>,
    nest: Nest,
    /// The block that each item is in.
    home: Vec<Block>,
    /// For each block, the block around it, and its item there.
    around: Vec<Option<(Block, usize)>>,
    /// How many loops are around each block.
    depth: Vec<usize>,
    /// Pairs of items of one block: the first waits for the second.
    waits_for: Vec<SmallVec<[usize; 3]>>,
    /// The item writes to an argument.
    writes_argument: Vec<bool>,
}

/// For each item, those that wait for it, in order.
struct Users {
    list: Vec<usize>,
    /// Where each item's begin in the list, and the list's end.
    starts: Vec<usize>,
}

impl Users {
    fn of(&self, item: usize) -> &[usize] {
        &self.list[self.starts[item]..self.starts[item + 1]]
    }
}

/// Declarations, then everything else in an order that respects every dependency.
pub(super) fn linearize(kernel: &UOp) -> Vec<UOp> {
    let mut items = Items::new(kernel);
    items.connect();
    items.read_locals_before_writing();
    let users = items.users();
    let any = items.sort_blocks(&users, |_| ());
    let (loops, steps) = (items.loops(&users, &any), items.steps(&users, &any));
    let orders = items.sort_blocks(&users, |i| (loops[i], steps[i]));
    let mut ops = items.declarations();
    items.emit(&orders, &mut ops);
    ops
}

impl Items {
    fn new(kernel: &UOp) -> Items {
        let topo = toposort(kernel);
        let nest = Nest::new(&topo);
        let numbers: FxHashMap<UOp, usize> =
            topo.iter().cloned().enumerate().map(|(i, n)| (n, i)).collect();
        let block_of = |r: Option<u32>| r.map_or(0, |r| r as usize + 1);
        let mut around = vec![None; nest.len() + 1];
        let mut depth = vec![0; nest.len() + 1];
        for r in 0..nest.len() as u32 {
            let parent = block_of(nest.parent(r));
            around[r as usize + 1] = Some((parent, numbers[nest.range(r)]));
            depth[r as usize + 1] = nest.path(Some(r)).count();
        }
        let own_block = |n: &UOp| block_of(nest.block(n));
        let home = topo.iter().map(|n| match n.op() {
            Op::Range => around[own_block(n)].map_or(0, |(block, _)| block),
            _ => own_block(n),
        });
        let home = home.collect();
        let n = topo.len();
        Items {
            topo,
            numbers,
            nest,
            home,
            around,
            depth,
            waits_for: vec![SmallVec::new(); n],
            writes_argument: vec![false; n],
        }
    }

    /// Every edge of the graph, lifted to the innermost block that has both ends in it.
    fn connect(&mut self) {
        for i in 0..self.topo.len() {
            for src in self.topo[i].srcs() {
                let (user, used) = self.lift(i, self.numbers[src]);
                if user != used {
                    self.waits_for[user].push(used);
                }
            }
            let node = &self.topo[i];
            if node.op() == Op::Store && node.memory().op() == Op::Param {
                self.mark_argument_write(i);
            }
        }
    }

    /// The items that stand for `a` and `b` in the innermost block around both.
    fn lift(&self, mut a: usize, mut b: usize) -> (usize, usize) {
        let (mut x, mut y) = (self.home[a], self.home[b]);
        while x != y {
            let (block, item) =
                if self.depth[x] >= self.depth[y] { (&mut x, &mut a) } else { (&mut y, &mut b) };
            (*block, *item) = self.around[*block].expect("two blocks have the top in common");
        }
        (a, b)
    }

    fn mark_argument_write(&mut self, item: usize) {
        self.writes_argument[item] = true;
        let mut block = self.home[item];
        while let Some((outer, item)) = self.around[block] {
            self.writes_argument[item] = true;
            block = outer;
        }
    }

    /// Within a block, a load from local memory goes before a store to the same place, unless it waits for the store.
    fn read_locals_before_writing(&mut self) {
        let mut stores: FxHashMap<(Block, UOp), Vec<usize>> = FxHashMap::default();
        for store in self.local_accesses(Op::Store) {
            let place = (self.home[store], self.topo[store].memory().clone());
            stores.entry(place).or_default().push(store);
        }
        for load in self.local_accesses(Op::Load) {
            let place = (self.home[load], self.topo[load].memory().clone());
            let Some(stores) = stores.get(&place) else { continue };
            let mut same = stores.iter().filter(|&&s| !self.elsewhere(s, load)).peekable();
            if same.peek().is_some() {
                let before = self.ancestors(load);
                let later: Vec<usize> = same.copied().filter(|s| !before.contains(s)).collect();
                later.into_iter().for_each(|s| self.waits_for[s].push(load));
            }
        }
    }

    fn local_accesses(&self, op: Op) -> Vec<usize> {
        let is_local = |n: &UOp| n.op() == op && n.memory().op() == Op::Local;
        (0..self.topo.len()).filter(|&i| is_local(&self.topo[i])).collect()
    }

    /// Two accesses are at different constant indices.
    fn elsewhere(&self, a: usize, b: usize) -> bool {
        let at = |i: usize| self.topo[i].src(1).as_int();
        matches!((at(a), at(b)), (Some(x), Some(y)) if x != y)
    }

    /// Everything of its block that the item waits for.
    fn ancestors(&self, item: usize) -> FxHashSet<usize> {
        let mut seen = FxHashSet::default();
        let mut stack = vec![item];
        while let Some(i) = stack.pop() {
            stack.extend(self.waits_for[i].iter().filter(|&&w| seen.insert(w)));
        }
        seen
    }

    /// How many loops of its block end before each item is needed. So what only a second loop reads is loaded after the first,
    /// and not held in registers through it. `orders` is any order of each block.
    fn loops(&self, users: &Users, orders: &[Vec<usize>]) -> Vec<u32> {
        let is_loop = |i: usize| self.topo[i].op() == Op::Range;
        let mut reached = vec![0; self.topo.len()];
        for &i in orders.iter().flatten() {
            let after = |&w: &usize| reached[w] + u32::from(is_loop(w));
            reached[i] = self.waits_for[i].iter().map(after).max().unwrap_or(0);
        }
        let mut needed = reached.clone();
        for &i in orders.iter().rev().flat_map(|order| order.iter().rev()) {
            let first_user = users.of(i).iter().map(|&u| needed[u]).min();
            needed[i] = first_user.filter(|_| !is_loop(i)).unwrap_or(reached[i]);
        }
        needed
    }

    /// For each item, the step and the operand (`passing`) of the addition that needs it first. The values that are added to one
    /// accumulator form a chain, and an addition's step is its place in the chain. So unrolled sums advance side by side, and
    /// the operands of a step are not held for long. `orders` is any order of each block.
    fn steps(&self, users: &Users, orders: &[Vec<usize>]) -> Vec<(u32, usize)> {
        let links = self.links();
        let passing = self.passing(&links);
        let mut reached = vec![(0, 0); self.topo.len()];
        for &i in orders.iter().flatten() {
            let before = self.waits_for[i].iter().map(|&w| reached[w]).max().unwrap_or_default();
            let next = |from: usize| (before.0.max(reached[from].0 + 1), passing[i]);
            reached[i] = links[i].map_or(before, next);
        }
        let mut steps = reached.clone();
        for &i in orders.iter().rev().flat_map(|order| order.iter().rev()) {
            let first_user = users.of(i).iter().map(|&u| steps[u]).min();
            steps[i] = first_user.filter(|_| links[i].is_none()).unwrap_or(reached[i]);
        }
        steps
    }

    /// For each addition to an accumulator, its operand that the fewest additions use, as a number; 0 for all other nodes. Additions
    /// with the same one go together, so it is in a register for a short time, while the others are held: of a tile of 2 vectors
    /// by 6 rows, 2 vectors and one row at a time.
    fn passing(&self, links: &[Option<usize>]) -> Vec<usize> {
        let mut uses = vec![0; self.topo.len()];
        let operands = |i: usize| {
            let from = links[i];
            let sources = self.topo[i].srcs().iter().map(|src| self.numbers[src]);
            sources.filter(move |&src| from.is_some_and(|from| src != from))
        };
        let all = 0..self.topo.len();
        all.clone().flat_map(operands).for_each(|src| uses[src] += 1);
        let rarest = |i| operands(i).min_by_key(|&src| (uses[src], Reverse(src)));
        all.map(|i| rarest(i).unwrap_or(0)).collect()
    }

    /// For each node that adds a value to an accumulator: the node of the accumulator's previous value.
    fn links(&self) -> Vec<Option<usize>> {
        let mut links = vec![None; self.topo.len()];
        for (i, node) in self.topo.iter().enumerate() {
            let running = match node.op() {
                Op::MulAdd | Op::Dot | Op::Mma => node.src(2),
                Op::Add | Op::Mul | Op::Max | Op::Min => node.src(0),
                _ => continue,
            };
            let from = self.numbers[running];
            let starts = running.op() == Op::Load && running.is_in_registers();
            if self.home[from] == self.home[i] && (starts || links[from].is_some()) {
                links[i] = Some(from);
            }
        }
        links
    }

    /// The items that wait for each item.
    fn users(&self) -> Users {
        let mut ends = vec![0; self.topo.len() + 1];
        self.waits_for.iter().flatten().for_each(|&used| ends[used] += 1);
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let mut users = Users { list: vec![0; sum], starts: ends };
        for (user, used) in self.waits_for.iter().enumerate().rev() {
            for &used in used.iter().rev() {
                users.starts[used] -= 1;
                users.list[users.starts[used]] = user;
            }
        }
        users
    }

    /// Each block's items in order. Of the items that wait for nothing more, the one that is needed first comes first, then
    /// the one that the walk over the graph met first. Stores to arguments come last.
    fn sort_blocks<K: Ord + Default + Clone>(
        &self,
        users: &Users,
        needed: impl Fn(usize) -> K,
    ) -> Vec<Vec<usize>> {
        let mut missing: Vec<usize> = self.waits_for.iter().map(SmallVec::len).collect();
        let mut ready: Vec<BinaryHeap<_>> = vec![BinaryHeap::new(); self.nest.len() + 1];
        let key = |i: usize| {
            let writes = self.writes_argument[i];
            Reverse((writes, if writes { K::default() } else { needed(i) }, i))
        };
        (0..self.topo.len())
            .filter(|&i| missing[i] == 0)
            .for_each(|i| ready[self.home[i]].push(key(i)));
        let mut orders = vec![Vec::new(); ready.len()];
        for (order, ready) in orders.iter_mut().zip(&mut ready) {
            while let Some(Reverse((.., i))) = ready.pop() {
                order.push(i);
                for &user in users.of(i) {
                    missing[user] -= 1;
                    if missing[user] == 0 {
                        ready.push(key(user));
                    }
                }
            }
        }
        let sorted: usize = orders.iter().map(Vec::len).sum();
        assert_eq!(sorted, self.topo.len(), "loops wait for each other");
        orders
    }

    /// Arguments by slot, launch-time scalars by slot, local memory by number.
    fn declarations(&self) -> Vec<UOp> {
        let mut found: Vec<UOp> = self.topo.iter().filter(|n| is_declaration(n)).cloned().collect();
        found.sort_by_key(|n| {
            (n.op(), n.arg().slot(), n.arg().memory().map(|(space, id, _)| (space, id)))
        });
        found
    }

    fn emit(&self, orders: &[Vec<usize>], ops: &mut Vec<UOp>) {
        let mut stack = vec![(0, 0)];
        while let Some((block, next)) = stack.last_mut() {
            let Some(&item) = orders[*block].get(*next) else {
                ops.extend(self.close(*block));
                stack.pop();
                continue;
            };
            *next += 1;
            let node = &self.topo[item];
            match node.op() {
                Op::Range => {
                    let body =
                        self.nest.block(node).expect("a range is in its own scope") as usize + 1;
                    // no node varies over the loop
                    if !orders[body].is_empty() {
                        ops.push(node.clone());
                        stack.push((body, 0));
                    }
                }
                Op::Barrier => {
                    ops.push(UOp::new(Op::Barrier, DType::Void, 1, smallvec![], Arg::None))
                }
                Op::Const | Op::After | Op::End | Op::Sink => {}
                _ if is_declaration(node) => {}
                _ => ops.push(node.clone()),
            }
        }
    }

    /// The end of a loop. Work-groups and work-items are not loops: their ranges stay open.
    fn close(&self, block: Block) -> Option<UOp> {
        let range = self.nest.range(block.checked_sub(1)? as u32);
        let (_, kind) = range.arg().range().expect("a range");
        let open = matches!(kind, RangeKind::Global | RangeKind::Local);
        (!open).then(|| UOp::new(Op::End, DType::Void, 1, smallvec![range.clone()], Arg::None))
    }
}

fn is_declaration(node: &UOp) -> bool {
    matches!(node.op(), Op::Param | Op::Var | Op::Local)
}
