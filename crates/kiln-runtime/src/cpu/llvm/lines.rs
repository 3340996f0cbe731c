//! What tells LLVM of which line each instruction of a text is.
//!
//! kiln writes an instruction a line, indented, and indents nothing else. So the text is changed line by line and no line
//! moves: LLVM is told what a reader of the text counts.

use std::fmt::Write;

/// The text, with its lines told. DWARF 4, because its table of lines needs no other section.
pub(super) fn told(source: &str) -> String {
    let first = unused(source);
    let [unit, file, version, dwarf] = [0, 1, 2, 3].map(|n| first + n);
    let (mut text, mut functions) = (String::with_capacity(2 * source.len()), String::new());
    let mut scope = dwarf;
    for (line, number) in source.lines().zip(1..) {
        if let Some(head) = line.strip_prefix("define ").and_then(|l| l.strip_suffix('{')) {
            scope += 1;
            let _ = writeln!(text, "define {head}!dbg !{scope} {{");
            functions.push_str(&function(scope, number, [unit, file]));
        } else if is_instruction(line) {
            let _ = writeln!(text, "{line}, !dbg !DILocation(line: {number}, scope: !{scope})");
        } else {
            let _ = writeln!(text, "{line}");
        }
    }
    text + &functions
        + &format!(
            "!llvm.dbg.cu = !{{!{unit}}}\n\
             !llvm.module.flags = !{{!{version}, !{dwarf}}}\n\
             !{unit} = distinct !DICompileUnit(language: DW_LANG_C99, file: !{file}, emissionKind: LineTablesOnly)\n\
             !{file} = !DIFile(filename: \"kernel\", directory: \"\")\n\
             !{version} = !{{i32 2, !\"Debug Info Version\", i32 3}}\n\
             !{dwarf} = !{{i32 7, !\"Dwarf Version\", i32 4}}\n"
        )
}

/// What describes the function whose text begins at a line.
fn function(name: usize, line: usize, [unit, file]: [usize; 2]) -> String {
    format!(
        "!{name} = distinct !DISubprogram(name: \"kernel\", scope: !{file}, file: !{file}, line: {line}, \
         type: !DISubroutineType(types: !{{}}), spFlags: DISPFlagDefinition, unit: !{unit})\n"
    )
}

fn is_instruction(line: &str) -> bool {
    line.starts_with(' ') && !line.trim().is_empty()
}

/// A number from which on the text names nothing.
fn unused(source: &str) -> usize {
    let named = source.lines().filter_map(|line| line.strip_prefix('!')?.split(' ').next());
    named.filter_map(|number| number.parse::<usize>().ok()).max().map_or(0, |last| last + 1)
}
