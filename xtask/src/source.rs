//! Reads the workspace's Rust files. No parser: comments, strings and tests are blanked out, and what is left can be
//! searched by tokens without false alarms.

use std::fs;
use std::path::{Path, PathBuf};

/// One Rust file.
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    /// As it is.
    pub(crate) text: String,
    /// The same length and lines, with spaces for comments, strings and `#[cfg(test)]` modules.
    pub(crate) code: String,
}

/// The folder of this repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask has a parent").to_path_buf()
}

/// Everything that the checks look at.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Sorted by path.
    pub(crate) files: Vec<File>,
}

impl Workspace {
    /// This repository.
    pub(crate) fn load() -> Workspace {
        let root = root();
        let mut paths = Vec::new();
        for folder in ["crates", "bench", "xtask"] {
            rust_files(&root.join(folder), &mut paths);
        }
        paths.sort();
        let files = paths.into_iter().map(|path| {
            let text = fs::read_to_string(&path).expect("a source file is UTF-8");
            let path = path.strip_prefix(&root).expect("under the root").to_string_lossy();
            File::new(&path.replace('\\', "/"), text)
        });
        Workspace { root: root.clone(), files: files.collect() }
    }

    /// The files of libraries and binaries, without tests.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|f| !f.is_test())
    }
}

fn rust_files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

impl File {
    pub(crate) fn new(path: &str, text: String) -> File {
        let code = without_tests(&blanked(&text));
        File { path: path.to_string(), text, code }
    }

    /// Tests, benches and examples, which may do more than what ships.
    fn is_test(&self) -> bool {
        ["/tests/", "/benches/", "/examples/"].iter().any(|f| self.path.contains(f))
            || self.path.ends_with("/tests.rs")
    }

    /// The crate's folder: `crates/kiln-ir`.
    pub(crate) fn package(&self) -> &str {
        match self.path.match_indices('/').nth(1) {
            Some((at, _)) if self.path.starts_with("crates/") => &self.path[..at],
            _ => self.path.split('/').next().unwrap_or(""),
        }
    }

    /// The line (from 1) of a byte of the text.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count() + 1
    }

    /// Where a word stands in the code, not as part of a longer one.
    pub(crate) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
            let before = self.code[..at].chars().next_back();
            let after = self.code[at + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    }
}

/// Whether a character continues an identifier.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The identifier that a text starts with.
pub(crate) fn identifier(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

/// The text with spaces for all that is not code.
fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = at + not_code(&text[at..], at.checked_sub(1).map(|i| bytes[i]));
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    // only whole characters were replaced; what is left of non-ASCII code is valid as it was
    String::from_utf8_lossy(&out).into_owned()
}

/// How many bytes of comment or literal the text starts with. `before` is the byte in front of it.
fn not_code(text: &str, before: Option<u8>) -> usize {
    let in_word = before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    let bytes = text.as_bytes();
    match bytes[0] {
        b'/' if text.starts_with("//") => text.find('\n').unwrap_or(text.len()),
        b'/' if text.starts_with("/*") => text.find("*/").map_or(text.len(), |i| i + 2),
        b'"' => quoted(text, 1),
        b'r' | b'b' | b'c' if !in_word => prefixed(text),
        b'\'' => character(text),
        _ => 0,
    }
}

/// The length of a string whose content starts at `from`.
fn quoted(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// `r"..."`, `r#"..."#`, `b"..."`, `br"..."`, `c"..."`; 0 for an identifier.
fn prefixed(text: &str) -> usize {
    let letters = text.len() - text.trim_start_matches(['b', 'r', 'c']).len();
    let rest = &text[letters..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if !rest[hashes..].starts_with('"') || letters > 2 {
        return 0;
    }
    if !text[..letters].contains('r') {
        return quoted(text, letters + 1);
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let body = letters + hashes + 1;
    text[body..].find(&close).map_or(text.len(), |i| body + i + close.len())
}

/// A character literal; 0 for a lifetime.
fn character(text: &str) -> usize {
    if text.starts_with("'\\") {
        return text.get(3..).and_then(|t| t.find('\'')).map_or(0, |i| i + 4);
    }
    let mut chars = text.char_indices().skip(2);
    match chars.next() {
        Some((at, '\'')) => at + 1,
        _ => 0,
    }
}

/// The code with spaces for modules under `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let mut out = code.to_string();
    while let Some(at) = out.find("#[cfg(test)]") {
        let brace = out[at..].find(['{', ';']).map_or(out.len(), |i| at + i);
        let end = if out[brace..].starts_with('{') { block_end(&out, brace) } else { brace };
        let blank: String = out[at..end]
            .chars()
            .flat_map(|c| std::iter::repeat_n(if c == '\n' { c } else { ' ' }, c.len_utf8()))
            .collect();
        out.replace_range(at..end, &blank);
    }
    out
}

/// The byte after the brace that closes the one at `open`.
pub(crate) fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (i, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return i + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        let text = "let a = \"un\\\"safe\"; // unsafe\nlet b = r#\"unsafe\"#; /* unsafe */ let c = '\\'';\nfn f<'a>(x: &'a str) {}\n#[cfg(test)]\nmod tests { unsafe {} }\n";
        let file = File::new("crates/x/src/a.rs", text.to_string());
        assert_eq!(file.code.len(), text.len());
        assert_eq!(file.words("unsafe").count(), 0);
        assert_eq!(file.words("let").count(), 3);
        assert_eq!(file.words("str").map(|at| file.line(at)).collect::<Vec<_>>(), [3]);
    }
}
