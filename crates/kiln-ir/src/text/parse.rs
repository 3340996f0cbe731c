//! Text to graph. Safe on any input: every node is checked by [`form::check`] before it is made, nothing recurses,
//! and work and memory are linear in the length of the text.

use super::fields::Fields;
use super::lex::{Kind, Token, tokens};
use super::{is_effect, type_name};
use crate::dtype::{Const, DType};
use crate::op::{Group, Op};
use crate::spec::form;
use crate::uop::UOp;
use rustc_hash::FxHashMap;
use std::fmt;

/// Why a text is no graph, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

/// A [`ParseError`] that does not know its line yet.
pub(super) struct Fail {
    pub(super) column: usize,
    pub(super) message: String,
}

pub(super) fn fail<T>(column: usize, message: impl Into<String>) -> Result<T, Fail> {
    Err(Fail { column, message: message.into() })
}

/// The graph whose root is the last line.
pub fn parse(text: &str) -> Result<UOp, ParseError> {
    let nodes = statements(text)?;
    match nodes.into_iter().last() {
        Some((node, _)) => Ok(node),
        None => Err(ParseError { line: 1, column: 1, message: "no node in the text".to_string() }),
    }
}

/// The linear program whose entries are the lines, but for those that start with `with`.
pub fn parse_list(text: &str) -> Result<Vec<UOp>, ParseError> {
    let nodes = statements(text)?;
    Ok(nodes.into_iter().filter(|(_, listed)| *listed).map(|(node, _)| node).collect())
}

/// The nodes so far.
pub(super) type Names<'a> = FxHashMap<&'a str, UOp>;

fn statements(text: &str) -> Result<Vec<(UOp, bool)>, ParseError> {
    let mut names = Names::default();
    let mut out = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let node = statement(line, &mut names);
        let node =
            node.map_err(|f| ParseError { line: at + 1, column: f.column, message: f.message });
        out.extend(node?);
    }
    Ok(out)
}

/// One line: the node, and whether it is an entry of a list.
fn statement<'a>(line: &'a str, names: &mut Names<'a>) -> Result<Option<(UOp, bool)>, Fail> {
    let tokens = tokens(line)?;
    let mut cursor = Cursor { tokens: &tokens, at: 0, end: line.len() + 1 };
    if tokens.is_empty() {
        return Ok(None);
    }
    let listed = cursor.atom_if(|a| a == "with").is_none();
    let column = cursor.column();
    let name = match cursor.peek() {
        Some(Kind::Name(name)) => {
            cursor.at += 1;
            cursor.sign('=')?;
            Some(*name)
        }
        _ => None,
    };
    let node = node(&mut cursor, names)?;
    if let Some(name) = name
        && names.insert(name, node.clone()).is_some()
    {
        return fail(column, format!("%{name} is defined twice"));
    }
    Ok(Some((node, listed)))
}

fn node(cursor: &mut Cursor<'_, '_>, names: &Names<'_>) -> Result<UOp, Fail> {
    let column = cursor.column();
    let Some(op) = cursor.atom_if(|_| true) else { return fail(column, "an op is expected here") };
    let Some(op) = Op::parse(op) else { return fail(column, format!("there is no op `{op}`")) };
    let ty = cursor.atom_if(|a| parse_type(a).is_some()).and_then(parse_type);
    let mut fields = Fields::collect(cursor, names, column)?;
    if let (Op::Const, [value], None) = (op, fields.srcs.as_slice(), ty) {
        return Ok(value.clone());
    }
    let arg = fields.arg(op)?;
    fields.finish()?;
    let srcs = fields.srcs;
    let (dtype, lanes) = ty.unwrap_or_else(|| infer(op, &srcs));
    match form::check(op, dtype, lanes, &srcs, &arg) {
        Ok(()) => Ok(UOp::new(op, dtype, lanes, srcs, arg)),
        Err(reason) => fail(column, format!("{op}: {reason}")),
    }
}

/// The type where the text gives none.
fn infer(op: Op, srcs: &[UOp]) -> (DType, u16) {
    let lanes = srcs.iter().map(UOp::lanes).max().unwrap_or(1);
    let dtype = match (op.group(), srcs) {
        _ if is_effect(op) => return (DType::Void, 1),
        _ if op.is_comparison() => DType::Bool,
        _ if op == Op::Range => return (DType::Index, 1),
        (Group::Ternary, [.., last]) => last.dtype(),
        (_, [first, ..]) => first.dtype(),
        (_, []) => DType::Void,
    };
    match (op, srcs) {
        (Op::Load | Op::After | Op::Reduce, [first, ..]) => (dtype, first.lanes()),
        (Op::Lane, _) => (dtype, 1),
        (Op::Stack, _) => (dtype, srcs.len().min(u16::MAX as usize) as u16),
        _ => (dtype, lanes),
    }
}

/// `f32` or `f32x4`.
fn parse_type(text: &str) -> Option<(DType, u16)> {
    match DType::parse(text) {
        Some(dtype) => Some((dtype, 1)),
        None => {
            let (dtype, lanes) = text.rsplit_once('x')?;
            Some((DType::parse(dtype)?, lanes.parse().ok().filter(|&n| n > 1)?))
        }
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

/// Walks over the tokens of a line.
pub(super) struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    pub(super) at: usize,
    end: usize,
}

impl<'t, 'a> Cursor<'t, 'a> {
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
