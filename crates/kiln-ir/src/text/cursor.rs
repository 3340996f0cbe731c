//! Reads the tokens of a line one after the other: signs, lists, names and constants.

use super::lex::{Fail, Kind, Token, fail};
use super::type_name;
use crate::dtype::{Const, DType};
use crate::uop::UOp;
use rustc_hash::FxHashMap;

/// The nodes so far.
pub(super) type Names<'a> = FxHashMap<&'a str, UOp>;

/// Walks over the tokens of a line.
pub(super) struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    pub(super) at: usize,
    end: usize,
}

impl<'t, 'a> Cursor<'t, 'a> {
    /// The tokens of a line of `len` bytes.
    pub(super) fn new(tokens: &'t [Token<'a>], len: usize) -> Cursor<'t, 'a> {
        Cursor { tokens, at: 0, end: len + 1 }
    }

    pub(super) fn peek(&self) -> Option<&'t Kind<'a>> {
        self.tokens.get(self.at).map(|t| &t.kind)
    }

    pub(super) fn column(&self) -> usize {
        self.tokens.get(self.at).map_or(self.end, |t| t.column)
    }

    pub(super) fn atom_if(&mut self, accept: impl Fn(&str) -> bool) -> Option<&'a str> {
        match self.peek() {
            Some(Kind::Atom(atom)) if accept(atom) => {
                self.at += 1;
                Some(atom)
            }
            _ => None,
        }
    }

    pub(super) fn sign_if(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(&Kind::Sign(sign));
        self.at += found as usize;
        found
    }

    pub(super) fn sign(&mut self, sign: char) -> Result<(), Fail> {
        match self.sign_if(sign) {
            true => Ok(()),
            false => fail(self.column(), format!("`{sign}` is expected here")),
        }
    }

    /// `[a, b, ..]`, whose `[` has been read.
    pub(super) fn list(&mut self) -> Result<Vec<(&'a str, usize)>, Fail> {
        let mut out = Vec::new();
        while !self.sign_if(']') {
            if !out.is_empty() {
                self.sign(',')?;
            }
            let column = self.column();
            match self.atom_if(|_| true) {
                Some(atom) => out.push((atom, column)),
                None => return fail(column, "a number or `]` is expected here"),
            }
        }
        Ok(out)
    }

    /// A source: a name or a constant.
    pub(super) fn operand(&mut self, names: &Names<'_>) -> Result<UOp, Fail> {
        let column = self.column();
        let node = match self.peek() {
            Some(Kind::Name(name)) => match names.get(name) {
                Some(node) => Ok(node.clone()),
                None => Err(format!("%{name} is not defined above")),
            },
            Some(Kind::Atom(atom)) => match literal(atom) {
                Some(node) => node,
                None => Err(format!("`{atom}` is neither a name nor a constant")),
            },
            _ => Err("a source is expected here".to_string()),
        };
        self.at += 1;
        node.or_else(|message| fail(column, message))
    }
}

/// The constant that an atom spells; `None` where the atom is no constant at all.
pub(super) fn literal(atom: &str) -> Option<Result<UOp, String>> {
    if let Some((value, ty)) = atom.split_once(':') {
        return Some(typed_literal(value, ty));
    }
    match atom {
        "true" | "false" => Some(Ok(UOp::bool(atom == "true"))),
        _ if atom.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            let value = atom.parse().map_err(|_| {
                format!(
                    "`{atom}` is no index constant; other constants name their type as in `1.5:f32`"
                )
            });
            Some(value.map(UOp::index))
        }
        _ => None,
    }
}

fn typed_literal(value: &str, ty: &str) -> Result<UOp, String> {
    let (dtype, lanes) = parse_type(ty).ok_or_else(|| format!("there is no type `{ty}`"))?;
    let constant = match dtype {
        DType::F64 => value.parse().ok().map(Const::Float),
        d if d.is_float() => value.parse::<f32>().ok().map(|f| Const::Float(f as f64)),
        d if d.is_unsigned() => value.parse().ok().map(Const::UInt).filter(|c| c.cast(d) == *c),
        d if d.is_signed() => value.parse().ok().map(Const::Int).filter(|c| c.cast(d) == *c),
        DType::Bool => value.parse().ok().map(Const::Bool),
        _ => None,
    };
    let constant = constant.ok_or_else(|| format!("`{value}` is no {}", type_name(dtype, 1)))?;
    Ok(UOp::constant(constant, dtype).splat(lanes))
}

/// `f32` or `f32x4`.
pub(super) fn parse_type(text: &str) -> Option<(DType, u16)> {
    match DType::parse(text) {
        Some(dtype) => Some((dtype, 1)),
        None => {
            let (dtype, lanes) = text.rsplit_once('x')?;
            Some((DType::parse(dtype)?, lanes.parse().ok().filter(|&n| n > 1)?))
        }
    }
}
