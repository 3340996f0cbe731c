//! Compiled patterns: a list of tests that is run by reference and clones nothing; and the dispatch table of a rule
//! set.

use crate::arg::Arg;
use crate::dtype::Const;
use crate::op::Op;
use crate::pattern::{ALL_OPS, Pat, Sources, Value, Vars, dtype_bit};
use crate::rule::Rule;
use crate::uop::{UOp, op_bit, value_bit, value_mark};
use std::sync::atomic::{AtomicU32, Ordering};

/// Nodes that one pattern may look at; the matcher's registers live on the stack.
const PATTERN_NODES: usize = 16;

/// Commuting operators in one pattern; each doubles the orders that are tried.
const COMMUTING: usize = 4;

/// Tests one node: the `child`-th source of the node that step `parent` saw.
struct Step {
    parent: u8,
    child: u8,
    min_srcs: u8,
    max_srcs: u8,
    /// The step that must have seen the same node.
    same: Option<u8>,
    dtypes: u32,
    ops: u128,
    value: Value,
    arg: Option<Box<Arg>>,
}

impl Step {
    #[inline]
    fn admits(&self, node: &UOp) -> bool {
        let n = node.srcs().len();
        self.ops & node.op().bit() != 0
            && self.dtypes & dtype_bit(node.dtype()) != 0
            && self.min_srcs as usize <= n
            && n <= self.max_srcs as usize
            && match self.value {
                Value::Any => true,
                Value::Constant => node.uniform().op() == Op::Const,
                Value::Int(i) => node.uniform().is_const(i),
                Value::Is(c) => node.uniform().as_const() == Some(c),
            }
            && self.arg.as_ref().is_none_or(|arg| **arg == *node.arg())
    }
}

/// One order of a rule's left side.
pub(crate) struct Matcher {
    steps: Box<[Step]>,
    /// Which step saw the node of each variable.
    vars: Box<[u8]>,
}

impl Matcher {
    fn new(pat: &Pat, vars: usize) -> Result<Matcher, String> {
        let mut steps = Vec::new();
        let mut seen = vec![None; vars];
        flatten(pat, 0, 0, &mut steps, &mut seen);
        if steps.len() > PATTERN_NODES {
            return Err(format!("more than {PATTERN_NODES} nodes in {pat}"));
        }
        let vars = seen.into_iter().collect::<Option<Box<[u8]>>>();
        let vars = vars.ok_or_else(|| format!("a variable does not occur in {pat}"))?;
        Ok(Matcher { steps: steps.into(), vars })
    }

    /// Whether the first source may have this op; without one, whether the root needs none.
    fn admits_first(&self, src: Option<Op>) -> bool {
        let first = self.steps.iter().skip(1).find(|s| s.parent == 0 && s.child == 0);
        match (first, src) {
            (None, None) => self.steps[0].min_srcs == 0,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (Some(step), Some(op)) => step.ops & op.bit() != 0,
        }
    }

    /// The ops that the first source may have; none where any will do.
    fn first_ops(&self) -> Option<u128> {
        let first = self.steps.iter().skip(1).find(|s| s.parent == 0 && s.child == 0)?;
        (first.ops != ALL_OPS).then_some(first.ops)
    }

    /// Runs `then` on the nodes of the variables, if `root` matches.
    #[inline]
    pub(crate) fn run<R>(&self, root: &UOp, then: impl FnOnce(&[&UOp]) -> Option<R>) -> Option<R> {
        let mut at = [root; PATTERN_NODES];
        for (i, step) in self.steps.iter().enumerate() {
            if i > 0 {
                at[i] = at[step.parent as usize].src(step.child as usize);
            }
            if !step.admits(at[i]) || step.same.is_some_and(|same| at[same as usize] != at[i]) {
                return None;
            }
        }
        let mut nodes = [root; PATTERN_NODES];
        for (node, &step) in nodes.iter_mut().zip(&self.vars) {
            *node = at[step as usize];
        }
        then(&nodes[..self.vars.len()])
    }
}

/// Appends the tests of `pat`, parents before sources. Recursion is as deep as a rule's left side.
fn flatten(pat: &Pat, parent: u8, child: u8, steps: &mut Vec<Step>, seen: &mut [Option<u8>]) {
    let this = steps.len() as u8;
    let n = pat.src_pats().len() as u8;
    let (min_srcs, max_srcs) = match pat.srcs {
        Sources::Any => (0, u8::MAX),
        Sources::Exactly(_) => (n, n),
        Sources::First(_) => (n, u8::MAX),
    };
    let same = pat.var.and_then(|var| seen[var as usize].replace(this));
    let (ops, dtypes, value) = (pat.ops, pat.dtypes, pat.value);
    let arg = pat.arg.clone().map(Box::new);
    steps.push(Step { parent, child, min_srcs, max_srcs, same, dtypes, ops, value, arg });
    for (i, src) in pat.src_pats().iter().enumerate() {
        flatten(src, this, i as u8, steps, seen);
    }
}

/// The pattern with the operands of commuting ops in every order. Constants stay right, where constructors put them.
fn orders(pat: &Pat) -> Vec<Pat> {
    let mut variants = vec![Vec::new()];
    for src in pat.src_pats() {
        let choices = orders(src);
        variants = variants
            .iter()
            .flat_map(|v| {
                choices.iter().map(move |c| [v.as_slice(), std::slice::from_ref(c)].concat())
            })
            .collect();
    }
    let commutes = pat.single_op().is_some_and(Op::is_commutative);
    if let [a, b] = pat.src_pats()
        && commutes
        && !a.is_constant()
        && !b.is_constant()
        && a != b
    {
        let swapped: Vec<_> = variants.iter().map(|v| vec![v[1].clone(), v[0].clone()]).collect();
        variants.extend(swapped);
    }
    let with = |srcs: Vec<Pat>| match &pat.srcs {
        Sources::Any => pat.clone(),
        Sources::Exactly(_) => Pat { srcs: Sources::Exactly(srcs), ..pat.clone() },
        Sources::First(_) => Pat { srcs: Sources::First(srcs), ..pat.clone() },
    };
    variants.into_iter().map(with).collect()
}

/// The left side of `rule`, once per order of commuting operands.
pub(crate) fn compile<C>(rule: &Rule<C>) -> Result<Vec<(Pat, Matcher)>, String> {
    let mut vars = Vars::default();
    let pat = (rule.lhs)(&mut vars);
    let variants = orders(&pat);
    if variants.len() > 1 << COMMUTING {
        return Err(format!("more than {COMMUTING} commuting operators in {pat}"));
    }
    let n = vars.names().len();
    variants.into_iter().map(|p| Matcher::new(&p, n).map(|m| (p, m))).collect()
}

/// An order of a rule's left side.
struct Entry {
    /// What a node's summary has to hold.
    needs: Summary,
    rule: u16,
    matcher: Matcher,
}

/// The entries that may match nodes with one op whose first source has one op. What rejects most nodes lies together.
#[derive(Default, PartialEq)]
struct List {
    /// [`Summary::folded`] of what each needs.
    folded: Box<[u64]>,
    heads: Box<[Head]>,
}

/// What is looked at next of an entry.
#[derive(PartialEq)]
struct Head {
    needs: Summary,
    dtypes: u32,
    entry: u16,
}

/// Ops, and one more for "no source".
const FIRST_SOURCES: usize = Op::ALL.len() + 1;

/// Whether the dispatch table would offer `node` to this pattern: true wherever the pattern matches, which the check
/// of each rule makes sure of.
pub(crate) fn is_offered(pat: &Pat, matcher: &Matcher, node: &UOp) -> bool {
    summary(node).has(&needs(pat)) && matcher.admits_first(node.srcs().first().map(UOp::op))
}

/// What a rule does once it has matched.
enum Right<C: 'static> {
    Plain(fn(&mut (), &[&UOp]) -> Option<UOp>),
    Stateful(fn(&mut C, &[&UOp]) -> Option<UOp>),
}

/// Identifies a rule in messages and reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub(crate) file: &'static str,
    pub(crate) line: u32,
    pub(crate) name: &'static str,
}

/// A rule set ready to run.
pub(crate) struct Compiled<C: 'static> {
    pub(crate) name: &'static str,
    pub(crate) places: Vec<Place>,
    rights: Vec<Right<C>>,
    entries: Vec<Entry>,
    lists: Vec<List>,
    /// By op and op of the first source: which list.
    list_of: Vec<u16>,
    /// The bit by which nodes remember that they are normal under this set; 0 where they do not.
    pub(crate) normal_bit: u64,
}

impl<C> Compiled<C> {
    pub(crate) fn new(
        name: &'static str,
        stateful: &'static [Rule<C>],
        plain: impl Iterator<Item = &'static Rule>,
    ) -> Compiled<C> {
        let mut compiled = Compiled {
            name,
            places: Vec::new(),
            rights: Vec::new(),
            entries: Vec::new(),
            lists: vec![List::default()],
            list_of: vec![0; Op::ALL.len() * FIRST_SOURCES],
            normal_bit: if stateful.is_empty() { next_normal_bit() } else { 0 },
        };
        stateful.iter().for_each(|r| compiled.add(r, Right::Stateful(r.rhs)));
        plain.for_each(|r| compiled.add(r, Right::Plain(r.rhs)));
        Op::ALL.iter().for_each(|op| compiled.index(*op));
        compiled
    }

    fn add<D>(&mut self, rule: &'static Rule<D>, right: Right<C>) {
        let place = Place { file: rule.file, line: rule.line, name: rule.name };
        let index = self.rights.len() as u16;
        let variants =
            compile(rule).unwrap_or_else(|e| panic!("kiln bug: rule {}: {e}", rule.name));
        self.places.push(place);
        self.rights.push(right);
        self.entries.extend(variants.into_iter().map(|(pat, matcher)| Entry {
            needs: needs(&pat),
            rule: index,
            matcher,
        }));
    }

    /// Makes the lists of nodes with this op.
    fn index(&mut self, op: Op) {
        let root = |e: &Entry| e.matcher.steps[0].ops & op.bit() != 0;
        let of_op: Vec<usize> =
            (0..self.entries.len()).filter(|&i| root(&self.entries[i])).collect();
        if of_op.is_empty() {
            return;
        }
        let asked = of_op.iter().filter_map(|&i| self.entries[i].matcher.first_ops());
        let asked = asked.fold(0, |all, ops| all | ops);
        // first sources that no entry asks for have one list
        let mut of_others = None;
        for (first, src) in Op::ALL.iter().map(|&op| Some(op)).chain([None]).enumerate() {
            let is_asked = src.is_none_or(|src| asked & src.bit() != 0);
            let known = of_others.filter(|_| !is_asked);
            let number = known.unwrap_or_else(|| self.number_of(self.list(&of_op, src)));
            of_others = if is_asked { of_others } else { Some(number) };
            self.list_of[op as usize * FIRST_SOURCES + first] = number;
        }
    }

    /// Where the list is, which may be another op's too.
    fn number_of(&mut self, list: List) -> u16 {
        let same = self.lists.iter().rposition(|l| *l == list);
        let number = same.unwrap_or_else(|| {
            self.lists.push(list);
            self.lists.len() - 1
        });
        number as u16
    }

    /// Of these entries, those that may match where the first source has this op.
    fn list(&self, entries: &[usize], src: Option<Op>) -> List {
        let admitted = entries.iter().filter(|&&i| self.entries[i].matcher.admits_first(src));
        let head = |&entry: &usize| {
            let Entry { needs, matcher, .. } = &self.entries[entry];
            Head { needs: *needs, dtypes: matcher.steps[0].dtypes, entry: entry as u16 }
        };
        let heads: Box<[Head]> = admitted.map(head).collect();
        List { folded: heads.iter().map(|h| h.needs.folded()).collect(), heads }
    }

    /// What the first rule that applies makes of `node`, and which rule that was.
    #[inline]
    pub(crate) fn apply<T: Track>(
        &self,
        node: &UOp,
        ctx: &mut C,
        track: &mut T,
    ) -> Option<(UOp, usize)> {
        let first = node.srcs().first().map_or(FIRST_SOURCES - 1, |s| s.op() as usize);
        let number = self.list_of[node.op() as usize * FIRST_SOURCES + first];
        let list = &self.lists[number as usize];
        if list.heads.is_empty() {
            return None;
        }
        let (summary, dtype) = (summary(node), dtype_bit(node.dtype()));
        let lacks = !summary.folded();
        for (i, _) in list.folded.iter().enumerate().filter(|(_, needs)| **needs & lacks == 0) {
            let head = &list.heads[i];
            if head.dtypes & dtype != 0
                && summary.has(&head.needs)
                && let Some(new) =
                    self.attempt(&self.entries[head.entry as usize], node, ctx, track)
            {
                return Some(new);
            }
        }
        None
    }

    fn attempt<T: Track>(
        &self,
        entry: &Entry,
        node: &UOp,
        ctx: &mut C,
        track: &mut T,
    ) -> Option<(UOp, usize)> {
        let rule = entry.rule as usize;
        let started = track.start(rule);
        let new = entry.matcher.run(node, |vars| match self.rights[rule] {
            Right::Plain(rhs) => rhs(&mut (), vars),
            Right::Stateful(rhs) => rhs(ctx, vars),
        });
        let new = new.map(|new| fit(node, new)).filter(|new| new != node);
        track.stop(rule, started, node, new.as_ref());
        new.map(|new| (new, rule))
    }
}

/// Where the bits of source `i` begin in the upper half of a summary.
const fn shift(i: usize) -> u32 {
    21 * i as u32
}

/// How far apart a source's own op and what is below it are.
const OWN: u32 = 32;

/// Three small sets that tell most graphs apart.
#[derive(Clone, Copy, PartialEq)]
struct Summary {
    /// The ops of the sources.
    below: u64,
    /// For each of the first three sources, its op and its own sources or its value, mixed by position.
    above: u64,
    /// The constants in the first three levels of sources, wherever they stand.
    values: u64,
}

impl Summary {
    /// One set that rejects most of what the three reject.
    #[inline]
    fn folded(&self) -> u64 {
        self.below | self.above.rotate_left(23) | self.values.rotate_left(41)
    }

    #[inline]
    fn has(&self, needs: &Summary) -> bool {
        (needs.below & !self.below) | (needs.above & !self.above) | (needs.values & !self.values)
            == 0
    }
}

#[inline]
fn summary(node: &UOp) -> Summary {
    let mut set = Summary { below: node.below(), above: 0, values: 0 };
    for (i, src) in node.srcs().iter().enumerate() {
        set.values |= src.values();
        if i < 3 {
            let own = (op_bit(src.op()) | op_bit(src.uniform().op())).rotate_left(OWN);
            set.above |= (src.below() | own).rotate_left(shift(i));
        }
    }
    set
}

/// The part of the [`summary`] that every node has which the pattern matches.
fn needs(pat: &Pat) -> Summary {
    let op = |pat: &Pat| pat.single_op().map_or(0, op_bit);
    let value = |pat: &Pat| literal(pat).map_or(0, value_bit);
    let srcs = pat.src_pats();
    let below = srcs.iter().fold(0, |set, src| set | op(src));
    let above = srcs.iter().take(3).enumerate().fold(0, |set, (i, src)| {
        let under = src.src_pats().iter().fold(value(src), |set, pat| set | op(pat));
        set | (under | op(src).rotate_left(OWN)).rotate_left(shift(i))
    });
    let values = srcs.iter().fold(0, |set, src| set | literals(src, 3));
    Summary { below, above, values }
}

/// The constant that a pattern asks for.
fn literal(pat: &Pat) -> Option<Const> {
    match pat.value {
        Value::Any | Value::Constant => None,
        Value::Int(i) => Some(Const::Float(i as f64)),
        Value::Is(c) => Some(c),
    }
}

/// The marks of the constants that a pattern asks for in its first `levels` levels.
fn literals(pat: &Pat, levels: u32) -> u64 {
    let below = if levels > 1 { pat.src_pats() } else { &[] };
    let own = literal(pat).map_or(0, value_mark);
    below.iter().fold(own, |set, src| set | literals(src, levels - 1))
}

/// A scalar that replaces a vector or a tensor stands for each of its elements.
fn fit(node: &UOp, new: UOp) -> UOp {
    if !node.op().is_elementwise() && new.op() != Op::Const {
        return new;
    }
    let new = if new.lanes() == 1 { new.splat(node.lanes()) } else { new };
    let scalar = new.shape().is_empty() && !node.shape().is_empty();
    if scalar { new.broadcast_to(node.shape()) } else { new }
}

/// Bits in a node, one per rule set. Sets past this many work as well, but remember only within a call.
const NORMAL_BITS: u32 = 64;

fn next_normal_bit() -> u64 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < NORMAL_BITS).then_some(n + 1));
    next.map_or(0, |n| 1 << n)
}

/// Watches attempts. The driver is instantiated once with a tracker that does nothing.
pub(crate) trait Track {
    /// A point in time.
    type Started;
    fn start(&self, rule: usize) -> Self::Started;
    /// An attempt on `node` is over; if the rule applied, it became `new`.
    fn stop(&mut self, rule: usize, started: Self::Started, node: &UOp, new: Option<&UOp>);
}
