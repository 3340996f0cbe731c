//! What methods with conditions and positions mean.

use super::eager::{Handle, Pick, broadcast};
use super::machine::{Value, converted, fitting};
use super::numbers::{binary, larger};
use super::program::{Binary, Call, Ix, Num, Reduce};
use kiln::DType;

/// The value of a method; none where an operand does not fit.
pub(super) fn call(name: Call, args: &[Value]) -> Option<Handle> {
    let tensor = |i: usize| match args.get(i)? {
        Value::Tensor(t) => Some(t),
        Value::Num(_) => None,
    };
    let x = tensor(0)?;
    match name {
        Call::Lt => compared(x, args.get(1)?, |a, b| a != b && larger(a, b) == b),
        Call::Eq => compared(x, args.get(1)?, |a, b| a == b),
        Call::Ge => compared(x, args.get(1)?, |a, b| larger(a, b) == a || a == b),
        Call::Where => chosen(x, args.get(1)?, args.get(2)?),
        Call::MaskedFill => filled(x, tensor(1)?, args.get(2)?),
        Call::MaskedSelect => selected(x, tensor(1)?),
        Call::NonZero => nonzero(x),
        Call::Gather(axis) => copied(&each(x, axis, tensor(1)?)?),
        Call::IndexSelect(axis) => copied(&sections(x, axis, tensor(1)?)?),
        Call::Take => {
            let flat = x.reshape(&[x.numel()])?;
            copied(&flat.get(&[Pick::Tensor(integer(tensor(1)?)?)])?)
        }
        Call::Scatter(axis) => {
            let result = copied(x)?;
            let places = each(&result, axis, tensor(1)?)?;
            let value = fitting(&places.shape, x.dtype, args.get(2)?)??;
            let bytes: Vec<u8> = value.into_iter().flat_map(|v| v.encode(x.dtype)).collect();
            places.write_in_order(&bytes)?;
            Some(result)
        }
        Call::ScatterReduce(axis, reduce, with_self) => {
            let result = copied(x)?;
            let places = each(&result, axis, tensor(1)?)?;
            combined(result, &places, args.get(2)?, reduce, with_self)
        }
        Call::IndexAdd(axis) => {
            let result = copied(x)?;
            let places = sections(&result, axis, tensor(1)?)?;
            combined(result, &places, args.get(2)?, Reduce::Sum, true)
        }
    }
}

/// New storage.
fn copied(x: &Handle) -> Option<Handle> {
    Some(Handle::new(&x.shape, x.dtype, &x.elements()?))
}

fn integer(index: &Handle) -> Option<Handle> {
    (index.dtype != DType::Bool && !index.dtype.is_float()).then(|| index.clone())
}

fn compared(x: &Handle, y: &Value, test: impl Fn(Num, Num) -> bool) -> Option<Handle> {
    let (dtype, y) = match y {
        Value::Tensor(y) => (x.dtype.promote(y.dtype), y.clone()),
        Value::Num(n) if !n.with(x.dtype).is_float() => return compared_as_is(x, *n, test),
        Value::Num(n) => (n.with(x.dtype), Handle::new(&[], n.with(x.dtype), &[*n])),
    };
    if x.dtype == DType::Bool || y.dtype == DType::Bool {
        return None;
    }
    let shape = broadcast(&x.shape, &y.shape)?;
    x.exact().and(y.exact())?;
    let (x, y) = (converted(&x.expand(&shape)?, dtype)?, converted(&y.expand(&shape)?, dtype)?);
    let tests = x.into_iter().zip(y).map(|(a, b)| Num::Int(test(a, b) as i64));
    Some(Handle::new(&shape, DType::Bool, &tests.collect::<Vec<_>>()))
}

/// Integers with a number, which is what it is even if their dtype does not reach it.
fn compared_as_is(x: &Handle, n: Num, test: impl Fn(Num, Num) -> bool) -> Option<Handle> {
    if x.dtype == DType::Bool {
        return None;
    }
    let tests = converted(x, x.dtype)?.into_iter().map(|a| Num::Int(test(a, n) as i64));
    Some(Handle::new(&x.shape, DType::Bool, &tests.collect::<Vec<_>>()))
}

/// Of tensors of one dtype, or a tensor and a number.
fn chosen(mask: &Handle, a: &Value, b: &Value) -> Option<Handle> {
    let (dtype, inner) = match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) if a.dtype == b.dtype => {
            (a.dtype, broadcast(&a.shape, &b.shape)?)
        }
        (Value::Tensor(t), Value::Num(n)) | (Value::Num(n), Value::Tensor(t))
            if n.with(t.dtype) == t.dtype =>
        {
            (t.dtype, t.shape.clone())
        }
        _ => return None,
    };
    if mask.dtype != DType::Bool || dtype == DType::Bool {
        return None;
    }
    let shape = broadcast(&mask.shape, &inner)?;
    let (a, b) = (fitting(&shape, dtype, a)??, fitting(&shape, dtype, b)??);
    let tests = mask.expand(&shape)?.integers()?;
    let picked =
        tests.iter().zip(a.into_iter().zip(b)).map(|(&t, (a, b))| if t != 0 { a } else { b });
    Some(Handle::new(&shape, dtype, &picked.collect::<Vec<_>>()))
}

fn filled(x: &Handle, mask: &Handle, value: &Value) -> Option<Handle> {
    match value {
        Value::Num(_) => chosen(mask, value, &Value::Tensor(x.clone())),
        Value::Tensor(_) => None,
    }
}

fn selected(x: &Handle, mask: &Handle) -> Option<Handle> {
    let shape = broadcast(&x.shape, &mask.shape)?;
    let mask = mask.expand(&shape).filter(|m| m.dtype == DType::Bool && !shape.is_empty())?;
    copied(&x.expand(&shape)?.get(&[Pick::Tensor(mask)])?)
}

fn nonzero(x: &Handle) -> Option<Handle> {
    let elements = x.exact()?;
    let rank = x.shape.len();
    let mut found = Vec::new();
    for (flat, element) in elements.into_iter().enumerate() {
        if element.cast(DType::Bool) == Num::Int(0) {
            continue;
        }
        let inner = |axis: usize| x.shape[axis + 1..].iter().product::<usize>();
        found.extend((0..rank).map(|a| Num::Int((flat / inner(a) % x.shape[a]) as i64)));
    }
    (rank > 0).then(|| Handle::new(&[found.len() / rank, rank], DType::I64, &found))
}

/// One element along `axis` for each integer of an index, which says nothing of the other axes.
fn each(x: &Handle, axis: usize, index: &Handle) -> Option<Handle> {
    let index =
        integer(index).filter(|i| i.shape.len() == x.shape.len() && axis < i.shape.len())?;
    let lies_inside = |a: usize| a == axis || index.shape[a] <= x.shape[a];
    if !(0..index.shape.len()).all(lies_inside) {
        return None;
    }
    let along = |a: usize| {
        let mut shape = vec![1; index.shape.len()];
        shape[a] = index.shape[a];
        let numbers: Vec<Num> = (0..index.shape[a] as i64).map(Num::Int).collect();
        Handle::new(&shape, DType::I64, &numbers)
    };
    let pick = |a: usize| Pick::Tensor(if a == axis { index.clone() } else { along(a) });
    x.get(&(0..index.shape.len()).map(pick).collect::<Vec<_>>())
}

fn sections(x: &Handle, axis: usize, index: &Handle) -> Option<Handle> {
    let index = integer(index).filter(|i| i.shape.len() == 1 && axis < x.shape.len())?;
    let full = Ix::Slice(None, None, 1);
    let pick = |a| if a == axis { Pick::Tensor(index.clone()) } else { Pick::Plain(&full) };
    x.get(&(0..x.shape.len()).map(pick).collect::<Vec<_>>())
}

/// `result` with values combined at places of it, which are a view of it.
fn combined(
    result: Handle,
    places: &Handle,
    value: &Value,
    reduce: Reduce,
    with_self: bool,
) -> Option<Handle> {
    let dtype = result.dtype;
    let values = fitting(&places.shape, dtype, value)??;
    let mut elements = result.exact().filter(|_| dtype != DType::Bool)?;
    let counts = |x: &Num| x.is_exact() && !x.is_negative_zero();
    if !values.iter().chain(&elements).all(counts) {
        return None;
    }
    let mut untouched = vec![!with_self; elements.len()];
    for (at, value) in places.numbers().into_iter().zip(values) {
        let value = value.cast(dtype);
        elements[at] = match std::mem::take(&mut untouched[at]) {
            true => value,
            false => binary(op(reduce), elements[at], value, dtype),
        };
        elements[at].is_exact().then_some(())?;
    }
    Some(Handle::new(&result.shape, dtype, &elements))
}

fn op(reduce: Reduce) -> Binary {
    match reduce {
        Reduce::Sum => Binary::Add,
        Reduce::Prod => Binary::Mul,
        Reduce::Amin => Binary::Minimum,
        Reduce::Amax => Binary::Maximum,
    }
}
