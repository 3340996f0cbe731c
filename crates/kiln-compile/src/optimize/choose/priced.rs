//! Part of pass `choose`: choices between options by price, as observers see them. An alternative is named by its options,
//! as they are applied.

use super::super::opt::Opt;
use kiln_ir::arg::RangeKind;
use kiln_ir::observe::{self, Decision, Kind, MOST_ALTERNATIVES};

/// Options with the price of what they lead to.
pub(super) type Priced = (Vec<Opt>, f64);

/// Tells that of these alternatives the one of the number was taken; nothing without a number. Nothing is made if nobody
/// looks.
pub(super) fn decided(
    about: impl FnOnce() -> String,
    unit: &'static str,
    alternatives: impl FnOnce() -> (Vec<Priced>, Option<usize>),
) {
    if !observe::is_wanted(Kind::Decisions) {
        return;
    }
    let (all, taken) = alternatives();
    let Some(taken) = taken.filter(|_| all.len() > 1) else { return };
    observe::decision(|| {
        let mut order: Vec<usize> = (0..all.len()).filter(|&i| i != taken).collect();
        order.sort_by(|&a, &b| all[a].1.total_cmp(&all[b].1));
        let told = [taken].into_iter().chain(order.iter().copied().take(MOST_ALTERNATIVES - 1));
        let alternatives: Vec<_> =
            told.map(|i| (named(&all[i].0).into(), finite(all[i].1))).collect();
        let left_out = all.len() - alternatives.len();
        let note = match left_out {
            0 => String::new(),
            _ => format!("{left_out} more cost more, or the same"),
        };
        Decision { about: about(), node: None, alternatives, unit, chosen: 0, note }
    });
}

/// A choice between two ways that have names.
pub(super) fn between(
    about: &str,
    unit: &'static str,
    ways: [(&'static str, f64); 2],
    chosen: usize,
) {
    observe::decision(|| Decision {
        about: about.to_owned(),
        node: None,
        alternatives: ways.map(|(name, price)| (name.into(), finite(price))).to_vec(),
        unit,
        chosen,
        note: String::new(),
    });
}

/// What is impossible has no price.
fn finite(price: f64) -> Option<f64> {
    Some(price).filter(|price| price.is_finite())
}

/// The options as they will be applied: without those that do nothing.
fn named(options: &[Opt]) -> String {
    let does = |o: &&Opt| match o {
        Opt::Split { kind, by, .. } => *by > 1 || *kind == RangeKind::Thread,
        _ => true,
    };
    let names: Vec<String> = options.iter().filter(does).map(ToString::to_string).collect();
    if names.is_empty() { "as it is".to_owned() } else { names.join(" ") }
}
