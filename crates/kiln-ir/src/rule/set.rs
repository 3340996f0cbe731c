//! Sets of rules, compiled when they are first used.

use super::Rule;
use crate::rewrite::Compiled;
use std::sync::OnceLock;

/// Rules that are applied together, earlier ones first. Compiled at first use.
pub struct RuleSet<C: 'static = ()> {
    /// Names the set in reports.
    pub name: &'static str,
    plain: &'static [&'static [Rule]],
    stateful: &'static [Rule<C>],
    compiled: OnceLock<Compiled<C>>,
}

impl RuleSet {
    /// The rules of these tables, in order.
    pub const fn new(name: &'static str, tables: &'static [&'static [Rule]]) -> RuleSet {
        RuleSet::with_state(name, tables, &[])
    }
}

impl<C> RuleSet<C> {
    /// Rules that see a `&mut C`, then those of these tables.
    pub const fn with_state(
        name: &'static str,
        plain: &'static [&'static [Rule]],
        stateful: &'static [Rule<C>],
    ) -> RuleSet<C> {
        RuleSet { name, plain, stateful, compiled: OnceLock::new() }
    }

    /// The tables of rules that need no state.
    pub fn tables(&self) -> &'static [&'static [Rule]] {
        self.plain
    }

    /// The rules that need no state, in order.
    pub fn plain_rules(&self) -> impl Iterator<Item = &'static Rule> + use<C> {
        self.plain.iter().flat_map(|table| table.iter())
    }

    /// The rules that need state, in order.
    pub fn stateful_rules(&self) -> &'static [Rule<C>] {
        self.stateful
    }

    /// Names that occur more than once: a mistake, which a test of each set looks for.
    pub fn duplicate_names(&self) -> Vec<&'static str> {
        let names = self.stateful.iter().map(|r| r.name);
        let mut names: Vec<_> = names.chain(self.plain_rules().map(|r| r.name)).collect();
        names.sort_unstable();
        let mut twice: Vec<_> = names.windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect();
        twice.dedup();
        twice
    }

    pub(crate) fn compiled(&self) -> &Compiled<C> {
        self.compiled.get_or_init(|| Compiled::new(self.name, self.stateful, self.plain_rules()))
    }
}
