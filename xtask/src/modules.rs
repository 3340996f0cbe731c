//! The modules of a crate, and which file names an item of which other file.
//!
//! Names are read from tokens: `use` trees, and paths in the code that start with `crate`, `super`, `self`, a module or
//! an import. A path leads to the file in which its item is defined: re-exports are followed, and a module by itself is
//! no item. What another crate defines, and what a method call finds, is not seen.

use crate::source::{File, is_word};
use std::collections::BTreeMap;

/// A `use` of one name.
struct Import<'a> {
    /// `*` for a glob.
    name: &'a str,
    path: Vec<&'a str>,
    /// A re-export: an edge only where the file itself uses the name.
    is_public: bool,
    at: usize,
}

struct Module<'a> {
    /// Names from the root of the crate.
    path: Vec<&'a str>,
    file: usize,
    imports: Vec<Import<'a>>,
    /// Paths in code, with their places.
    paths: Vec<(Vec<&'a str>, usize)>,
}

/// All modules of a crate. The inline ones belong to the file that they stand in.
pub(crate) struct Modules<'a> {
    modules: Vec<Module<'a>>,
    by_path: BTreeMap<Vec<&'a str>, usize>,
    /// Macros that the root has, whichever file defines them.
    macros: BTreeMap<&'a str, usize>,
}

/// More re-exports of re-exports than anybody writes.
const MOST_STEPS: usize = 16;

impl<'a> Modules<'a> {
    /// The modules of a crate's files, all under one `src`.
    pub(crate) fn read(files: &[&'a File]) -> Modules<'a> {
        let mut out =
            Modules { modules: Vec::new(), by_path: BTreeMap::new(), macros: BTreeMap::new() };
        for (number, file) in files.iter().enumerate() {
            let tokens = tokens(&file.code);
            out.scope(&tokens, module_path(&file.path), number);
        }
        out
    }

    /// Each file that a file names, with the first place.
    pub(crate) fn edges(&self) -> BTreeMap<(usize, usize), usize> {
        let mut out = BTreeMap::new();
        for (from, module) in self.modules.iter().enumerate() {
            let private = module.imports.iter().filter(|i| !i.is_public);
            let named = private.map(|i| (&i.path, i.at));
            for (path, at) in named.chain(module.paths.iter().map(|(path, at)| (path, *at))) {
                let to = self.resolve(from, path, MOST_STEPS).filter(|&to| to != module.file);
                if let Some(to) = to {
                    let first: &mut usize = out.entry((module.file, to)).or_insert(at);
                    *first = at.min(*first);
                }
            }
        }
        out
    }

    /// The file of the item that a path in the module `from` names, if it is one of this crate.
    fn resolve(&self, from: usize, path: &[&'a str], steps: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        match *first {
            "crate" => self.item(*self.by_path.get(&Vec::new())?, rest, steps),
            "self" => self.item(from, rest, steps),
            "super" => {
                let (_, above) = self.modules[from].path.split_last()?;
                let above = *self.by_path.get(above)?;
                match rest.first() {
                    Some(&"super") => self.resolve(above, rest, steps),
                    _ => self.item(above, rest, steps),
                }
            }
            name if self.child(from, name).is_some() || self.import(from, name).is_some() => {
                self.item(from, path, steps)
            }
            _ => None,
        }
    }

    /// The file of the item that `path` is in the module `within`. What is neither a module nor imported is its own.
    fn item(&self, within: usize, path: &[&'a str], steps: usize) -> Option<usize> {
        let (name, rest) = path.split_first()?;
        let steps = steps.checked_sub(1)?;
        let import = self.import(within, name);
        match self.child(within, name) {
            // where a module and an import have one name, the import is a function
            Some(child) if import.is_none() || !rest.is_empty() => self.item(child, rest, steps),
            _ => match import {
                Some(import) => self.resolve(within, &[&import.path, rest].concat(), steps),
                None if self.modules[within].path.is_empty() => {
                    let at_root = self.modules[within].file;
                    Some(self.macros.get(name).copied().unwrap_or(at_root))
                }
                None => Some(self.modules[within].file),
            },
        }
    }

    fn child(&self, of: usize, name: &'a str) -> Option<usize> {
        self.by_path.get(&[&self.modules[of].path[..], &[name]].concat()).copied()
    }

    fn import(&self, within: usize, name: &str) -> Option<&Import<'a>> {
        self.modules[within].imports.iter().find(|i| i.name == name)
    }

    /// Reads the tokens of one module, and those of the modules in it.
    fn scope(&mut self, tokens: &[Token<'a>], path: Vec<&'a str>, file: usize) {
        let mut module = Module { path, file, imports: Vec::new(), paths: Vec::new() };
        let text = |at: usize| tokens.get(at).map_or("", |t| t.text);
        let mut at = 0;
        while at < tokens.len() {
            let before = at.checked_sub(1).map_or("", text);
            at = match text(at) {
                "pub" if text(at + 1) == "(" => closing(tokens, at + 1),
                "use" if text(at + 1) != "<" => {
                    let is_public = ["pub", ")"].contains(&before);
                    let end = (at..tokens.len()).find(|&i| text(i) == ";").unwrap_or(tokens.len());
                    use_tree(&tokens[at + 1..end], &[], is_public, &mut module.imports);
                    end
                }
                "mod" if text(at + 2) == "{" => {
                    let end = closing(tokens, at + 2);
                    let inner = [&module.path[..], &[text(at + 1)]].concat();
                    self.scope(&tokens[at + 3..end], inner, file);
                    end
                }
                "mod" => at + 2, // the name of a child, not a use of it
                "macro_rules" if before == "]" && text(at - 2) == "macro_export" => {
                    self.macros.insert(text(at + 2), file);
                    at + 1
                }
                word if word.starts_with(is_word) && ![".", "::"].contains(&before) => {
                    let (path, end) = code_path(tokens, at);
                    module.paths.push((path, tokens[at].at));
                    end
                }
                _ => at + 1,
            };
        }
        self.by_path.insert(module.path.clone(), self.modules.len());
        self.modules.push(module);
    }
}

/// `[a, b]` for `src/a/b.rs` and `src/a/b/mod.rs`; nothing for the root of the crate.
fn module_path(file: &str) -> Vec<&str> {
    let inside = file.split_once("/src/").map_or(file, |(_, inside)| inside);
    let mut path: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    if matches!(path[..], [.., "mod"] | ["lib" | "main"]) {
        path.pop();
    }
    path
}

/// A word, `::`, or one other character.
struct Token<'a> {
    text: &'a str,
    at: usize,
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = code[at..].chars().next() {
        let rest = &code[at..];
        let length = match c {
            _ if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            _ => c.len_utf8(),
        };
        if !c.is_whitespace() {
            out.push(Token { text: &rest[..length], at });
        }
        at += length;
    }
    out
}

/// The place of the bracket that closes the one at `open`.
fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    tokens.len()
}

/// The path that starts at `at`, and where it ends.
fn code_path<'a>(tokens: &[Token<'a>], at: usize) -> (Vec<&'a str>, usize) {
    let mut path = vec![tokens[at].text];
    let mut end = at + 1;
    while let [colons, name, ..] = &tokens[end..]
        && colons.text == "::"
        && name.text.starts_with(is_word)
    {
        path.push(name.text);
        end += 2;
    }
    (path, end)
}

/// Adds the imports of `a::{b, c as d}`, whose paths start with `prefix`.
fn use_tree<'a>(
    tokens: &[Token<'a>],
    prefix: &[&'a str],
    is_public: bool,
    out: &mut Vec<Import<'a>>,
) {
    let mut path = prefix.to_vec();
    let mut name = None;
    let mut i = 0;
    while i < tokens.len() {
        match tokens[i].text {
            "{" => {
                let end = closing(tokens, i).min(tokens.len());
                return list(&tokens[i + 1..end], |tree| use_tree(tree, &path, is_public, out));
            }
            "as" => {
                name = tokens.get(i + 1).map(|t| t.text);
                i += 1;
            }
            "::" => {}
            word => path.push(word),
        }
        i += 1;
    }
    if path.len() > 1 && path.last() == Some(&"self") {
        path.pop(); // `a::{self}` is `a`
    }
    let Some(at) = tokens.first().map(|t| t.at) else { return };
    let name = name.or(path.last().copied()).unwrap_or("");
    out.push(Import { name, path, is_public, at });
}

/// Hands each of the trees between commas to `take`.
fn list<'a, 't>(tokens: &'t [Token<'a>], mut take: impl FnMut(&'t [Token<'a>])) {
    let mut start = 0;
    let mut i = 0;
    while i < tokens.len() {
        match tokens[i].text {
            "{" => i = closing(tokens, i),
            "," => {
                take(&tokens[start..i]);
                start = i + 1;
            }
            _ => {}
        }
        i += 1;
    }
    take(&tokens[start.min(tokens.len())..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The edges between files, as `a.rs -> b.rs`.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files
            .iter()
            .map(|(name, code)| File::new(&format!("crates/x/src/{name}"), (*code).to_string()))
            .collect();
        let files: Vec<&File> = files.iter().collect();
        let name = |i: usize| files[i].path.trim_start_matches("crates/x/src/").to_string();
        let edges = Modules::read(&files).edges();
        edges.keys().map(|&(from, to)| format!("{} -> {}", name(from), name(to))).collect()
    }

    #[test]
    fn paths_and_imports_lead_to_files() {
        let lib = ("lib.rs", "mod a; mod b; pub(in crate::a) fn f() {}");
        let b = ("b.rs", "pub(crate) struct B; pub(crate) fn g() {}");
        assert_eq!(edges(&[lib, ("a.rs", "use crate::b::B;"), b]), ["a.rs -> b.rs"]);
        assert_eq!(edges(&[lib, ("a.rs", "fn h() { super::b::g() }"), b]), ["a.rs -> b.rs"]);
        assert_eq!(edges(&[lib, ("a.rs", "use crate::{b}; type C = b::B;"), b]), ["a.rs -> b.rs"]);
        assert_eq!(edges(&[lib, ("a.rs", "use super::b::{g as k, B};"), b]), ["a.rs -> b.rs"]);
        assert_eq!(edges(&[lib, ("a.rs", "fn h() { super::f() }"), b]), ["a.rs -> lib.rs"]);
        // a module is no item, text and tests are no code, and a method is not looked for
        assert!(edges(&[lib, ("a.rs", "use crate::b; // b::B\nfn h() { b.g() }"), b]).is_empty());
        assert!(
            edges(&[lib, ("a.rs", "#[cfg(test)]\nmod tests { use crate::b::B; }"), b]).is_empty()
        );
        assert!(edges(&[lib, ("a.rs", "use std::b::B; fn h() { other::b::g() }"), b]).is_empty());
    }

    #[test]
    fn re_exports_are_transparent() {
        let top = ("a/mod.rs", "mod c; pub use c::C;");
        let c = ("a/c.rs", "pub struct C;");
        assert_eq!(edges(&[("lib.rs", "mod a; fn f() -> a::C {}"), top, c]), ["lib.rs -> a/c.rs"]);
        let lib = ("lib.rs", "mod a; pub use a::C; mod b;");
        assert_eq!(edges(&[lib, top, c, ("b.rs", "use crate::C;")]), ["b.rs -> a/c.rs"]);
        // but a parent that uses what it exports depends on it
        let uses = ("a/mod.rs", "mod c; pub use c::C; fn f() -> C {}");
        assert_eq!(edges(&[("lib.rs", "mod a;"), uses, c]), ["a/mod.rs -> a/c.rs"]);
        assert_eq!(
            edges(&[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "#[macro_export]\nmacro_rules! m { () => {} }"),
                ("b.rs", "use crate::m;")
            ]),
            ["b.rs -> a.rs"]
        );
    }

    #[test]
    fn modules_in_a_file_belong_to_it() {
        let a = (
            "a.rs",
            "mod sealed { use super::T; use super::super::b::B; pub struct S; }\nuse sealed::S;",
        );
        let files = [
            ("lib.rs", "mod a; mod b; pub mod args { pub use crate::b::B; }"),
            a,
            ("b.rs", "use crate::a::sealed::S;"),
        ];
        assert_eq!(edges(&files), ["a.rs -> b.rs", "b.rs -> a.rs"]);
        let through = [files[0], ("a.rs", "use crate::args::B;"), ("b.rs", "")];
        assert_eq!(edges(&through), ["a.rs -> b.rs"]);
    }
}
