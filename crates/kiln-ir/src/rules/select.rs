//! `where`. In the normal form a constant branch stands last, as in `where(valid, value, 0)`.

use crate::pattern::where_;
use crate::rule;
use crate::rule::Rule;
use crate::uop::UOp;

pub(super) static RULES: &[Rule] = &[
    rule!(where_true   [a, b]                 where_(true, a, b)           => a),
    rule!(where_false  [a, b]                 where_(false, a, b)          => b),
    rule!(where_same   [c, a]                 c.where_(a, a)               => a),
    rule!(where_is     [c]                    c.where_(true, false)        => c),
    rule!(where_is_not [c]                    c.where_(false, true)        => c.not()),
    rule!(where_and    [c, a: Bool]           c.where_(a, false)           => c & a),
    rule!(where_or     [c, b: Bool]           c.where_(true, b)            => c | b),
    rule!(where_not    [c, a, b]              c.not().where_(a, b), if is_const(a) || !is_const(b) => c.where_(b, a)),
    rule!(grows where_const  [c, a: Const, b]       c.where_(a, b), if !is_const(b) => c.not().where_(b, a)),
    rule!(where_then   [c, x, y, z]           c.where_(c.where_(x, y), z)  => c.where_(x, z)),
    rule!(where_else   [c, x, y, z]           c.where_(x, c.where_(y, z))  => c.where_(x, z)),
    rule!(grows where_where  [a, b, x, y]           a.where_(b.where_(x, y), y)  => a.and(b).where_(x, y)),
];

fn is_const(x: &UOp) -> bool {
    x.uniform().as_const().is_some()
}
