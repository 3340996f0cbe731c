//! What follows op and type in a line: sources, attributes and lists, and the arguments that they stand for.

use super::cursor::{Cursor, Names, literal};
use super::lex::{Fail, Kind, fail};
use crate::arg::{Arg, Axes, PadAxis, RangeKind, ReduceOp, SliceAxis, Space, WindowArg};
use crate::dtype::DType;
use crate::op::Op;
use crate::spec::form;
use crate::uop::Srcs;
use std::sync::Arc;

/// What follows op and type, sorted by kind; arguments are then taken out of it, and nothing may be left.
pub(super) struct Fields<'a> {
    column: usize,
    pub(super) srcs: Srcs,
    words: Vec<(&'a str, usize)>,
    keys: Vec<(&'a str, String, usize)>,
    list: Option<Vec<(&'a str, usize)>>,
}

impl<'a> Fields<'a> {
    pub(super) fn collect(
        cursor: &mut Cursor<'_, 'a>,
        names: &Names<'_>,
        column: usize,
    ) -> Result<Fields<'a>, Fail> {
        let (words, keys) = (Vec::new(), Vec::new());
        let mut fields = Fields { column, srcs: Srcs::new(), words, keys, list: None };
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

    pub(super) fn finish(&self) -> Result<(), Fail> {
        let word = self.words.first().map(|(w, c)| (*w, *c));
        let key = self.keys.first().map(|(k, _, c)| (*k, *c));
        if let Some((name, column)) = word.or(key) {
            return fail(column, format!("`{name}` says nothing about this op"));
        }
        match &self.list {
            None => Ok(()),
            Some(_) => fail(self.column, "this op has no list"),
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

    fn dtype(&mut self, key: &str) -> Result<DType, Fail> {
        let text = self.text(key)?;
        match DType::parse(&text) {
            Some(dtype) => Ok(dtype),
            None => fail(self.column, format!("`{key}={text}` is no type")),
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

    pub(super) fn arg(&mut self, op: Op) -> Result<Arg, Fail> {
        Ok(match op {
            Op::Reshape | Op::Expand | Op::Iota => Arg::Shape(Arc::new(self.list(number)?)),
            Op::Permute => Arg::Axes(self.list(number)?),
            Op::Pad => Arg::Pad(self.list(pad_axis)?),
            Op::Window | Op::Unwindow => Arg::Window(WindowArg {
                axis: self.number("axis")?,
                len: self.number("len")?,
                size: self.number("size")?,
                stride: self.number("stride")?,
                dilation: self.number("dilation")?,
            }),
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
            Op::Shuffle => Arg::Mask(self.number("mask")?),
            Op::Prefetch => Arg::Prefetch(self.number("ahead")?),
            Op::Dot => Arg::Parts([self.dtype("x")?, self.dtype("y")?]),
            Op::Mma => Arg::Mma {
                parts: [self.dtype("x")?, self.dtype("y")?],
                shape: [self.number("rows")?, self.number("depth")?, self.number("columns")?],
            },
            Op::Mark => {
                let ends = !self.has("ends") || self.number::<u8>("ends")? != 0;
                Arg::Mark { storage: self.number("storage")?, ends }
            }
            Op::Vjp if !self.keys.is_empty() => {
                return fail(self.column, "what a derivative makes is code, which no text has");
            }
            Op::Composite => return fail(self.column, "a function is code, which no text has"),
            Op::Update if !self.words.is_empty() => {
                Arg::Reduce { op: self.choice(&ReduceOp::ALL, ReduceOp::name)?, axes: Axes::new() }
            }
            Op::Copy => Arg::Device(self.text("device")?.into()),
            Op::Sink if !self.keys.is_empty() => Arg::Kernel { name: self.text("name")?.into() },
            Op::After if !self.keys.is_empty() => Arg::Check(self.text("check")?.into()),
            Op::After => self.srcs.first().map_or(Arg::None, form::after_arg),
            _ => Arg::None,
        })
    }

    fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(k, ..)| *k == key)
    }

    fn var(&mut self) -> Result<Arg, Fail> {
        let (has_min, has_max) = (self.has("min"), self.has("max"));
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
