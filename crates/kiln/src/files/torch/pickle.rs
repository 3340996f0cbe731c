//! The machine that pickles are programs for (<https://docs.python.org/3/library/pickletools.html>): a stack, marks in it,
//! and a memory of values. Every step takes at least one byte of the file and makes at most one value.

use super::objects::{Objects, check_known};
use super::stream::Stream;
use super::values::{Id, Loaded, Value, text, tuple};
use std::collections::HashMap;

/// Runs the pickle that is next.
pub(super) fn run(stream: &mut Stream<'_>, objects: &mut Objects) -> Result<Loaded, String> {
    let (values, stack, marks) = (Vec::new(), Vec::new(), Vec::new());
    let mut machine = Machine { objects, values, stack, marks, memo: HashMap::new() };
    loop {
        let [op] = stream.array()?;
        if op == b'.' {
            let root = machine.pop()?;
            return Ok(Loaded { values: machine.values, root });
        }
        machine.step(op, stream)?;
    }
}

struct Machine<'a> {
    objects: &'a mut Objects,
    values: Vec<Value>,
    stack: Vec<Id>,
    /// How high the stack was at each mark.
    marks: Vec<usize>,
    memo: HashMap<usize, Id>,
}

impl Machine<'_> {
    /// One instruction.
    fn step(&mut self, op: u8, stream: &mut Stream<'_>) -> Result<(), String> {
        match op {
            0x80 => stream.skip_version(),
            0x95 => stream.take(8).map(drop),
            b'N' | b'G' | b'B' | b'C' | 0x8e => self.other(op, stream),
            0x88 | 0x89 => self.push(Value::Int(i128::from(op == 0x88))),
            b'J' | b'K' | b'M' | 0x8a => self.number(op, stream),
            b'X' | 0x8c | 0x8d | b'T' | b'U' => self.text(op, stream),
            b'c' | 0x93 => self.global(op, stream),
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' | b'1' | b'2' => self.shuffle(op),
            b')' | b't' | 0x85..=0x87 => self.tuple(op),
            b']' => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            b'a' | b'e' => self.append(op),
            b's' | b'u' => self.set(op),
            b'q' | b'r' | 0x94 => self.remember(op, stream),
            b'h' | b'j' => self.recall(op, stream),
            b'Q' => {
                let id = self.pop()?;
                let stored = self.objects.stored(&self.values, id)?;
                self.push(stored)
            }
            b'R' | 0x81 => self.call(),
            b'b' => self.build(),
            _ => Err(format!("instruction {op:#04x} of pickles is not known")),
        }
    }

    fn push(&mut self, value: Value) -> Result<(), String> {
        self.values.push(value);
        self.stack.push(self.values.len() - 1);
        Ok(())
    }

    fn pop(&mut self) -> Result<Id, String> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let top = self.stack.pop().filter(|_| self.stack.len() >= floor);
        top.ok_or_else(|| "it takes a value that is not there".to_owned())
    }

    fn top(&self) -> Result<Id, String> {
        self.stack.last().copied().ok_or_else(|| "it uses a value that is not there".to_owned())
    }

    /// What stands above the last mark, which goes.
    fn marked(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().ok_or("it goes back to a mark that is not there")?;
        Ok(self.stack.split_off(mark))
    }

    /// None, floats and bytes: no tensor depends on them.
    fn other(&mut self, op: u8, stream: &mut Stream<'_>) -> Result<(), String> {
        let len = match op {
            b'N' => 0,
            b'G' => 8,
            b'C' => stream.array::<1>()?[0].into(),
            b'B' => u32::from_le_bytes(stream.array()?) as usize,
            _ => usize::try_from(u64::from_le_bytes(stream.array()?)).unwrap_or(usize::MAX),
        };
        if len > 0 {
            stream.take(len)?;
        }
        self.push(Value::Other)
    }

    fn number(&mut self, op: u8, stream: &mut Stream<'_>) -> Result<(), String> {
        let value = match op {
            b'K' => stream.array::<1>()?[0].into(),
            b'M' => u16::from_le_bytes(stream.array()?).into(),
            b'J' => i32::from_le_bytes(stream.array()?).into(),
            _ => {
                let [len] = stream.array()?;
                match long(stream.take(len.into())?) {
                    Some(n) => n,
                    None => return self.push(Value::Other),
                }
            }
        };
        self.push(Value::Int(value))
    }

    fn text(&mut self, op: u8, stream: &mut Stream<'_>) -> Result<(), String> {
        let len = match op {
            b'U' | 0x8c => stream.array::<1>()?[0].into(),
            0x8d => usize::try_from(u64::from_le_bytes(stream.array()?)).unwrap_or(usize::MAX),
            _ => u32::from_le_bytes(stream.array()?) as usize,
        };
        let text = String::from_utf8_lossy(stream.take(len)?).into_owned();
        self.push(Value::Text(text))
    }

    fn global(&mut self, op: u8, stream: &mut Stream<'_>) -> Result<(), String> {
        let name = if op == b'c' {
            format!("{}.{}", stream.line()?, stream.line()?)
        } else {
            let (name, module) = (self.pop()?, self.pop()?);
            format!("{}.{}", text(&self.values, module)?, text(&self.values, name)?)
        };
        check_known(&name)?;
        self.push(Value::Global(name))
    }

    fn shuffle(&mut self, op: u8) -> Result<(), String> {
        match op {
            b'0' => self.pop().map(drop),
            b'1' => self.marked().map(drop),
            _ => {
                let top = self.top()?;
                self.stack.push(top);
                Ok(())
            }
        }
    }

    fn tuple(&mut self, op: u8) -> Result<(), String> {
        let ids = match op {
            b')' => Vec::new(),
            b't' => self.marked()?,
            _ => {
                let n = usize::from(op - 0x84);
                let mut ids = (0..n).map(|_| self.pop()).collect::<Result<Vec<Id>, String>>()?;
                ids.reverse();
                ids
            }
        };
        self.push(Value::Tuple(ids))
    }

    fn append(&mut self, op: u8) -> Result<(), String> {
        let new = if op == b'a' { vec![self.pop()?] } else { self.marked()? };
        let list = self.top()?;
        match &mut self.values[list] {
            Value::List(ids) => {
                ids.extend(new);
                Ok(())
            }
            other => Err(format!("{other:?} where a list belongs")),
        }
    }

    fn set(&mut self, op: u8) -> Result<(), String> {
        let new = match op {
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                vec![key, value]
            }
            _ => self.marked()?,
        };
        let dict = self.top()?;
        match &mut self.values[dict] {
            Value::Dict(pairs) if new.len().is_multiple_of(2) => {
                pairs.extend(new.chunks_exact(2).map(|pair| (pair[0], pair[1])));
                Ok(())
            }
            Value::Other => Ok(()),
            other => Err(format!("{other:?} where a dictionary belongs")),
        }
    }

    fn remember(&mut self, op: u8, stream: &mut Stream<'_>) -> Result<(), String> {
        let at = match op {
            b'q' => stream.array::<1>()?[0].into(),
            b'r' => u32::from_le_bytes(stream.array()?) as usize,
            _ => self.memo.len(),
        };
        let top = self.top()?;
        self.memo.insert(at, top);
        Ok(())
    }

    fn recall(&mut self, op: u8, stream: &mut Stream<'_>) -> Result<(), String> {
        let at = match op {
            b'h' => stream.array::<1>()?[0].into(),
            _ => u32::from_le_bytes(stream.array()?) as usize,
        };
        let id = self.memo.get(&at).ok_or("it recalls what it did not remember")?;
        self.stack.push(*id);
        Ok(())
    }

    /// Calls a function that is known, or makes an instance of a type.
    fn call(&mut self) -> Result<(), String> {
        let (args, function) = (self.pop()?, self.pop()?);
        let result = match &self.values[function] {
            Value::Global(name) => {
                self.objects.call(&self.values, name, tuple(&self.values, args)?)?
            }
            other => return Err(format!("{other:?} is called")),
        };
        self.push(result)
    }

    /// Gives an object its state. Dictionaries have one that is none of theirs; of scalars it is never needed.
    fn build(&mut self) -> Result<(), String> {
        self.pop()?;
        match &self.values[self.top()?] {
            Value::Dict(_) | Value::Other | Value::Tensor(_) => Ok(()),
            other => Err(format!("{other:?} gets a state")),
        }
    }
}

impl Stream<'_> {
    /// The version of the protocol changes nothing: every instruction is of one.
    fn skip_version(&mut self) -> Result<(), String> {
        self.take(1).map(drop)
    }
}

/// A number in two's complement, if it is not too long.
fn long(bytes: &[u8]) -> Option<i128> {
    let mut wide = match bytes.last() {
        Some(last) if last & 0x80 != 0 => [0xff; 16],
        _ => [0; 16],
    };
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i128::from_le_bytes(wide))
}
