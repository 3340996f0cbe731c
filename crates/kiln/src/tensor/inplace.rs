//! Operators that write their result back, through the view and for all aliases. `t += 1` is `t.add_assign(1)`; the
//! method also takes a view that is not a variable: `t.get(s![1..3]).add_assign(1)`.

use super::Tensor;
use crate::element::{Operand, Value};
use crate::error::Fault;

macro_rules! inplace {
    ($($name:ident $of:ident $shown:literal $item:literal $start:literal $operand:literal $result:literal;)*) => {
        /// Operators in place. The result is cast back if it fits the dtype as [`assign`](Tensor::assign) has it, and the
        /// tensor itself is returned. Of [`get`](Tensor::get) with tensors or lists, which is a copy, the copy changes.
        impl Tensor { $(
            #[doc = concat!("Writes [`", stringify!($of), "`](Tensor::", stringify!($of), ") of this and `other` back", $shown, ".")]
            #[doc = concat!("\n\n```\nlet t = kiln::Tensor::from(", $start, ");")]
            #[doc = concat!("t.", stringify!($name), "(", $operand, ");\nassert_eq!(t.to_vec::<", $item, ">()?, ", $result, ");")]
            #[doc = "# Ok::<(), kiln::Error>(())\n```"]
            ///
            /// # Errors
            /// Whatever the operation gives; a result that does not fit the dtype or the shape; elements that the view
            /// repeats.
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Tensor {
                let new = self.$of(other);
                self.written_back(stringify!($name), new)
            }
        )* }
    };
}

inplace! {
    add_assign add "; same as `+=`" "i32" "[1, 2]" "3" "[4, 5]";
    sub_assign sub "; same as `-=`" "i32" "[1, 2]" "3" "[-2, -1]";
    mul_assign mul "; same as `*=`" "i32" "[1, 2]" "3" "[3, 6]";
    div_assign div "; same as `/=`" "f64" "[1.0, 2.0]" "2" "[0.5, 1.0]";
    rem_assign modulo "; same as `%=`" "i32" "[5, -1]" "3" "[2, 2]";
    floor_div_assign floor_div "" "i32" "[5, -1]" "3" "[1, -1]";
    pow_assign pow "" "f64" "[2.0, 3.0]" "2" "[4.0, 9.0]";
    maximum_assign maximum "" "i32" "[1, 5]" "3" "[3, 5]";
    minimum_assign minimum "" "i32" "[1, 5]" "3" "[1, 3]";
    bitand_assign bitwise_and "; same as `&=`" "i32" "[6, 5]" "3" "[2, 1]";
    bitor_assign bitwise_or "; same as `|=`" "i32" "[6, 5]" "1" "[7, 5]";
    bitxor_assign bitwise_xor "; same as `^=`" "i32" "[6, 5]" "1" "[7, 4]";
    shl_assign lshift "; same as `<<=`" "i32" "[6, 5]" "1" "[12, 10]";
    shr_assign rshift "; same as `>>=`" "i32" "[6, -5]" "1" "[3, -3]";
}

impl Tensor {
    #[track_caller]
    fn written_back(&self, op: &'static str, new: Tensor) -> Tensor {
        let written: Result<(), Fault> = self.write(op, Value::Tensor(new));
        if let Err(fault) = written {
            self.storage.fail(fault.at(op));
        }
        self.clone()
    }
}
