//! Patterns, rules and the driver, with a small set of rules of their own.

use kiln_ir::pattern::where_;
use kiln_ir::rewrite::{blame, report, set_tracking, stats};
use kiln_ir::uop::toposort;
use kiln_ir::{
    DType, Op, Rule, RuleSet, UOp, graph_rewrite, graph_rewrite_all, graph_rewrite_with, rule,
    rule_ctx,
};

fn add_consts(a: &UOp, b: &UOp) -> Option<UOp> {
    let (x, y) = (a.uniform().as_int()?, b.uniform().as_int()?);
    Some(a.const_like(x.wrapping_add(y)))
}

fn mul_consts(a: &UOp, b: &UOp) -> Option<UOp> {
    let (x, y) = (a.uniform().as_int()?, b.uniform().as_int()?);
    Some(a.const_like(x.wrapping_mul(y)))
}

static RULES: &[Rule] = &[
    rule!(fold_add [a: IntConst, b: IntConst] a + b => add_consts(a, b)),
    rule!(fold_mul [a: IntConst, b: IntConst] a * b => mul_consts(a, b)),
    rule!(add_zero [x] x + 0 => x),
    rule!(mul_zero [x: Int] x * 0 => x.const_like(0)),
    rule!(chain_add [x: Int, c0: Const, c1: Const] (x + c0) + c1 => x + (c0 + c1)),
    rule!(chain_mul [x: Int, c0: Const, c1: Const] (x * c0) * c1 => x * (c0 * c1)),
    rule!(double [x: Int] x + x => x * 2),
    rule!(factor [x: Int, y: Int, z: Int] x * y + x * z => x * (y + z)),
    rule!(where_true [a, b] where_(true, a, b) => a),
    rule!(where_same [c, a] c.where_(a, a) => a),
    rule!(min_below [x: Index, c: Const] x.minimum(c), if x.max() <= c.min() => x),
    rule!(root_bound [n, x: Float] n.bind(x.maximum(x)) => (n.op() == Op::Max).then(|| x.clone())),
    rule!(cast_cast [x: Bool] x.cast(DType::I32).cast(DType::I64) => x.cast(DType::I64)),
];
static SET: RuleSet = RuleSet::new("test", &[RULES]);

fn var(slot: usize, dtype: DType) -> UOp {
    UOp::var(slot, dtype, -100, 100)
}

fn check(from: &UOp, to: &UOp) {
    assert_eq!(graph_rewrite(from, &SET), *to, "{:#?}", toposort(&graph_rewrite(from, &SET)));
}

#[test]
fn literals_and_kinds() {
    let (i, f) = (var(0, DType::I32), var(1, DType::F32));
    check(&(&i + 0), &i);
    check(&(&f + 0), &f);
    let minus_zero = &f + UOp::constant(-0.0f32, DType::F32);
    check(&minus_zero, &minus_zero);
    check(&(&f * 0), &(&f * 0)); // NaN * 0 is NaN
    check(&(&i * 0), &UOp::constant(0, DType::I32));
    check(&UOp::bool(true).where_(&i, &i.const_like(1)), &i);
    check(&f.maximum(&f), &f);
}

#[test]
fn to_fixpoint() {
    let x = var(0, DType::Index);
    check(&(((&x + 1) + 2) + -3), &x);
    check(&((&x * 2) * 3 + (&x * 4)), &(&x * 10));
    check(&x.minimum(&UOp::index(100)), &x);
    let kept = x.minimum(&UOp::index(99));
    check(&kept, &kept);
}

#[test]
fn repeated_variables_and_both_orders() {
    let (x, y, z) = (var(0, DType::I32), var(1, DType::I32), var(2, DType::I32));
    check(&(&x * &y + &x * &z), &(&x * (&y + &z)));
    check(&(&y * &x + &z * &x), &(&x * (&y + &z)));
    check(&(&y * &x + &x * &z), &(&x * (&y + &z)));
    let apart = &x * &y + &z * &z;
    check(&apart, &apart);
    check(&x.lt(&y).where_(&z, &z), &z);
}

#[test]
fn vectors_match_as_scalars() {
    let x = UOp::local(kiln_ir::arg::Space::Register, 0, 1, DType::I32, 4);
    let x = UOp::load(&x, &UOp::constant(0, DType::I32));
    check(&(&x + 0), &x);
    check(&((&x + 1) + 2), &(&x + 3));
    check(&(&x * 0), &UOp::constant(0, DType::I32).splat(4));
}

#[test]
fn a_scalar_result_takes_the_shape() {
    let x = UOp::param(0, DType::I32, [2, 3].as_slice());
    let zero = graph_rewrite(&(&x * 0), &SET);
    assert_eq!(zero.shape().as_slice(), [2, 3]);
}

#[test]
fn casts_match_their_dtype() {
    let b = var(0, DType::Bool);
    check(&b.cast(DType::I32).cast(DType::I64), &b.cast(DType::I64));
    let other = b.cast(DType::I16).cast(DType::I64);
    check(&other, &other);
}

#[test]
fn deep_graphs_do_not_recurse() {
    let x = var(0, DType::I32);
    let deep = (0..200_000).fold(x.clone(), |a, i| a + if i % 2 == 0 { 0 } else { 1 });
    check(&deep, &(&x + 100_000));
}

#[test]
fn shared_roots() {
    let x = var(0, DType::I32);
    let new = graph_rewrite_all(&[&x + 0, (&x + 1) + 1], &SET);
    assert_eq!(new, [x.clone(), &x + 2]);
}

static COUNT: &[Rule<Vec<UOp>>] = &[rule_ctx!(seen: Vec<UOp>, number_var [v] v.on(&[Op::Var]) => {
    seen.push(v.clone());
    v.const_like(seen.len() as i64)
})];
static STATEFUL: RuleSet<Vec<UOp>> = RuleSet::with_state("stateful", &[RULES], COUNT);

#[test]
fn stateful_rules_see_each_node_once_per_call() {
    let (x, y) = (var(0, DType::I32), var(1, DType::I32));
    for _ in 0..2 {
        let mut seen = Vec::new();
        let new = graph_rewrite_with(&[&x + &y, &y * &x], &STATEFUL, &mut seen);
        assert_eq!(seen, [x.clone(), y.clone()]);
        assert_eq!(new, [x.const_like(3), x.const_like(2)]);
    }
}

static CHASE: &[Rule] =
    &[rule!(to_sub [x, y] x + y => x - y), rule!(grows to_add [x, y] x - y => x + y)];
static CHASING: RuleSet = RuleSet::new("chasing", &[CHASE]);

#[test]
#[should_panic(expected = "to_sub")]
fn rules_that_chase_each_other_are_named() {
    let (x, y) = (var(0, DType::I32), var(1, DType::I32));
    graph_rewrite(&(&x + &y), &CHASING);
}

static TWICE: RuleSet = RuleSet::new("twice", &[CHASE, RULES, CHASE]);

#[test]
fn duplicate_names_are_found() {
    assert_eq!(TWICE.duplicate_names(), ["to_add", "to_sub"]);
    assert!(SET.duplicate_names().is_empty());
}

static TRACKED: &[Rule] = &[rule!(tracked_rule [x, c: Const] x + c, if c.is_const(0) => x)];
static TRACKED_SET: RuleSet = RuleSet::new("tracked", &[TRACKED]);

#[test]
fn tracking_counts() {
    let (x, y) = (var(70, DType::I32), var(71, DType::I32));
    set_tracking(true);
    let new = graph_rewrite(&((&x + 0) * (&y + 1)), &TRACKED_SET);
    set_tracking(false);
    assert_eq!(new, &x * (&y + 1));
    let stats = stats("tracked_rule");
    assert_eq!((stats.fired, stats.tried), (1, 2));
    assert!(report(false).contains("rewrite.rs"));
}

static BROKEN: &[Rule] =
    &[rule!(broken_rule [x, c: Const] x + c, if c.is_const(3) => x.src(9).clone())];
static BROKEN_SET: RuleSet = RuleSet::new("broken", &[BROKEN]);

#[test]
fn a_rule_that_panics_is_named() {
    let x = var(72, DType::I32);
    let blamed = blame(|| drop(graph_rewrite(&((&x + 3) * &x), &BROKEN_SET))).expect("a rule");
    assert!(blamed.starts_with("broken_rule (") && blamed.contains("rewrite.rs:"), "{blamed}");
    assert_eq!(blame(|| drop(graph_rewrite(&(&x + 4), &BROKEN_SET))), None);
    assert_eq!(blame(|| panic!("no rule's fault")), None);
}
