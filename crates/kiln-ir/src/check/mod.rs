//! The tests that every rule gets, from its left side alone.
//!
//! Random graphs that match the left side are built with the ordinary constructors, for every dtype that the variables
//! admit. The rule must match some of them, or its left side is not canonical and the rule is dead. It must apply to
//! some. Where it applies, both sides must have the same dtype, width and value: integers exactly, floats bit for bit
//! with one NaN. The right side may be larger only if the rule is marked `grows`. The value of a rule about memory,
//! loops or views needs more than scalars; of such a rule only the left side is checked.

mod generate;
mod values;

use crate::op::Op;
use crate::pattern::{Pat, Vars};
use crate::rewrite::{compile, is_offered};
use crate::rule::{Rule, RuleSet};
use crate::text;
use crate::uop::{UOp, toposort};
use generate::{Generator, Random};
use values::{assign, leaves, value};

/// Random graphs per rule: a hundred or so for each pair of dtypes.
const INSTANCES: usize = 2000;

/// Assignments of values to the variables of each graph that the rule rewrites.
const ASSIGNMENTS: usize = 6;

/// Tests one rule; what is wrong with it, if something is.
pub fn check_rule(rule: &Rule) -> Result<(), String> {
    let pat = check_left(rule)?;
    if !generate::is_scalar(&pat) {
        return Ok(());
    }
    let mut random = Random::new(rule.name);
    let (mut matched, mut fired) = (0, 0);
    for _ in 0..INSTANCES {
        let Some(graph) = Generator::new(&mut random).instance(&pat) else { continue };
        match check_on(rule, &graph, &mut random).map_err(|e| at(rule, &e))? {
            Attempt::NoMatch => {}
            Attempt::Declined => matched += 1,
            Attempt::Fired => (matched, fired) = (matched + 1, fired + 1),
        }
    }
    match (matched, fired) {
        (0, _) => Err(at(rule, &format!("{pat} never matches what constructors build"))),
        (_, 0) => Err(at(rule, "never applied to random graphs; check it on examples")),
        _ => Ok(()),
    }
}

/// Tests a rule on given graphs, on each of which it must apply: for rules that random graphs seldom meet. The leaves
/// are variables (`Var`) and ranges.
pub fn check_rule_on(rule: &Rule, examples: &[UOp]) -> Result<(), String> {
    check_left(rule)?;
    let mut random = Random::new(rule.name);
    for graph in examples {
        match check_on(rule, graph, &mut random).map_err(|e| at(rule, &e))? {
            Attempt::Fired => {}
            Attempt::NoMatch => return Err(at(rule, &format!("does not match {graph:?}"))),
            Attempt::Declined => return Err(at(rule, &format!("does not apply to {graph:?}"))),
        }
    }
    Ok(())
}

/// Everything that is wrong with the rules of a set that need no state, and with the set.
pub fn check_set<C>(set: &RuleSet<C>) -> Vec<String> {
    let twice = set.duplicate_names().into_iter().map(|n| format!("{n} is in {} twice", set.name));
    let plain = set.plain_rules().filter_map(|rule| check_rule(rule).err());
    let stateful = set.stateful_rules().iter().filter_map(|rule| check_left(rule).err());
    twice.chain(plain).chain(stateful).collect()
}

fn at<C>(rule: &Rule<C>, what: &str) -> String {
    format!("{}:{} {}: {what}", rule.file, rule.line, rule.name)
}

/// The left side, which binds every variable and has its constants on the right.
pub fn check_left<C>(rule: &Rule<C>) -> Result<Pat, String> {
    compile(rule).map_err(|e| at(rule, &e))?;
    let pat = (rule.lhs)(&mut Vars::default());
    match constant_on_the_left(&pat) {
        Some(part) => Err(at(rule, &format!("constructors put the constant of {part} right"))),
        None => Ok(pat),
    }
}

fn constant_on_the_left(pat: &Pat) -> Option<&Pat> {
    let commutes = pat.single_op().is_some_and(Op::is_commutative);
    let wrong = matches!(pat.src_pats(), [a, b] if a.is_constant() && !b.is_constant());
    if commutes && wrong {
        return Some(pat);
    }
    pat.src_pats().iter().find_map(constant_on_the_left)
}

/// What a rule did with a graph.
enum Attempt {
    NoMatch,
    Declined,
    Fired,
}

/// Applies the rule to the root and compares.
fn check_on(rule: &Rule, graph: &UOp, random: &mut Random) -> Result<Attempt, String> {
    let matchers = compile(rule)?;
    let mut attempt = Attempt::NoMatch;
    for (pat, matcher) in matchers {
        let matches = matcher.run(graph, |_| Some(())).is_some();
        if matches && !is_offered(&pat, &matcher, graph) {
            return Err(format!("{pat} matches {}, which is rejected early", text::expr(graph)));
        }
        match matcher.run(graph, |vars| Some((rule.rhs)(&mut (), vars))) {
            None => {}
            Some(Some(new)) if new != *graph => {
                compare(rule, graph, &new, random)?;
                return Ok(Attempt::Fired);
            }
            Some(_) => attempt = Attempt::Declined,
        }
    }
    Ok(attempt)
}

fn compare(rule: &Rule, old: &UOp, new: &UOp, random: &mut Random) -> Result<(), String> {
    let both = || format!("{} => {}", text::expr(old), text::expr(new));
    if (new.dtype(), new.lanes().max(old.lanes())) != (old.dtype(), old.lanes()) {
        let (from, to) = ((old.dtype(), old.lanes()), (new.dtype(), new.lanes()));
        return Err(format!("{} changes {from:?} into {to:?}", both()));
    }
    if size(new) > size(old) && !rule.grows {
        return Err(format!("{} grows, and the rule is not marked so", both()));
    }
    let free = leaves(old);
    if let Some(leaf) = leaves(new).into_iter().find(|leaf| !free.contains(leaf)) {
        return Err(format!("{} invents {leaf:?}", both()));
    }
    for _ in 0..ASSIGNMENTS {
        let env = assign(&free, random);
        let (Some(a), Some(b)) = (value(old, &env), value(new, &env)) else { continue };
        if a != b {
            let given: Vec<_> =
                free.iter().map(|x| format!("{} = {}", text::expr(x), env[x])).collect();
            let dtype = old.dtype();
            return Err(format!("{} is {a} => {b} ({dtype}) for {}", both(), given.join(", ")));
        }
    }
    Ok(())
}

/// How many nodes compute something. Constants are free, and so is what folds into one.
fn size(root: &UOp) -> usize {
    let none = Default::default();
    toposort(root).iter().filter(|n| value(n, &none).is_none()).count()
}
