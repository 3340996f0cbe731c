//! Tokens of one line of text.

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    /// `%name`, without the sign.
    Name(&'a str),
    /// A word or number.
    Atom(&'a str),
    /// Text in quotes, unescaped.
    Quoted(String),
    /// One of `= [ ] , ( )`.
    Sign(char),
}

/// A token and where it starts (columns from 1).
#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) column: usize,
}

/// Why a line is none, and in which column.
pub(super) struct Fail {
    pub(super) column: usize,
    pub(super) message: String,
}

pub(super) fn fail<T>(column: usize, message: impl Into<String>) -> Result<T, Fail> {
    Err(Fail { column, message: message.into() })
}

/// The characters of words and numbers.
pub(super) fn is_atom(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '+' | '-' | '/')
}

/// Splits a line; a comment ends it.
pub(super) fn tokens(line: &str) -> Result<Vec<Token<'_>>, Fail> {
    let mut out = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        let column = line.len() - rest.len() + 1;
        let Some(first) = rest.chars().next().filter(|&c| c != '#') else {
            return Ok(out);
        };
        let (kind, length) = token(rest, first).map_err(|message| Fail { column, message })?;
        out.push(Token { kind, column });
        rest = &rest[length..];
    }
}

fn token(rest: &str, first: char) -> Result<(Kind<'_>, usize), String> {
    match first {
        '%' => match atom(&rest[1..]) {
            "" => Err("a name follows `%`".to_string()),
            name => Ok((Kind::Name(name), name.len() + 1)),
        },
        '"' => quoted(rest),
        '=' | '[' | ']' | ',' | '(' | ')' => Ok((Kind::Sign(first), 1)),
        c if is_atom(c) => Ok((Kind::Atom(atom(rest)), atom(rest).len())),
        c => Err(format!("unexpected character {c:?}")),
    }
}

fn atom(text: &str) -> &str {
    &text[..text.find(|c| !is_atom(c)).unwrap_or(text.len())]
}

fn quoted(text: &str) -> Result<(Kind<'_>, usize), String> {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((Kind::Quoted(out), at + 1)),
            '\\' => match chars.next() {
                Some((_, c @ ('"' | '\\'))) => out.push(c),
                Some((_, 'u')) => {
                    let code: String =
                        chars.by_ref().map(|(_, c)| c).skip(1).take_while(|&c| c != '}').collect();
                    let code = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                    out.push(code.ok_or("`\\u` wants a character's number in braces")?);
                }
                _ => {
                    return Err(
                        "unknown escape; there are `\\\"`, `\\\\` and `\\u{..}`".to_string()
                    );
                }
            },
            c => out.push(c),
        }
    }
    Err("the quotes are not closed".to_string())
}
