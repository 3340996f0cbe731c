//! A chapter of the book as its fenced blocks. The build script and the tests read chapters with the same functions.

use std::path::{Path, PathBuf};

/// A fenced block of a chapter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// What stands behind the opening fence.
    pub info: String,
    /// Its lines in the chapter, from 0, without the fences.
    pub lines: std::ops::Range<usize>,
}

impl Block {
    /// Whether it is a program, which is compiled and run.
    pub fn is_program(&self) -> bool {
        self.info == "rust"
    }

    /// What it shows of the program above it; `None` if people have written it.
    pub fn shows(&self) -> Option<&str> {
        self.info.strip_prefix("text ")
    }
}

/// The blocks of a chapter, in order.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut out = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    for (number, line) in text.lines().enumerate() {
        let Some(info) = line.strip_prefix("```") else { continue };
        open = match open {
            None => Some((info, number + 1)),
            Some((info, start)) => {
                out.push(Block { info: info.to_owned(), lines: start..number });
                None
            }
        };
    }
    out
}

/// Where the chapters are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src")
}

/// The chapters, by their names in order, with their text.
pub fn chapters() -> Vec<(String, String)> {
    let files = std::fs::read_dir(folder()).expect("the book").map(|file| file.expect("a file"));
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "md"));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).expect("a chapter is UTF-8"))
    };
    paths.into_iter().map(read).collect()
}
