//! What the files of calls are made of: arguments as the cases have them, and tables of methods.

use kiln::{DType, Tensor};
use serde_json::Value;

/// The arguments of a call, by position.
#[derive(Clone, Copy)]
pub(super) struct Args<'a>(pub(super) &'a [Value]);

impl Args<'_> {
    pub(super) fn len(self) -> usize {
        self.0.len()
    }

    pub(super) fn is(self, i: usize) -> bool {
        self.0[i].as_bool().expect("a bool")
    }

    pub(super) fn int(self, i: usize) -> i64 {
        self.0[i].as_i64().expect("an integer")
    }

    pub(super) fn count(self, i: usize) -> usize {
        self.0[i].as_u64().expect("a count") as usize
    }

    /// A float; `"inf"` and such are text.
    pub(super) fn float(self, i: usize) -> f64 {
        float(&self.0[i])
    }

    pub(super) fn ints(self, i: usize) -> Vec<i64> {
        self.list(i).iter().map(|v| v.as_i64().expect("an integer")).collect()
    }

    pub(super) fn text(self, i: usize) -> &'static str {
        self.0[i].as_str().expect("a text").to_owned().leak()
    }

    pub(super) fn dtype(self, i: usize) -> DType {
        DType::parse(self.0[i].as_str().expect("a name")).expect("a dtype")
    }

    pub(super) fn has(self, i: usize) -> bool {
        self.0.get(i).is_some_and(|v| !v.is_null())
    }

    pub(super) fn list(self, i: usize) -> &'static [Value] {
        self.0[i].as_array().expect("a list").clone().leak()
    }
}

fn float(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).expect("a number")
}

/// What a method gives.
pub(super) struct Outputs(pub(super) Vec<Tensor>);

impl From<Tensor> for Outputs {
    fn from(t: Tensor) -> Outputs {
        Outputs(vec![t])
    }
}

impl From<Vec<Tensor>> for Outputs {
    fn from(ts: Vec<Tensor>) -> Outputs {
        Outputs(ts)
    }
}

impl From<(Tensor, Tensor)> for Outputs {
    fn from((a, b): (Tensor, Tensor)) -> Outputs {
        Outputs(vec![a, b])
    }
}

/// `pub(super) fn call`: a method's name, its inputs and what it calls. Names in `unary` are methods without arguments.
macro_rules! calls {
    ($args:ident; unary $($unary:ident)*; binary $($binary:ident)*; $($name:literal $inputs:pat => $call:expr;)*) => {
        pub(super) fn call(
            name: &str,
            $args: $crate::golden::methods::calls::Args<'_>,
            inputs: &[kiln::Tensor],
        ) -> $crate::golden::methods::calls::Outputs {
            match (name, inputs) {
                $((stringify!($unary), [x]) => x.$unary().into(),)*
                $((stringify!($binary), [x, y]) => x.$binary(y).into(),)*
                $(($name, $inputs) => $call.into(),)*
                _ => panic!("no call {name} of {} inputs", inputs.len()),
            }
        }
    };
}
pub(super) use calls;
