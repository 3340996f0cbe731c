//! The constants of a run, as few writes: one constant, a sequence of numbers, or a table, which is data.

use kiln_ir::arg::{Shape, SliceAxis};
use kiln_ir::{Const, DType, UOp};
use smallvec::smallvec;

/// Makes a leaf of these elements, if the device takes data.
pub(in crate::engine) type Upload<'a> = dyn Fn(&[Const], DType, Shape) -> Option<UOp> + 'a;

/// Up to this many constants stay writes of their own: their values and places are launch-time scalars then.
const FEW: usize = 4;
/// More elements than this are not spelled out.
const MANY: i64 = 1 << 20;
/// Up to this many stretches of evenly spaced positions are writes of their own; more are a table of positions.
const STRETCHES: usize = 4;

/// Constants by position, in order.
#[derive(Default)]
pub(super) struct Table {
    intervals: Vec<(i64, i64, Const)>,
}

/// Evenly spaced positions.
struct Stretch<'a> {
    start: i64,
    step: i64,
    values: &'a [Const],
}

impl Table {
    pub(super) fn push(&mut self, start: i64, end: i64, value: Const) {
        self.intervals.push((start, end, value));
    }

    /// Whether it is shorter than the writes that it is made of.
    pub(super) fn is_worth_it(&self) -> bool {
        let elements: i64 = self.intervals.iter().map(|(start, end, _)| end - start).sum();
        self.intervals.len() > FEW && elements <= MANY
    }

    /// `version` with all of it written; `like` is one of the writes.
    pub(super) fn written(&self, version: &UOp, like: &UOp, upload: &Upload<'_>) -> UOp {
        let spelled =
            |&(start, end, value): &(i64, i64, Const)| (start..end).map(move |p| (p, value));
        let (positions, values): (Vec<i64>, Vec<Const>) =
            self.intervals.iter().flat_map(spelled).unzip();
        let stretches = stretches(&positions, &values);
        if stretches.len() > STRETCHES
            && let Some(new) = scattered(version, &positions, &values, like, upload)
        {
            return new;
        }
        stretches.iter().fold(version.clone(), |version, s| s.written(&version, like, upload))
    }
}

/// Cuts positions, which ascend, into evenly spaced stretches.
fn stretches<'a>(positions: &[i64], values: &'a [Const]) -> Vec<Stretch<'a>> {
    let (mut out, mut from) = (Vec::new(), 0);
    while from < positions.len() {
        let step = positions.get(from + 1).map_or(1, |next| next - positions[from]);
        let even = positions[from..].windows(2).take_while(|w| w[1] - w[0] == step).count();
        let values = &values[from..=from + even];
        out.push(Stretch { start: positions[from], step, values });
        from += even + 1;
    }
    out
}

/// Positions and values as data.
fn scattered(
    version: &UOp,
    positions: &[i64],
    values: &[Const],
    like: &UOp,
    upload: &Upload<'_>,
) -> Option<UOp> {
    let positions: Vec<Const> = positions.iter().map(|&p| Const::Int(p)).collect();
    let dtype = UOp::positions(version.shape().clone()).dtype();
    let shape: Shape = smallvec![positions.len()];
    let value = data(values, like.dtype(), shape.clone(), upload)?;
    let new = version.update(&value, &upload(&positions, dtype, shape)?);
    new.copy_origin(like);
    Some(new)
}

impl Stretch<'_> {
    fn written(&self, version: &UOp, like: &UOp, upload: &Upload<'_>) -> UOp {
        let (n, len) = (version.numel(), self.values.len());
        let whole = len == n;
        let shape = if whole { version.shape().clone() } else { smallvec![len] };
        let Some(value) = data(self.values, like.dtype(), shape, upload) else {
            return self.one_by_one(version, like);
        };
        let new = match whole {
            true => value.broadcast_to(version.shape()),
            false => version.update(&value, &self.positions(n, 0, len)),
        };
        new.copy_origin(like);
        new
    }

    /// Where `len` of the values from number `from` on go.
    fn positions(&self, n: usize, from: usize, len: usize) -> UOp {
        let start = (self.start + self.step * from as i64) as usize;
        let step = if len == 1 { 1 } else { self.step as isize };
        UOp::positions([n].as_slice()).slice(&[SliceAxis { start, step, len }])
    }

    /// Without data: every value is a write.
    fn one_by_one(&self, version: &UOp, like: &UOp) -> UOp {
        let n = version.numel();
        self.values.iter().enumerate().fold(version.clone(), |version, (i, &value)| {
            let value = UOp::constant(value, like.dtype());
            let new = version.update(&value, &self.positions(n, i, 1));
            new.copy_origin(like);
            new
        })
    }
}

/// Constants as a tensor: one for all, numbers in even steps, or a table.
fn data(values: &[Const], dtype: DType, shape: Shape, upload: &Upload<'_>) -> Option<UOp> {
    if values.iter().all(|v| v.key() == values[0].key()) {
        return Some(UOp::constant(values[0], dtype));
    }
    let counted = sequence(values, dtype).map(|x| x.reshape(shape.clone()));
    counted.or_else(|| upload(values, dtype, shape))
}

/// Whole numbers in even steps, computed with integers: exact as long as the type counts that far.
fn sequence(values: &[Const], dtype: DType) -> Option<UOp> {
    let exact: i64 = match dtype {
        DType::F64 => 1 << 53,
        DType::F32 => 1 << 24,
        DType::F16 => 1 << 11,
        DType::BF16 => 1 << 8,
        _ if dtype.is_fp8() => 1 << 3,
        _ => 1 << 31,
    };
    let number = |value: &Const| match *value {
        Const::Float(f) => {
            (f.fract() == 0.0 && f.abs() <= exact as f64 && (f != 0.0 || f.is_sign_positive()))
                .then_some(f as i64)
        }
        Const::Bool(_) => None,
        Const::Int(_) | Const::UInt(_) => {
            value.as_i128().filter(|i| i.unsigned_abs() < exact as u128).map(|i| i as i64)
        }
    };
    let numbers = values.iter().map(number).collect::<Option<Vec<i64>>>()?;
    let step = numbers[1] - numbers[0];
    if !numbers.windows(2).all(|w| w[1] - w[0] == step) {
        return None;
    }
    let counted = UOp::iota(values.len(), DType::I64);
    Some((counted * step + numbers[0]).cast(dtype))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::Op;

    fn ints(values: impl IntoIterator<Item = i64>) -> Vec<Const> {
        values.into_iter().map(Const::Int).collect()
    }

    #[test]
    fn constants_become_one_or_a_sequence_or_data() {
        let nothing = |_: &[Const], _: DType, _: Shape| None;
        let equal = data(&ints([3, 3, 3]), DType::I32, smallvec![3], &nothing).expect("a constant");
        assert_eq!(equal.as_int(), Some(3));
        let even = data(&ints([3, 1, -1]), DType::I32, smallvec![3], &nothing).expect("a sequence");
        assert_eq!((even.op(), even.shape().as_slice()), (Op::Cast, [3].as_slice()));
        assert!(data(&ints([3, 1, 0]), DType::I32, smallvec![3], &nothing).is_none());
        let halves: Vec<Const> = [0.0, 0.5, 1.0].map(Const::Float).into();
        assert!(data(&halves, DType::F32, smallvec![3], &nothing).is_none());
    }

    #[test]
    fn positions_are_cut_where_their_steps_change() {
        let values = ints(0..7);
        let cut = stretches(&[0, 2, 4, 5, 6, 7, 20], &values);
        let found: Vec<_> = cut.iter().map(|s| (s.start, s.step, s.values.len())).collect();
        assert_eq!(found, [(0, 2, 3), (5, 1, 3), (20, 1, 1)]);
    }
}
