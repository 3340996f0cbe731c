//! Text to graph. Safe on any input: every node is checked by [`form::check`] before it is made, nothing recurses,
//! and work and memory are linear in the length of the text.

use super::lex::{Kind, Token, tokens};
use super::{is_effect, type_name};
use crate::arg::{Arg, Axes, Move, PadAxis, RangeKind, ReduceOp, Shape, SliceAxis, Space};
use crate::dtype::{Const, DType};
use crate::op::{Group, Op};
use crate::spec::form;
use crate::uop::{Srcs, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
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

fn fail<T>(column: usize, message: impl Into<String>) -> Result<T, Fail> {
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

type Names<'a> = FxHashMap<&'a str, UOp>;

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
fn literal(atom: &str) -> Option<Result<UOp, String>> {
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
struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
    end: usize,
}

impl<'t, 'a> Cursor<'t, 'a> {
    fn peek(&self) -> Option<&'t Kind<'a>> {
        self.tokens.get(self.at).map(|t| &t.kind)
    }

    fn column(&self) -> usize {
        self.tokens.get(self.at).map_or(self.end, |t| t.column)
    }

    fn atom_if(&mut self, accept: impl Fn(&str) -> bool) -> Option<&'a str> {
        match self.peek() {
            Some(Kind::Atom(atom)) if accept(atom) => {
                self.at += 1;
                Some(atom)
            }
            _ => None,
        }
    }

    fn sign_if(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(&Kind::Sign(sign));
        self.at += found as usize;
        found
    }

    fn sign(&mut self, sign: char) -> Result<(), Fail> {
        match self.sign_if(sign) {
            true => Ok(()),
            false => fail(self.column(), format!("`{sign}` is expected here")),
        }
    }

    /// `[a, b, ..]`, whose `[` has been read.
    fn list(&mut self) -> Result<Vec<(&'a str, usize)>, Fail> {
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
    fn operand(&mut self, names: &Names<'_>) -> Result<UOp, Fail> {
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

/// What follows op and type, sorted by kind; arguments are then taken out of it, and nothing may be left.
struct Fields<'a> {
    column: usize,
    srcs: Srcs,
    words: Vec<(&'a str, usize)>,
    keys: Vec<(&'a str, String, usize)>,
    list: Option<Vec<(&'a str, usize)>>,
    region: Option<Vec<Move>>,
}

impl<'a> Fields<'a> {
    fn collect(
        cursor: &mut Cursor<'_, 'a>,
        names: &Names<'_>,
        column: usize,
    ) -> Result<Fields<'a>, Fail> {
        let (words, keys) = (Vec::new(), Vec::new());
        let mut fields =
            Fields { column, srcs: Srcs::new(), words, keys, list: None, region: None };
        let mut gate = None;
        while let Some(kind) = cursor.peek() {
            let column = cursor.column();
            match kind {
                Kind::Sign('[') if fields.list.is_none() => {
                    cursor.at += 1;
                    fields.list = Some(cursor.list()?);
                }
                Kind::Atom("gate") => {
                    cursor.at += 1;
                    cursor.sign('=')?;
                    gate = Some(cursor.operand(names)?);
                }
                Kind::Atom("region") if fields.region.is_none() => {
                    cursor.at += 1;
                    fields.region = Some(region(cursor)?);
                }
                Kind::Atom(word) if literal(word).is_none() => {
                    cursor.at += 1;
                    fields.word(word, column, cursor)?;
                }
                _ => fields.srcs.push(cursor.operand(names)?),
            }
        }
        fields.srcs.extend(gate);
        Ok(fields)
    }

    fn word(
        &mut self,
        word: &'a str,
        column: usize,
        cursor: &mut Cursor<'_, 'a>,
    ) -> Result<(), Fail> {
        if !cursor.sign_if('=') {
            self.words.push((word, column));
            return Ok(());
        }
        let value = match cursor.peek() {
            Some(Kind::Atom(value)) => value.to_string(),
            Some(Kind::Quoted(value)) => value.clone(),
            _ => return fail(cursor.column(), "a value is expected here"),
        };
        cursor.at += 1;
        self.keys.push((word, value, column));
        Ok(())
    }

    fn finish(&self) -> Result<(), Fail> {
        let word = self.words.first().map(|(w, c)| (*w, *c));
        let key = self.keys.first().map(|(k, _, c)| (*k, *c));
        if let Some((name, column)) = word.or(key) {
            return fail(column, format!("`{name}` says nothing about this op"));
        }
        match (&self.list, &self.region) {
            (None, None) => Ok(()),
            _ => fail(self.column, "this op has no list"),
        }
    }

    fn text(&mut self, key: &str) -> Result<String, Fail> {
        match self.keys.iter().position(|(k, ..)| *k == key) {
            Some(at) => Ok(self.keys.remove(at).1),
            None => fail(self.column, format!("`{key}=` is missing")),
        }
    }

    fn number<T: std::str::FromStr>(&mut self, key: &str) -> Result<T, Fail> {
        let text = self.text(key)?;
        match text.parse() {
            Ok(value) => Ok(value),
            Err(_) => fail(self.column, format!("`{key}={text}` is no number that fits")),
        }
    }

    /// The word that names one of a few things.
    fn choice<T: Copy>(&mut self, of: &[T], name: impl Fn(T) -> &'static str) -> Result<T, Fail> {
        for &value in of {
            if let Some(at) = self.words.iter().position(|(w, _)| *w == name(value)) {
                self.words.remove(at);
                return Ok(value);
            }
        }
        let names: Vec<_> = of.iter().map(|&v| name(v)).collect();
        fail(self.column, format!("one of {} is missing", names.join(", ")))
    }

    fn list<T, L: FromIterator<T>>(&mut self, item: impl Fn(&str) -> Option<T>) -> Result<L, Fail> {
        match self.list.take() {
            Some(list) => items(&list, item),
            None => fail(self.column, "a list `[..]` is missing"),
        }
    }

    fn arg(&mut self, op: Op) -> Result<Arg, Fail> {
        Ok(match op {
            Op::Reshape | Op::Expand | Op::Iota => Arg::Shape(self.list(number)?),
            Op::Permute => Arg::Axes(self.list(number)?),
            Op::Pad => Arg::Pad(self.list(pad_axis)?),
            Op::Slice => Arg::Slice(self.list(slice_axis)?),
            Op::Reduce => {
                let op = self.choice(&ReduceOp::ALL, ReduceOp::name)?;
                let axes = if self.list.is_some() { self.list(number)? } else { Axes::new() };
                Arg::Reduce { op, axes }
            }
            Op::Buffer => {
                let (id, device) = (self.number("id")?, self.text("device")?.into());
                Arg::Buffer { id, shape: self.list(number)?, device }
            }
            Op::Param => Arg::Param { slot: self.number("slot")?, shape: self.list(number)? },
            Op::Var => self.var()?,
            Op::Range => {
                let axis = self.number("axis")?;
                Arg::Range { axis, kind: self.choice(&RangeKind::ALL, RangeKind::name)? }
            }
            Op::Local => {
                let space = self.choice(&[Space::Scratch, Space::Register], Space::name)?;
                Arg::Memory { space, id: self.number("id")?, len: self.number("len")? }
            }
            Op::Lane => Arg::Lane(self.number("lane")?),
            Op::Mark => Arg::Mark(self.number("storage")?),
            Op::Update => match self.region.take() {
                Some(moves) => Arg::Region(moves.into()),
                None => return fail(self.column, "`region(..)` is missing"),
            },
            Op::Copy => Arg::Device(self.text("device")?.into()),
            Op::Sink if !self.keys.is_empty() => Arg::Kernel { name: self.text("name")?.into() },
            Op::After => self.srcs.first().map_or(Arg::None, form::after_arg),
            _ => Arg::None,
        })
    }

    fn var(&mut self) -> Result<Arg, Fail> {
        let has = |key: &str| self.keys.iter().any(|(k, ..)| *k == key);
        let (has_min, has_max) = (has("min"), has("max"));
        let min = if has_min { self.number("min")? } else { i64::MIN };
        let max = if has_max { self.number("max")? } else { i64::MAX };
        Ok(Arg::Var { slot: self.number("slot")?, min, max })
    }
}

fn items<T, L: FromIterator<T>>(
    list: &[(&str, usize)],
    item: impl Fn(&str) -> Option<T>,
) -> Result<L, Fail> {
    let one = |(text, column): &(&str, usize)| match item(text) {
        Some(value) => Ok(value),
        None => fail(*column, format!("`{text}` does not fit this list")),
    };
    list.iter().map(one).collect()
}

fn number(text: &str) -> Option<usize> {
    text.parse().ok()
}

fn pad_axis(text: &str) -> Option<PadAxis> {
    let mut parts = text.splitn(3, ':').map(number);
    let [before, between, after] = [parts.next()??, parts.next()??, parts.next()??];
    Some(PadAxis { before, between, after })
}

fn slice_axis(text: &str) -> Option<SliceAxis> {
    let mut parts = text.splitn(3, ':');
    let (start, step) = (number(parts.next()?)?, parts.next()?.parse().ok()?);
    Some(SliceAxis { start, step, len: number(parts.next()?)? })
}

/// `(slice[..] reshape[..])`.
fn region(cursor: &mut Cursor<'_, '_>) -> Result<Vec<Move>, Fail> {
    cursor.sign('(')?;
    let mut out = Vec::new();
    while !cursor.sign_if(')') {
        let column = cursor.column();
        let Some(name) = cursor.atom_if(|_| true) else {
            return fail(column, "a movement op or `)` is expected here");
        };
        cursor.sign('[')?;
        let list = cursor.list()?;
        out.push(match name {
            "reshape" => Move::Reshape(items::<_, Shape>(&list, number)?),
            "permute" => Move::Permute(items::<_, Axes>(&list, number)?),
            "expand" => Move::Expand(items::<_, Shape>(&list, number)?),
            "slice" => Move::Slice(items::<_, SmallVec<_>>(&list, slice_axis)?),
            "bitcast" => match items::<_, Vec<DType>>(&list, DType::parse)?.as_slice() {
                [dtype] => Move::Bitcast(*dtype),
                _ => return fail(column, "bitcast has one type"),
            },
            _ => return fail(column, format!("`{name}` is no move of a region")),
        });
    }
    Ok(out)
}
