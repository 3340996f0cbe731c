//! Shortens a long error message and writes the whole of it to a file.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// No error has more lines than this.
const MOST_LINES: usize = 40;

/// The text, or its beginning and where the rest is.
pub(super) fn short(text: &str) -> String {
    let lines = text.lines().count();
    if lines <= MOST_LINES {
        return text.to_owned();
    }
    let beginning: Vec<&str> = text.lines().take(MOST_LINES - 1).collect();
    let rest = lines - beginning.len();
    format!("{}\n.. and {rest} more lines, in {}", beginning.join("\n"), filed(text))
}

/// Writes the text to a file, and says to which. Equal texts are one file.
pub(super) fn filed(text: &str) -> String {
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    let path = std::env::temp_dir().join(format!("kiln-bug-{:016x}.txt", hash.finish()));
    match written(&path, text) {
        Ok(()) => path.display().to_string(),
        Err(error) => format!("no file: {}: {error}", path.display()),
    }
}

/// A file that is there already was written for the same text.
fn written(path: &PathBuf, text: &str) -> std::io::Result<()> {
    match File::options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        file => file?.write_all(text.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_all_of_it_is_in_a_file() {
        let text = |lines: usize| (0..lines).map(|i| format!("line {i} of {lines}\n")).collect();
        let long: String = text(41);
        let (beginning, file) = (short(&long), filed(&long));
        assert_eq!(beginning.lines().count(), MOST_LINES);
        assert!(beginning.ends_with(&file) && beginning.contains("line 38 of 41\n.. and 2 more"));
        assert_eq!(std::fs::read_to_string(&file).expect("is there"), long);
        std::fs::remove_file(file).expect("is there");
        let fits: String = text(40);
        assert_eq!(short(&fits), fits);
    }
}
