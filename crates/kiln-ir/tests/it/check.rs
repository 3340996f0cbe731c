//! The checks that every rule gets find the mistakes that rules have.

use kiln_ir::check::{check_rule, check_rule_on, check_set};
use kiln_ir::{DType, Op, Rule, RuleSet, UOp, rule};

static GOOD: &[Rule] = &[
    rule!(add_zero [x: NonFloat] x + 0 => x),
    rule!(sub_zero [x: Float] x + -0.0 => x),
    rule!(mul_zero [x: Int] x * 0 => x.const_like(0)),
    rule!(mul_one [x] x * 1 => x),
    rule!(chain_mul [x: Int, c0: Const, c1: Const] (x * c0) * c1 => x * (c0 * c1)),
    rule!(factor [x: Int, y: Int, z: Int] x * y + x * z => x * (y + z)),
    rule!(where_same [c, a] c.where_(a, a) => a),
    rule!(lt_known [n, x: Int, y: Int] n.bind(x.lt(y)), if x.max() < y.min() => n.const_like(true)),
    rule!(mod_small [x: Index, c: Const] x.floormod(c), if small(x, c) => x),
    rule!(div_peel [x: Index, r: Range, c: Const] (x * c + r).floordiv(c), if small(r, c) => x),
    rule!(not_not [x: NonFloat] x.not().not() => x),
    rule!(grows mul_two [x: Int] x * 2 => (x + 1) + (x - 1)),
    rule!(any_bound [n] n.on(&[Op::Max, Op::Add]), if n.min() == n.max() => n.const_like(n.min())),
];

fn small(x: &UOp, c: &UOp) -> bool {
    x.min() >= 0 && c.uniform().as_int().is_some_and(|c| x.max() < c)
}

#[test]
fn good_rules_pass() {
    static SET: RuleSet = RuleSet::new("good", &[GOOD]);
    assert_eq!(check_set(&SET), Vec::<String>::new());
}

fn complains(rule: &Rule, about: &str) {
    let error = check_rule(rule).expect_err(rule.name);
    assert!(error.contains(about), "{error}");
    assert!(error.contains(rule.name) && error.contains("check.rs"), "{error}");
}

#[test]
fn wrong_values_are_found() {
    complains(&rule!(off_by_one [x: Int] x + 1 => x), "=>");
    complains(&rule!(minus_zero [x: Float] x + 0 => x), "-0.0");
    complains(&rule!(nan_times_zero [x: Float] x * 0 => x.const_like(0.0)), "NaN");
    complains(&rule!(reassociate [x: Float, y: Float] (x + y) - y => x), "=>");
    complains(&rule!(wraps [x: Int] (x + 1).lt(x) => UOp::bool(false).splat(x.lanes())), "=>");
    let shift = rule!(arithmetic_shift [x: Int] x.floordiv(-2) => UOp::binary(Op::Shr, x, &x.const_like(1)));
    complains(&shift, "=>");
    complains(&rule!(bad_guard [x: Index, c: Const] x.floormod(c), if x.min() >= 0 => x), "=>");
    complains(&rule!(max_zero [x: Float, y: Float] x.maximum(y) => y.maximum(x)), "0.0");
}

#[test]
fn wrong_forms_are_found() {
    complains(&rule!(left_const [x: Int, c: Const] c * x => x), "right");
    complains(&rule!(unbound [x: Int, y: Int] x + 0 => x), "does not occur");
    complains(&rule!(other_dtype [x: Int] x + 0 => x.cast(DType::Bool)), "changes");
    complains(&rule!(larger [x: Int] x * 2 => (x + 1) + (x - 1)), "grows");
    complains(&rule!(invents [x: Int] x - x => UOp::var(99, x.dtype(), 0, 0)), "invents");
    complains(&rule!(cast_to_itself [x: Bool] x.cast(DType::Bool) => x), "never matches");
    complains(&rule!(shy [x: Int] x + 1, if x.max() < x.min() => x), "never applied");
}

#[test]
fn examples_stand_in_for_chance() {
    let rare =
        rule!(rare [x: Index, c: Const] x.floordiv(c), if x.max() == 777 => x.floordiv(c) + 0);
    assert!(check_rule(&rare).is_err());
    let x = UOp::var(0, DType::Index, 0, 777);
    let rare =
        rule!(rare [x: Index, c: Const] x.floordiv(c), if x.max() == 777 && c.is_const(1) => x);
    assert_eq!(check_rule_on(&rare, &[x.floordiv(&UOp::index(1))]), Ok(()));
    assert!(check_rule_on(&rare, &[x.floordiv(&UOp::index(2))]).is_err());
}
