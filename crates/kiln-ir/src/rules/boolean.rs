//! Logic on bool: one spelling for each connective, and what follows from `x` and `!x`.

use crate::rule;
use crate::rule::Rule;
use crate::uop::UOp;

pub(super) static RULES: &[Rule] = &[
    rule!(bool_add     [x: Bool, y: Bool]  x + y            => x | y),
    rule!(bool_mul     [x: Bool, y: Bool]  x * y            => x & y),
    rule!(bool_max     [x: Bool, y: Bool]  x.maximum(y)     => x | y),
    rule!(bool_min     [x: Bool, y: Bool]  x.minimum(y)     => x & y),
    rule!(and_not_self [x: Bool]           x & x.not()      => UOp::bool(false)),
    rule!(or_not_self  [x: Bool]           x | x.not()      => UOp::bool(true)),
    rule!(and_absorbs  [x: Bool, y: Bool]  x & (x | y)      => x),
    rule!(or_absorbs   [x: Bool, y: Bool]  x | (x & y)      => x),
    rule!(grows not_or [x: Bool, y: Bool]  (x | y).not()    => x.not().and(&y.not())),
    rule!(xor_true     [x: Bool]           x ^ true         => x.not()),
    rule!(eq_true      [x: Bool]           x.eq_(true)      => x),
    rule!(eq_false     [x: Bool]           x.eq_(false)     => x.not()),
    rule!(ne_true      [x: Bool]           x.ne_(true)      => x.not()),
    rule!(ne_false     [x: Bool]           x.ne_(false)     => x),
];
