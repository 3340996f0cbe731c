//! A stand-in for the compiler: every node's value in full, element by element.

use kiln_ir::arg::{PadAxis, SliceAxis};
use kiln_ir::dtype::Const;
use kiln_ir::eval::{bitcast, eval, from_bits, to_bits};
use kiln_ir::uop::toposort;
use kiln_ir::{Arg, DType, Op, UOp};
use std::collections::HashMap;
use std::sync::Arc;

type Elements = Arc<Vec<Const>>;

/// The elements of `root`, row-major.
pub(super) fn evaluate(root: &UOp) -> Elements {
    let mut done: HashMap<UOp, Elements> = HashMap::new();
    for node in toposort(root) {
        let srcs: Vec<Elements> = node.srcs().iter().map(|s| done[s].clone()).collect();
        let value = value(&node, &srcs);
        assert_eq!(value.len(), node.numel(), "{node:?}");
        done.insert(node, value);
    }
    done[root].clone()
}

/// Row-major bytes.
pub(super) fn bytes(elements: &[Const], dtype: DType) -> Vec<u8> {
    let bytes = |&c: &Const| to_bits(c, dtype).to_le_bytes().into_iter().take(dtype.size());
    elements.iter().flat_map(bytes).collect()
}

fn from_bytes(bytes: &[u8], dtype: DType) -> Vec<Const> {
    let element = |b: &[u8]| {
        let mut word = [0; 8];
        word[..b.len()].copy_from_slice(b);
        from_bits(u64::from_le_bytes(word), dtype)
    };
    bytes.chunks(dtype.size()).map(element).collect()
}

fn value(node: &UOp, srcs: &[Elements]) -> Elements {
    let dtype = node.dtype();
    match (node.op(), node.arg()) {
        (Op::Const, Arg::Const(c)) => Arc::new(vec![*c]),
        (Op::Iota, Arg::Shape(s)) => {
            Arc::new((0..s[0]).map(|i| Const::UInt(i as u64).cast(dtype)).collect())
        }
        (Op::Buffer, _) => {
            let payload = node.payload().expect("a leaf has memory");
            Arc::new(from_bytes(payload.downcast_ref::<Vec<u8>>().expect("bytes"), dtype))
        }
        (Op::Reshape | Op::Contiguous | Op::Detach | Op::Mark | Op::After | Op::Copy, _) => {
            srcs[0].clone()
        }
        (Op::Permute | Op::Expand | Op::Slice | Op::Pad, _) => Arc::new(moved(node, &srcs[0])),
        (Op::Reduce, Arg::Reduce { op, axes }) => {
            let inner = node.src(0).shape();
            let mut out = vec![op.identity(dtype); node.numel()];
            for (i, x) in srcs[0].iter().enumerate() {
                let at = unflatten(i, inner);
                let kept =
                    at.iter().enumerate().filter(|(a, _)| !axes.contains(a)).map(|(_, &i)| i);
                let o = flatten(kept, node.shape());
                out[o] = eval(op.alu(), dtype, &[out[o], *x]).expect("combines");
            }
            Arc::new(out)
        }
        (Op::Update, Arg::Region(region)) => {
            let n = node.numel();
            let numbers = UOp::iota(n, DType::I64).reshape(node.shape().clone());
            assert!(region.iter().all(|m| !matches!(m, kiln_ir::arg::Move::Bitcast(_))));
            let picked = evaluate(&region.iter().fold(numbers, |x, m| x.apply_move(m)));
            let mut out = srcs[0].to_vec();
            for (at, x) in picked.iter().zip(srcs[1].iter()) {
                out[at.as_i128().expect("integer") as usize] = *x;
            }
            Arc::new(out)
        }
        (Op::Bitcast, _) => {
            let from = node.src(0).dtype();
            if from.size() != dtype.size() {
                return Arc::new(from_bytes(&bytes(&srcs[0], from), dtype));
            }
            Arc::new(srcs[0].iter().map(|&c| bitcast(c, from, dtype).expect("same size")).collect())
        }
        (op, _) if op.is_elementwise() => {
            let at = |s: &Elements, i: usize| if s.len() == 1 { s[0] } else { s[i] };
            let one = |i| {
                let args: Vec<Const> = srcs.iter().map(|s| at(s, i)).collect();
                eval(op, dtype, &args).unwrap_or_else(|| panic!("{op} {dtype} of {args:?}"))
            };
            Arc::new((0..node.numel()).map(one).collect())
        }
        (op, _) => panic!("{op} in a tensor graph"),
    }
}

fn moved(node: &UOp, src: &[Const]) -> Vec<Const> {
    let inner = node.src(0).shape();
    let zero = Const::Int(0).cast(node.dtype());
    let element = |i: usize| {
        let at = unflatten(i, node.shape());
        source(node, &at).map_or(zero, |at| src[flatten(at.into_iter(), inner)])
    };
    (0..node.numel()).map(element).collect()
}

/// Where the element `at` of a movement op comes from; padding comes from nowhere.
fn source(node: &UOp, at: &[usize]) -> Option<Vec<usize>> {
    let inner = node.src(0).shape();
    match node.arg() {
        Arg::Axes(axes) => {
            let mut out = vec![0; at.len()];
            axes.iter().zip(at).for_each(|(&a, &i)| out[a] = i);
            Some(out)
        }
        Arg::Shape(_) => {
            Some(at.iter().zip(inner).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect())
        }
        Arg::Slice(s) => Some(at.iter().zip(s).map(|(&i, s)| sliced(s, i)).collect()),
        Arg::Pad(p) => at.iter().zip(p).zip(inner).map(|((&i, p), &n)| unpadded(p, i, n)).collect(),
        _ => unreachable!("a movement op"),
    }
}

fn sliced(s: &SliceAxis, i: usize) -> usize {
    (s.start as isize + s.step * i as isize) as usize
}

fn unpadded(p: &PadAxis, i: usize, n: usize) -> Option<usize> {
    let inside = i.checked_sub(p.before)?;
    let source = inside / (p.between + 1);
    (inside.is_multiple_of(p.between + 1) && source < n).then_some(source)
}

fn unflatten(mut i: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (a, &n) in shape.iter().enumerate().rev() {
        at[a] = i % n;
        i /= n;
    }
    at
}

fn flatten(at: impl Iterator<Item = usize>, shape: &[usize]) -> usize {
    at.zip(shape).fold(0, |all, (i, &n)| all * n + i)
}
