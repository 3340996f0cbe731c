//! Numbers and texts for people.

use std::borrow::Cow;

/// Microseconds for people.
pub(super) fn time(us: f64) -> String {
    match us {
        _ if us >= 1e6 => format!("{:.2} s", us / 1e6),
        _ if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        _ => format!("{us:.1} us"),
    }
}

/// Bytes for people.
pub(super) fn size(bytes: usize) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.2} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kB", b / 1e3),
        b => format!("{b} B"),
    }
}

/// So much of a text as people read.
pub(super) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Such as `1 node`, `3 nodes`, `2 copies` and `2 launches`.
pub(super) fn counted(count: usize, what: &str) -> String {
    match what.strip_suffix('y') {
        _ if count == 1 => format!("1 {what}"),
        Some(stem) => format!("{count} {stem}ies"),
        None if what.ends_with("ch") => format!("{count} {what}es"),
        None => format!("{count} {what}s"),
    }
}

/// The last line of a list that was cut.
pub(super) fn rest(all: usize, most: usize, what: &str) -> String {
    match all.saturating_sub(most) {
        0 => String::new(),
        more => format!("and {more} more {what}: --most shows more\n"),
    }
}
