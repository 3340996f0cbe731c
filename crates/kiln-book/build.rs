//! Makes a function of each program of the book, at the line at which it stands in its chapter, so that the compiler's
//! messages name that line.

#[allow(dead_code, unreachable_pub)]
#[path = "src/chapter.rs"]
mod chapter;

use std::fmt::Write;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed={}", chapter::folder().display());
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let mut modules = String::new();
    let mut table = String::new();
    for (name, text) in chapter::chapters() {
        let (code, count) = functions(&text);
        if count == 0 {
            continue;
        }
        let module = name.replace('-', "_");
        let path = Path::new(&out).join(format!("{name}.rs"));
        std::fs::write(&path, code).expect("cargo's folder");
        // a rule may be about `x - x`
        writeln!(modules, "#[allow(clippy::eq_op)]\nmod {module} {{ include!({path:?}); }}")
            .expect("a string grows");
        for i in 1..=count {
            writeln!(table, "    ({name:?}, {i}, {module}::program_{i}),").expect("a string grows");
        }
    }
    let programs = format!(
        "{modules}/// Chapter, number from 1, function.\npub(crate) const PROGRAMS: &[(&str, usize, Program)] = &[\n{table}];\n"
    );
    std::fs::write(Path::new(&out).join("programs.rs"), programs).expect("cargo's folder");
}

/// The programs of a chapter as functions, and how many there are.
fn functions(text: &str) -> (String, usize) {
    let source: Vec<&str> = text.lines().collect();
    let mut lines = vec![String::new(); source.len()];
    let mut count = 0;
    for block in chapter::blocks(text).into_iter().filter(chapter::Block::is_program) {
        count += 1;
        lines[block.lines.start - 1] =
            format!("pub(super) fn program_{count}() -> Result<(), Box<dyn std::error::Error>> {{");
        lines[block.lines.end] = "Ok(()) }".to_owned();
        block.lines.for_each(|line| lines[line] = source[line].to_owned());
    }
    (lines.join("\n"), count)
}
