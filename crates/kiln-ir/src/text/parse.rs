//! Text to graph. Safe on any input: every node is checked by [`form::check`] before it is made, nothing recurses,
//! and work and memory are linear in the length of the text.

use super::cursor::{Cursor, Names, parse_type};
use super::fields::Fields;
use super::lex::{Fail, Kind, fail, tokens};
use crate::dtype::DType;
use crate::op::{Group, Op};
use crate::spec::form;
use crate::uop::UOp;
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
    let mut cursor = Cursor::new(&tokens, line.len());
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
        _ if op.is_effect() => return (DType::Void, 1),
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
