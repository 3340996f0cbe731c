//! Numbers that a program has, in arrays, slices and `Vec`s, as operands beside tensors.

use super::{Nested, Tensor};
use crate::Device;
use crate::element::{Operand, Value};
use kiln_ir::DType;

/// Numbers that the program has: beside a tensor they take its dtype as a number does, if they are `f64`.
macro_rules! nested_operands {
    ($([$($generics:tt)*] $t:ty;)*) => { $(
        impl<$($generics)*> Operand for $t {
            #[track_caller]
            fn into_value(self) -> Value { Value::Tensor(Tensor::from(self).into_literal()) }
        }
    )* };
}
nested_operands! {
    [N: Nested, const LEN: usize] [N; LEN];
    [N: Nested, const LEN: usize] &[N; LEN];
    [N: Nested] Vec<N>;
    [N: Nested] &Vec<N>;
    [N: Nested] &[N];
}

/// What gives way to the dtype of others.
impl Tensor {
    /// The dtype that two tensors meet in.
    pub(crate) fn common_dtype(&self, other: &Tensor) -> DType {
        let (own, others) = (self.dtype(), other.dtype());
        let gives_way =
            |t: &Tensor, to: DType| t.is_literal && t.dtype() == DType::F64 && to.is_float();
        match (gives_way(self, others), gives_way(other, own)) {
            (true, false) => others,
            (false, true) => own,
            _ => own.promote(others),
        }
    }

    /// Whether these are numbers that the program has, and of no higher kind (bool < integer < float) than `dtype`.
    pub(crate) fn goes_into(&self, dtype: DType) -> bool {
        let kind = |d: DType| (d.is_float(), d.is_float() || d.is_int());
        self.is_literal && kind(self.dtype()) <= kind(dtype)
    }

    /// This tensor as numbers that the program has, on the device of what it is combined with.
    pub(crate) fn into_literal(self) -> Tensor {
        Tensor { is_literal: true, ..self }
    }

    /// Numbers that the program has, on `device`; any other tensor as it is.
    pub(crate) fn literal_on(&self, device: &Device) -> Tensor {
        match self.is_literal && self.device() != device && self.error().is_none() {
            true => Tensor { is_literal: true, ..self.to(device) },
            false => self.clone(),
        }
    }
}
