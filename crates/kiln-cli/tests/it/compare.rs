//! `kiln compare`: kernels of the same programs, made otherwise.

use crate::run::{Folder, kiln};
use std::path::Path;
use std::process::Command;

fn record(path: &Path, noopt: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "programs::child", "--ignored"]).env("TEST_PROGRAM", "writes");
    command.env("VIZ", path).env("KILN_CACHE", "none").env("NOOPT", noopt);
    assert!(command.output().unwrap().status.success());
}

#[test]
fn kernels_that_are_made_otherwise_are_told() {
    let home = Folder::new();
    for (name, noopt) in [("first", "0"), ("again", "0"), ("plain", "1")] {
        record(&home.path(name), noopt);
    }
    let same = kiln(&home, "compare first again", &[]).out;
    assert!(same.contains(" kernels are the same, 0 differ, 0 are gone, 0 are new"), "{same}");
    assert!(same.contains("(1.000 times)"), "{same}");
    let other = kiln(&home, "compare first plain --text", &[]).out;
    assert!(other.starts_with("differs  ") && other.contains("] -> []"), "{other}");
    assert!(other.contains("\n--- base\n+++ now\n"), "{other}");
    assert!(!other.contains(" 0 differ") && other.contains("0 are gone, 0 are new"), "{other}");
    kiln(&home, "compare first nowhere", &[]).fails_with("nowhere");
}
