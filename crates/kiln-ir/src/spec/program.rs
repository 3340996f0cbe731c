//! Linear programs: sources before use, blocks properly nested, everything sized.

use super::form::ensure;
use super::typing::typed;
use crate::arg::{Arg, RangeKind, Space};
use crate::dtype::DType;
use crate::op::Op;
use crate::uop::UOp;
use rustc_hash::FxHashMap;

/// One entry by itself.
pub(super) fn node(node: &UOp) -> Result<(), String> {
    let narrow = |n: &UOp| n.dtype().is_narrow_float();
    if node.op().is_alu() {
        ensure(!node.srcs().iter().any(narrow), || {
            "half floats are not computed with".to_string()
        })?;
    }
    match (node.op(), node.arg()) {
        (Op::Load, _) => {
            typed(node, 0, node.dtype())?;
            access(node, node.lanes())
        }
        (Op::Store, _) => {
            typed(node, 2, node.src(0).dtype())?;
            access(node, node.src(2).lanes())
        }
        (Op::Prefetch, _) => place(node).map(drop),
        (Op::Range, _) => {
            ensure(node.src(0).lanes() == 1, || "the bound is a vector".to_string())?;
            integer(node)?;
            typed(node, 0, node.dtype())
        }
        (Op::End, _) => ensure(node.srcs().len() == 1 && node.src(0).op() == Op::Range, || {
            "it closes one range".to_string()
        }),
        (Op::If, _) => {
            ensure(node.src(0).lanes() == 1, || "the condition is a vector".to_string())?;
            typed(node, 0, DType::Bool)
        }
        (Op::EndIf, _) => ensure(node.src(0).op() == Op::If, || "it closes an `if`".to_string()),
        (Op::Local, Arg::Memory { space: Space::Scratch, .. }) | (Op::Param | Op::Var, _) => {
            ensure(node.lanes() == 1, || "its elements are scalars".to_string())
        }
        _ => Ok(()),
    }
}

fn integer(node: &UOp) -> Result<(), String> {
    let fits = matches!(node.dtype(), DType::I32 | DType::I64) && node.lanes() == 1;
    ensure(fits, || "an index is an i32 or i64".to_string())
}

/// Memory and index.
fn place(node: &UOp) -> Result<&UOp, String> {
    let memory = node.src(0).memory();
    integer(node.src(1))?;
    let direct = matches!(node.src(0).op(), Op::Param | Op::Local | Op::After);
    ensure(direct && matches!(memory.op(), Op::Param | Op::Local), || {
        "source 0 is no memory".to_string()
    })?;
    Ok(memory)
}

/// Memory, index and gate of a load or store of `lanes` elements; `gate` is where the gate would be.
fn access(node: &UOp, lanes: u16) -> Result<(), String> {
    let memory = place(node)?;
    if let Arg::Memory { space: Space::Register, len, .. } = memory.arg() {
        let index = node.src(1).as_int().and_then(|i| usize::try_from(i).ok());
        ensure(index.is_some_and(|i| i < *len), || {
            "registers have constant indices within their length".to_string()
        })?;
        ensure(lanes == memory.lanes(), || {
            format!("registers of {} lanes are accessed by {lanes}", memory.lanes())
        })?;
    }
    match node.gate() {
        Some(g) => {
            ensure(g.lanes() == 1 || g.lanes() == lanes, || {
                format!("{} gates for {lanes} lanes", g.lanes())
            })?;
            typed(node, node.gate_source(), DType::Bool)
        }
        None => Ok(()),
    }
}

/// What is known at one point of the list.
#[derive(Default)]
pub(super) struct Walk {
    /// Open loops and `if`s, outermost first.
    blocks: Vec<UOp>,
    /// For each entry so far, the block that it stands in: its depth and number.
    seen: FxHashMap<usize, (usize, usize)>,
    /// The numbers of the open blocks.
    numbers: Vec<usize>,
    count: usize,
    thread: bool,
    names: FxHashMap<(Op, u8, usize), ()>,
}

impl Walk {
    /// The innermost block that is not closed.
    pub(super) fn open_block(&self) -> Option<&UOp> {
        self.blocks.last()
    }

    pub(super) fn entry(&mut self, node: &UOp) -> Result<(), String> {
        for (i, src) in node.srcs().iter().enumerate() {
            self.source(node, i, src)?;
        }
        self.name(node)?;
        match (node.op(), node.arg()) {
            (Op::End | Op::EndIf, _) => self.close(node.src(0))?,
            (Op::Range, Arg::Range { kind: RangeKind::Global | RangeKind::Local, .. }) => {
                ensure(self.blocks.is_empty(), || "work-groups are inside a loop".to_string())?;
            }
            (Op::Range, Arg::Range { kind: RangeKind::Thread, .. }) => {
                ensure(self.blocks.is_empty(), || "the thread range is inside a loop".to_string())?;
                ensure(!self.thread, || "there are two thread ranges".to_string())?;
                self.thread = true;
            }
            (Op::Shuffle, _) => {
                let divides = |block: &UOp| block.op() == Op::If;
                ensure(!self.blocks.iter().any(divides), || "some items may skip it".to_string())?;
            }
            _ => {}
        }
        // barriers are all one node
        let seen = self.seen.insert(node.id(), (self.blocks.len(), self.number())).is_some();
        if seen && node.op() != Op::Barrier {
            return Err("it is listed twice".to_string());
        }
        if opens(node) {
            self.open(node);
        }
        Ok(())
    }

    /// The number of the innermost open block; 0 outside of all.
    fn number(&self) -> usize {
        self.numbers.last().copied().unwrap_or(0)
    }

    fn open(&mut self, node: &UOp) {
        self.count += 1;
        self.blocks.push(node.clone());
        self.numbers.push(self.count);
        // the loop variable lives in its own block
        self.seen.insert(node.id(), (self.blocks.len(), self.count));
    }

    fn close(&mut self, block: &UOp) -> Result<(), String> {
        ensure(self.blocks.last() == Some(block), || {
            "it does not close the innermost open block".to_string()
        })?;
        self.blocks.pop();
        self.numbers.pop();
        Ok(())
    }

    fn source(&self, node: &UOp, i: usize, src: &UOp) -> Result<(), String> {
        let access = matches!(node.op(), Op::Load | Op::Store | Op::Prefetch) && i == 0;
        let src = if access { src.memory() } else { src };
        if src.op() == Op::Const {
            return ensure(src.dtype() != DType::Index, || format!("source {i} is an index"));
        }
        let Some(&(depth, number)) = self.seen.get(&src.id()) else {
            return Err(format!("source {i} is not listed before it"));
        };
        let visible = depth == 0 || self.numbers.get(depth - 1) == Some(&number);
        ensure(visible, || format!("source {i} was computed in a block that has ended"))?;
        let ends = matches!(node.op(), Op::End | Op::EndIf);
        let is_value = !matches!(src.op(), Op::Param | Op::Local) && src.dtype() != DType::Void;
        ensure(ends || access || is_value, || format!("source {i} is not a value"))
    }

    fn name(&mut self, node: &UOp) -> Result<(), String> {
        let key = match *node.arg() {
            Arg::Param { slot, .. } | Arg::Var { slot, .. } => (node.op(), 0, slot),
            Arg::Range { axis, .. } => (node.op(), 0, axis as usize),
            Arg::Memory { space, id, .. } => (node.op(), space as u8, id as usize),
            _ => return Ok(()),
        };
        ensure(self.names.insert(key, ()).is_none(), || "another entry has this number".to_string())
    }
}

/// Whether what follows is inside of the node.
fn opens(node: &UOp) -> bool {
    match *node.arg() {
        Arg::Range { kind, .. } => !matches!(kind, RangeKind::Global | RangeKind::Local),
        _ => node.op() == Op::If,
    }
}
