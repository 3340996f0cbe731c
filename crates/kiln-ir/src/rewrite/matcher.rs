//! Compiled patterns: a list of tests that is run by reference, cloning nothing; and a rule set's dispatch table.

use crate::arg::Arg;
use crate::op::Op;
use crate::pattern::{Pat, Sources, Value, Vars, dtype_bit};
use crate::rule::{Rule, RuleSet};
use crate::uop::UOp;
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
    dtypes: u16,
    ops: u128,
    value: Value,
    arg: Option<Arg>,
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
            && self.arg.as_ref().is_none_or(|arg| arg == node.arg())
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
    let (ops, dtypes, value, arg) = (pat.ops, pat.dtypes, pat.value, pat.arg.clone());
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

/// An order of a rule's left side in the table of its root op. The first three fields reject most nodes.
struct Entry {
    needs: u128,
    dtypes: u16,
    rule: u16,
    matcher: Matcher,
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
    /// By op: which entries may match.
    by_op: Vec<Box<[u16]>>,
    /// The bit by which nodes remember that they are normal under this set; 0 where they do not.
    pub(crate) normal_bit: u64,
}

impl<C> Compiled<C> {
    pub(crate) fn new(set: &RuleSet<C>) -> Compiled<C> {
        let mut compiled = Compiled {
            name: set.name,
            places: Vec::new(),
            rights: Vec::new(),
            entries: Vec::new(),
            by_op: Vec::new(),
            normal_bit: if set.stateful_rules().is_empty() { next_normal_bit() } else { 0 },
        };
        set.stateful_rules().iter().for_each(|r| compiled.add(r, Right::Stateful(r.rhs)));
        set.plain_rules().for_each(|r| compiled.add(r, Right::Plain(r.rhs)));
        compiled.by_op = Op::ALL.iter().map(|op| compiled.entries_for(*op)).collect();
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
            needs: pat.src_pats().iter().filter_map(Pat::single_op).fold(0, |s, op| s | op.bit()),
            dtypes: pat.dtypes,
            rule: index,
            matcher,
        }));
    }

    fn entries_for(&self, op: Op) -> Box<[u16]> {
        let admits = |e: &Entry| e.matcher.steps[0].ops & op.bit() != 0;
        let indices = self.entries.iter().enumerate().filter(|(_, e)| admits(e));
        indices.map(|(i, _)| i as u16).collect()
    }

    /// What the first rule that applies makes of `node`, and which rule that was.
    #[inline]
    pub(crate) fn apply<T: Track>(
        &self,
        node: &UOp,
        ctx: &mut C,
        track: &mut T,
    ) -> Option<(UOp, usize)> {
        let indices = &self.by_op[node.op() as usize];
        if indices.is_empty() {
            return None;
        }
        let (have, dtype) = (source_ops(node), dtype_bit(node.dtype()));
        for &i in indices {
            let entry = &self.entries[i as usize];
            if entry.needs & !have != 0 || entry.dtypes & dtype == 0 {
                continue;
            }
            let rule = entry.rule as usize;
            let started = track.start();
            let new = entry.matcher.run(node, |vars| match self.rights[rule] {
                Right::Plain(rhs) => rhs(&mut (), vars),
                Right::Stateful(rhs) => rhs(ctx, vars),
            });
            let new = new.map(|new| fit(node, new)).filter(|new| new != node);
            track.stop(rule, started, new.is_some());
            if let Some(new) = new {
                return Some((new, rule));
            }
        }
        None
    }
}

/// The ops of a node's sources; a constant vector counts as a constant too.
#[inline]
fn source_ops(node: &UOp) -> u128 {
    node.srcs().iter().fold(0, |set, src| set | src.op().bit() | src.uniform().op().bit())
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
    fn start(&self) -> Self::Started;
    fn stop(&mut self, rule: usize, started: Self::Started, fired: bool);
}
