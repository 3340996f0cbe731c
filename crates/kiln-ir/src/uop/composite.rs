//! Functions that are one node of a graph, and what they are written out as.
//!
//! A product of matrices is nine nodes. A program builds them, and walks them again to look a known schedule up, for every
//! product of every step. As a composite it is one node until somebody has to know what it is made of.

use super::{Srcs, UOp, substitute};
use crate::arg::{Arg, Axes, Function, Shape};
use crate::dtype::DType;
use crate::op::Op;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// One gradient per source of a node; `None` where none passes.
pub type Gradients = SmallVec<[Option<UOp>; 3]>;

/// From a node and its gradient to those of its sources.
pub type GradientRule = fn(&UOp, &UOp) -> Gradients;

/// From a composite node and its sources to the node that it is written out as, of the same shape and dtype. A body uses the
/// sources that it is given, not those of the node: they have the same values, but may be other nodes.
pub type Body = fn(&UOp, &[UOp]) -> UOp;

/// From a composite node to the rule of its gradient. If there is none, the gradient is that of what the node is written out as.
pub type OwnGradient = fn(&UOp) -> Option<GradientRule>;

/// See the macro [`function`](crate::function!).
pub const fn named(name: &'static str, body: &'static Body, own: &'static OwnGradient) -> Function {
    Function { name, body, own_gradient: own }
}

/// The function of a name that no other one has: its body, and the rule of its gradient if it has one of its own. They capture
/// nothing.
///
/// ```
/// use kiln_ir::{DType, UOp, arg::{Axes, Function}, function};
/// static TWICE: Function = function!("twice", |_, srcs| &srcs[0] + &srcs[0]);
/// let x = UOp::param(0, DType::F32, &[4][..]);
/// let twice = UOp::composite(&TWICE, [x.clone()], Axes::new(), DType::F32, x.shape().clone());
/// assert_eq!(twice.decomposition(twice.srcs()), Some(&x + &x));
/// ```
#[macro_export]
macro_rules! function {
    ($name:literal, $body:expr) => {
        $crate::function!($name, $body, |_| None)
    };
    ($name:literal, $body:expr, $own:expr) => {{
        const BODY: $crate::uop::Body = $body;
        const OWN: $crate::uop::OwnGradient = $own;
        $crate::uop::function_named($name, &BODY, &OWN)
    }};
}

impl UOp {
    /// `function` of the sources, along `axes` if it is told some. It is written out at once if a number of a source may have
    /// to be known: a constant, or one that the program made from a variable.
    pub fn composite(
        function: &'static Function,
        srcs: impl IntoIterator<Item = UOp>,
        axes: Axes,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> UOp {
        let shape = Arc::new(shape.into());
        let arg = Arg::Composite { function, axes, shape };
        UOp::composite_as(dtype, srcs.into_iter().collect(), arg)
    }

    pub(super) fn composite_as(dtype: DType, srcs: Srcs, arg: Arg) -> UOp {
        let is_plain = srcs.iter().all(is_plain);
        let node = UOp::new(Op::Composite, dtype, 1, srcs, arg);
        if is_plain { node } else { node.decomposition(node.srcs()).expect("a composite") }
    }

    /// What a composite is written out as, of these sources in place of its own. None of another node.
    pub fn decomposition(&self, srcs: &[UOp]) -> Option<UOp> {
        let Arg::Composite { function, .. } = self.arg() else { return None };
        let body = function.body.downcast_ref::<Body>().expect("only `function!` makes functions");
        let value = body(self, srcs);
        debug_assert_eq!((value.dtype(), value.shape()), (self.dtype(), self.shape()));
        value.name_as(self, srcs);
        Some(value)
    }

    /// What a composite is written out as. None of another node.
    ///
    /// Constructors look through a view to its base. The base of a view that has been computed may be overwritten by now, so
    /// such a view is put in afterwards.
    pub fn written_out(&self) -> Option<UOp> {
        let mut views = FxHashMap::default();
        let mut stand_in = |(slot, src): (usize, &UOp)| {
            if !src.op().is_movement() || src.payload().is_none() {
                return src.clone();
            }
            let param = UOp::param(slot, src.dtype(), src.shape().clone());
            views.insert(param.clone(), src.clone());
            param
        };
        let srcs: Srcs = self.srcs().iter().enumerate().map(&mut stand_in).collect();
        let value = self.decomposition(&srcs)?;
        if views.is_empty() { Some(value) } else { substitute(&[value], &views).pop() }
    }

    /// The rule of a composite's own gradient, if its function has one for it.
    pub fn own_gradient(&self) -> Option<GradientRule> {
        let Arg::Composite { function, .. } = self.arg() else { return None };
        let own = function.own_gradient.downcast_ref::<OwnGradient>();
        own.expect("only `function!` makes functions")(self)
    }

    /// Names the nodes from here to the sources after the composite.
    fn name_as(&self, composite: &UOp, srcs: &[UOp]) {
        let mut stack = vec![self];
        while let Some(node) = stack.pop() {
            let is_leaf = node.srcs().is_empty() || srcs.contains(node);
            if !is_leaf && !node.has_origin() && composite.has_origin() {
                node.copy_origin(composite);
                stack.extend(node.srcs());
            }
        }
    }
}

/// Whether nothing has to be known of a source's numbers.
fn is_plain(src: &UOp) -> bool {
    let mut base = src;
    while base.op().is_movement() {
        if base.0.named.load(Relaxed) != 0 {
            return false;
        }
        base = base.src(0);
    }
    base.op() != Op::Const && base.0.named.load(Relaxed) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arg::ReduceOp;

    static ROWS: Function = crate::function!("rows of a test", |rows, srcs| {
        srcs[0].reshape(&[2, 6][..]).reduce(ReduceOp::Add, &[1][..]).reshape(rows.shape().clone())
    });

    fn rows(x: &UOp) -> UOp {
        UOp::composite(&ROWS, [x.clone()], Axes::new(), x.dtype(), &[2][..])
    }

    #[test]
    fn a_computed_view_is_not_looked_through() {
        let memory = UOp::buffer(7001, DType::F32, smallvec::smallvec![12], "CPU".into());
        let view = memory.reshape(&[3, 4][..]);
        let sum = rows(&view);
        assert_eq!(sum.written_out().expect("a composite").src(0).src(0), &memory);
        view.set_payload(Some(Arc::new(())));
        assert_eq!(sum.written_out().expect("a composite").src(0).src(0), &view);
    }

    #[test]
    fn constants_are_written_out_at_once() {
        let one = UOp::constant(crate::Const::Float(1.0), DType::F32);
        let ones = one.broadcast_to(&[3, 4]);
        assert_eq!(rows(&ones).op(), Op::Reduce);
        let memory = UOp::buffer(7002, DType::F32, smallvec::smallvec![3, 4], "CPU".into());
        let sum = rows(&memory);
        assert_eq!(sum.op(), Op::Composite);
        let replaced = FxHashMap::from_iter([(memory, ones)]);
        assert_eq!(substitute(&[sum], &replaced)[0].op(), Op::Reduce);
    }
}
