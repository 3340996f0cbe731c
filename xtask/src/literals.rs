//! Numbers in modules that price: they are fields of the description of a machine, each with its source, and stand
//! nowhere else.

use crate::finding::Finding;
use crate::source::{File, Workspace, is_word};

/// The modules that price.
const PRICING: &[&str] = &[
    "crates/kiln-compile/src/schedule/cost.rs",
    "crates/kiln-compile/src/schedule/split.rs",
    "crates/kiln-compile/src/optimize/choose/",
];

/// Numbers that say nothing of a machine: none, one, and two for a half, a pair, or twice.
const PLAIN: [f64; 3] = [0.0, 1.0, 2.0];

pub(crate) fn check(workspace: &Workspace) -> Vec<Finding> {
    let pricing = |f: &&File| PRICING.iter().any(|path| f.path.starts_with(path));
    workspace.sources().filter(pricing).flat_map(findings).collect()
}

fn findings(file: &File) -> Vec<Finding> {
    let odd = numbers(&file.code).into_iter().filter(|(_, text)| !is_plain(text));
    odd.map(|(at, text)| Finding {
        path: file.path.clone(),
        line: file.line(at),
        message: format!("{text} belongs into `Costs`, with its source"),
    })
    .collect()
}

/// Where a number starts, and its text.
fn numbers(code: &str) -> Vec<(usize, &str)> {
    let starts = |&(at, c): &(usize, char)| {
        let before = code[..at].chars().next_back();
        // the field of a tuple is no number, but the end of a range is
        let is_field = before == Some('.') && !code[..at].ends_with("..");
        c.is_ascii_digit() && !before.is_some_and(is_word) && !is_field
    };
    code.char_indices().filter(starts).map(|(at, _)| (at, number(&code[at..]))).collect()
}

/// The number that a text starts with: digits, a fraction, an exponent, a type.
fn number(text: &str) -> &str {
    let word = |from: usize| text[from..].find(|c| !is_word(c)).map_or(text.len(), |n| from + n);
    let whole = word(0);
    let is_fraction = text[whole..].starts_with('.')
        && text[whole + 1..].starts_with(|c: char| c.is_ascii_digit());
    &text[..if is_fraction { word(whole + 1) } else { whole }]
}

fn is_plain(text: &str) -> bool {
    // a type may follow: `1u32`, `0f64`
    let digits = text.split(['u', 'i', 'f']).next().unwrap_or(text);
    digits.parse().is_ok_and(|n: f64| PLAIN.contains(&n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<String> {
        let file = File::new("crates/kiln-compile/src/schedule/cost.rs", code.to_string());
        findings(&file).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn numbers_of_machines_are_found() {
        assert_eq!(found("let x = 3; let y = 0.25 * z.0; let w = 1e6;").len(), 3);
        assert_eq!(found("f(16usize, 1 << 19, 0x40, 8.0)").len(), 4);
    }

    #[test]
    fn plain_numbers_and_names_are_not() {
        let code = "let a1 = t.3.min(2.0) + 1u32 + 0.0 + 2f64; for i in 0..b64 { u32::MAX } // 77";
        assert_eq!(found(code), Vec::<String>::new());
    }
}
