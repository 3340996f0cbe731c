//! `kiln devices`, `kiln env`, `kiln passes` and what `kiln bench` says.

use crate::run::{Folder, kiln};

#[test]
fn devices_name_their_compilers_or_what_is_missing() {
    let home = Folder::new();
    let said = kiln(&home, "devices", &[("KILN_CC", "none"), ("DEV", "NULL")]);
    let line = |name: &str| said.out.lines().find(|l| l[2..].starts_with(name)).unwrap();
    assert!(said.ok && line("CPU ").contains("CPU:LLVM, LLVM "), "{}", said.out);
    assert!(line("CPU:C ").contains("missing: ") && line("CPU:C ").contains("KILN_CC=none"));
    assert!(line("INTERP").contains("interpreted") && line("NULL").starts_with('*'));
}

#[test]
fn variables_are_listed_with_what_they_are_set_to() {
    let home = Folder::new();
    let said = kiln(&home, "env", &[("KILN_THREADS", "3")]);
    let names = "BEAM BEAM_SECONDS DEBUG DEV NOOPT KILN_LLVM KILN_CC KILN_THREADS KILN_CACHE KILN_CACHE_MB KILN_CC_SECONDS XDG_CACHE_HOME KILN_PANIC NO_COLOR";
    for name in names.split(' ') {
        assert!(said.out.lines().any(|l| l.starts_with(&format!("{name} "))), "{name}");
    }
    let threads = said.out.lines().find(|l| l.starts_with("KILN_THREADS")).unwrap();
    assert!(threads.contains(" 3 "), "{threads}");
}

#[test]
fn passes_are_listed_in_order_with_what_they_leave() {
    let said = kiln(&Folder::new(), "passes", &[]);
    let lines: Vec<&str> = said.out.lines().collect();
    let at = |start: &str| lines.iter().position(|l| l.starts_with(start)).expect(start);
    assert!(said.ok && at("schedule") < at("  assign ") && at("  assign ") < at("optimize"));
    assert!(at("lower") < at("  linearize ") && at("  linearize ") < at("render"));
    assert!(lines[at("  index ")].ends_with("indices are i32 or i64 (INDEXED)"), "{}", said.out);
    let passes = lines.iter().filter(|l| l.starts_with("  "));
    assert_eq!(passes.count(), kiln::passes().len());
}

#[test]
fn rules_are_counted_at_exit() {
    let env = [("TRACK_MATCH_STATS", "1"), ("KILN_CACHE", "none")];
    let said = kiln(&Folder::new(), "digits --limit 16 --batch 16", &env);
    assert!(said.ok && said.err.contains("fired / tried"), "{}", said.err);
    assert!(said.err.lines().last().unwrap().ends_with("total"), "{}", said.err);
}

#[test]
fn programs_are_timed_and_searched() {
    let home = Folder::new();
    let listed = kiln(&home, "bench --list", &[]);
    assert!(listed.ok && listed.out.lines().any(|l| l.starts_with("matmul ")), "{}", listed.out);
    let unknown = kiln(&home, "bench nothing", &[]);
    assert!(!unknown.ok && unknown.err.contains("no program is called nothing"), "{}", unknown.err);
    let timed = kiln(&home, "bench dense", &[]);
    assert!(timed.ok && timed.out.starts_with("dense "), "{}", timed.out);
    for _ in 0..2 {
        let found = kiln(&home, "bench dense --beam 1", &[("BEAM_SECONDS", "60")]);
        for part in ["by heuristic", "times as fast", "tried", "heuristic ", "matmul"] {
            assert!(found.ok && found.out.contains(part), "no {part:?} in {}", found.out);
        }
    }
}
