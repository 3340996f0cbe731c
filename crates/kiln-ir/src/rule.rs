//! A rule: a name, a left side and a right side; and sets of them. Knows no particular rule.
//!
//! A rule is plain data in a `static`, written as one line of algebra:
//!
//! ```text
//! pub static ARITHMETIC: &[Rule] = &[
//!     rule!(add_zero   [x]                          x + 0         => x),
//!     rule!(mul_consts [x: Int, c0: Const, c1: Const] (x * c0) * c1 => x * (c0 * c1)),
//!     rule!(mod_small  [x: Index, c: Const] x.floormod(c), if x.min() >= 0 && x.max() < c.min() => x),
//!     rule!(div_peel   [n: Index, c: Const] n.floordiv(c) => div_peel(n, c)),
//! ];
//! ```
//!
//! On the left the names are patterns (`Pat`), on the right they are the nodes that matched (`&UOp`). The right
//! side is a `UOp`, a `&UOp`, or an `Option<UOp>` where `None` means "does not apply"; giving the node itself back
//! means that too. A constant on the right takes the lanes and the shape of what it replaces.

mod set;

pub use set::RuleSet;

use crate::pattern::{Pat, Vars};
use crate::uop::UOp;

/// One rewrite. `C` is what a stateful pass hands to its rules; most rules need nothing.
pub struct Rule<C: 'static = ()> {
    /// A fact in `snake_case`, unique in each set.
    pub name: &'static str,
    /// Where it is written.
    pub file: &'static str,
    /// Where it is written.
    pub line: u32,
    /// The right side may be larger than the left.
    pub grows: bool,
    /// Builds the left side.
    pub lhs: fn(&mut Vars) -> Pat,
    /// Builds the right side from the variables, or says that the rule does not apply.
    pub rhs: fn(&mut C, &[&UOp]) -> Option<UOp>,
}

/// What a right side may be.
pub trait IntoRewrite {
    /// The replacement, if there is one.
    fn into_rewrite(self) -> Option<UOp>;
}

impl IntoRewrite for UOp {
    fn into_rewrite(self) -> Option<UOp> {
        Some(self)
    }
}
impl IntoRewrite for &UOp {
    fn into_rewrite(self) -> Option<UOp> {
        Some(self.clone())
    }
}
impl IntoRewrite for Option<UOp> {
    fn into_rewrite(self) -> Option<UOp> {
        self
    }
}

/// A [`Rule`]: `rule!(name [x, y: Kind] left side, if guard => right side)`. The guard is optional; `grows` before
/// the name says that the right side may be larger than the left.
#[macro_export]
macro_rules! rule {
    (grows $name:ident $vars:tt $($rest:tt)+) => {
        $crate::rule_with!(true, (), _ctx, $name, $vars, $($rest)+)
    };
    ($name:ident $vars:tt $($rest:tt)+) => {
        $crate::rule_with!(false, (), _ctx, $name, $vars, $($rest)+)
    };
}

/// A rule of a stateful pass, as [`rule!`]: `rule_ctx!(ctx: Type, name [x] left => right)`; the right side and the
/// guard see `ctx: &mut Type`. Growth is the pass's business.
#[macro_export]
macro_rules! rule_ctx {
    ($ctx:ident : $type:ty, $name:ident $vars:tt $($rest:tt)+) => {
        $crate::rule_with!(true, $type, $ctx, $name, $vars, $($rest)+)
    };
}

/// What [`rule!`] and [`rule_ctx!`] have in common.
#[doc(hidden)]
#[macro_export]
macro_rules! rule_with {
    ($grows:literal, $type:ty, $ctx:ident, $name:ident, [$($v:ident $(: $kind:ident)?),* $(,)?],
     $lhs:expr $(, if $guard:expr)? => $rhs:expr $(,)?) => {
        $crate::rule::Rule::<$type> {
            name: stringify!($name),
            file: file!(),
            line: line!(),
            grows: $grows,
            lhs: |vars: &mut $crate::pattern::Vars| {
                $(let $v = &vars.next(stringify!($v))$(.only($crate::pattern::Kind::$kind))?;)*
                $crate::pattern::Pat::from($lhs)
            },
            #[allow(unused_variables, unused_mut)] // a right side need not use every name
            rhs: |$ctx: &mut $type, matched: &[&$crate::UOp]| {
                let mut matched = matched.iter();
                $(let $v: &$crate::UOp = matched.next().expect("one node per variable");)*
                $(let holds: bool = $guard;
                if !holds {
                    return None;
                })?
                $crate::rule::IntoRewrite::into_rewrite($rhs)
            },
        }
    };
}
