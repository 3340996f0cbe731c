//! `cargo run -p xtask -- tidy`: what rustc and clippy do not know about this repository. Each check is a test too, so
//! that `cargo test --workspace` runs them.

/// Circles of modules.
mod circles;
/// What checks find.
mod finding;
/// Which crate, and which stage of the compiler, may use which.
mod layers;
/// Links in documents.
mod links;
/// Numbers in modules that price.
mod literals;
/// The modules of a crate, and who names whom.
mod modules;
/// Rule names, and where libraries print.
mod names;
/// Which folder may speak of which ops.
mod ops;
/// Which pass each file of the compiler is.
mod passes;
/// Kernels of a commit and of now.
mod replay;
/// How long functions and files are.
mod sizes;
/// The source of the workspace, with comments and strings told apart from code.
mod source;
/// Where `unsafe` may stand, and what must stand beside it.
mod unsafety;

use finding::Finding;
use source::Workspace;
use std::process::ExitCode;

type Check = fn(&Workspace) -> Vec<Finding>;

const CHECKS: &[(&str, Check)] = &[
    ("crate dependencies", layers::crates),
    ("stages", layers::stages),
    ("passes", passes::check),
    ("circles", circles::check),
    ("unsafe", unsafety::check),
    ("ops", ops::check),
    ("numbers", literals::check),
    ("printing", names::prints),
    ("rule names", names::rules),
    ("links", links::check),
];

const USAGE: &str = "usage: cargo run -p xtask -- tidy [--bless] | replay BASE [WORKLOAD ..]
  tidy           checks the source and reports sizes
  tidy --bless   writes the lists of xtask/ops.txt anew from what the source uses
  replay BASE    says which kernels of workloads and tests differ from those of a commit; with names, of workloads that begin so";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["tidy"] => tidy(),
        ["tidy", "--bless"] => ops::bless(&Workspace::load()),
        ["replay", base, names @ ..] => replay::replay(&source::root(), base, names),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> ExitCode {
    let workspace = Workspace::load();
    print!("{}", sizes::report(&workspace));
    let mut count = 0;
    for (name, check) in CHECKS {
        for finding in check(&workspace) {
            println!("{finding} [{name}]");
            count += 1;
        }
    }
    println!("{} checks, {count} findings", CHECKS.len());
    if count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The workspace passes a check.
    fn passes(check: Check) {
        let findings = check(&Workspace::load());
        let text: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(text.is_empty(), "{}", text.join("\n"));
    }

    #[test]
    fn crates_depend_downward() {
        passes(layers::crates);
    }

    #[test]
    fn stages_do_not_know_each_other() {
        passes(layers::stages);
    }

    #[test]
    fn passes_are_in_lists() {
        passes(passes::check);
    }

    #[test]
    fn modules_go_in_no_circles() {
        passes(circles::check);
    }

    #[test]
    fn unsafe_is_confined_and_argued() {
        passes(unsafety::check);
    }

    #[test]
    fn folders_speak_of_their_ops() {
        passes(ops::check);
    }

    #[test]
    fn prices_are_described() {
        passes(literals::check);
    }

    #[test]
    fn libraries_do_not_print() {
        passes(names::prints);
    }

    #[test]
    fn documents_link_to_files() {
        passes(links::check);
    }

    #[test]
    fn rule_names_are_unique() {
        passes(names::rules);
    }
}
