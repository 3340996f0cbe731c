//! How fast rules are matched and applied: `cargo bench -p kiln-ir`. Results are recorded in bench/results.

#![allow(clippy::print_stdout, missing_docs)]

use kiln_ir::rewrite::{report, set_tracking, stats};
use kiln_ir::rules::{simplify, symbolic};
use kiln_ir::uop::toposort;
use kiln_ir::{DType, Op, Rule, RuleSet, UOp, graph_rewrite, rule};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Nodes of each graph.
const NODES: usize = 100_000;

/// The best of so many runs is reported.
const RUNS: usize = 7;

/// Fifteen rules with as many roots and shapes as symbolic rules have; `$k` makes them different rules.
macro_rules! fifteen {
    ($($k:literal)*) => { &[ $(
        rule!(add_literal [x] x + (500_000_000 + $k) => x),
        rule!(add_mul [x: Int, c: Const] x * (500_000_000 + $k) + x * c => x * c),
        rule!(add_same [x: Float, y] (x + y) * (500_000_000 + $k) + y => x),
        rule!(mul_chain [x: Int, c: Const] (x * (500_000_000 + $k)) * c => x * c),
        rule!(mul_neg [x] -x * (500_000_000 + $k) => x),
        rule!(sub_const [x: Int] x - (500_000_000 + $k) => x),
        rule!(max_const [x, y] x.maximum(y).maximum(500_000_000 + $k) => x),
        rule!(min_const [x, c: Const] x.minimum(c).minimum(500_000_000 + $k) => x),
        rule!(div_sum [x: Index, y: Index, c: Const] (x * (500_000_000 + $k) + y).floordiv(c) => x),
        rule!(div_div [x: Index, c: Const] x.floordiv(500_000_000 + $k).floordiv(c) => x),
        rule!(mod_mod [x: Index, c: Const] x.floormod(500_000_000 + $k).floormod(c) => x),
        rule!(lt_add [x: Int, c: Const] (x + (500_000_000 + $k)).lt(c) => x.lt(c)),
        rule!(where_where [p, q, a, b] p.where_(q.where_(a, 500_000_000 + $k), b) => a),
        rule!(cast_add [x: Int] (x + (500_000_000 + $k)).cast_any() => x),
        rule!(and_lt [x: Index, c: Const, p: Bool] p & (x + (500_000_000 + $k)).lt(c) => p),
    )* ] };
}

/// 900 rules, none of which applies to what is below.
static MANY: &[Rule] = fifteen!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30
    31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59);

static TABLES: &[&[Rule]] = &[MANY];

/// The rules that apply.
static SOME: &[Rule] = &[
    rule!(fold_add [a: IntConst, b: IntConst] a + b => fold(Op::Add, a, b)),
    rule!(fold_mul [a: IntConst, b: IntConst] a * b => fold(Op::Mul, a, b)),
    rule!(add_zero [x: Int] x + 0 => x),
    rule!(chain_add [x: Int, c0: Const, c1: Const] (x + c0) + c1 => x + (c0 + c1)),
    rule!(chain_mul [x: Int, c0: Const, c1: Const] (x * c0) * c1 => x * (c0 * c1)),
    rule!(distribute [x: Int, c0: Const, c1: Const] (x + c0) * c1 => x * c1 + c0 * c1),
];

fn fold(op: Op, a: &UOp, b: &UOp) -> Option<UOp> {
    let value = kiln_ir::eval::eval(op, a.dtype(), &[a.as_const()?, b.as_const()?])?;
    Some(UOp::constant(value, a.dtype()))
}

/// Index and float arithmetic as a kernel has it: each node once, `NODES` of them.
fn kernel(seed: i64) -> UOp {
    let i = UOp::var(0, DType::Index, 0, 1000);
    let mut x = UOp::var(1, DType::F32, 0, 0);
    let mut roots = Vec::new();
    for k in 0..NODES as i64 / 10 {
        let offset = (&i * (2 + k % 7) + (k + seed)).floordiv(&UOp::index(5 + k % 3));
        let inside = offset.floormod(&UOp::index(17)).lt(&UOp::index(9));
        let value = (offset.cast(DType::F32) * &x).maximum(&x);
        x = inside.where_(&value, &(&x + &value));
        roots.push(x.clone());
    }
    UOp::sink(roots)
}

/// Sums that fold step by step: some six rewrites for each of `n` roots.
fn foldable(seed: i64, n: usize) -> UOp {
    let i = UOp::var(0, DType::Index, 0, 1000);
    let root = |k: i64| (((&i + (k + seed)) + 3) * 4 + (&i * 2) * 3) + 5;
    UOp::sink((0..n as i64).map(root))
}

fn best(mut run: impl FnMut(usize) -> Duration) -> Duration {
    (0..RUNS).map(&mut run).min().expect("at least one run")
}

fn timed<R>(f: impl FnOnce() -> R) -> Duration {
    let start = Instant::now();
    black_box(f());
    start.elapsed()
}

/// Visits every node with a set of its own, under which no node is known to be normal.
fn visit(graph: &UOp, tables: &'static [&'static [Rule]]) -> Duration {
    let set = RuleSet::new("visit", tables);
    graph_rewrite(&UOp::index(0), &set);
    timed(|| assert_eq!(graph_rewrite(graph, &set), *graph))
}

/// How many rewrites make `graph` normal.
fn fired(graph: &UOp, set: &RuleSet) -> u64 {
    let before = total(set);
    set_tracking(true);
    graph_rewrite(graph, set);
    set_tracking(false);
    total(set) - before
}

fn total(set: &RuleSet) -> u64 {
    set.plain_rules().map(|r| stats(r.name).fired).sum()
}

fn line(what: &str, n: u64, time: Duration) {
    let rate = n as f64 / time.as_secs_f64() / 1e6;
    println!("{what:<44} {n:>9} in {:>8.2} ms  {rate:>8.2} M/s", time.as_secs_f64() * 1e3);
}

fn main() {
    let seed = |run: usize| (run as i64 + 1) * 10_000_000;
    let nodes = toposort(&kernel(0)).len() as u64;
    println!("{} rules", MANY.len());

    let compile = best(|_| {
        let set = RuleSet::new("compile", TABLES);
        timed(|| graph_rewrite(&UOp::index(0), &set))
    });
    line("rules compiled at first use", MANY.len() as u64, compile);

    line(
        "nodes built",
        nodes,
        best(|run| {
            let mut graph = None;
            let time = timed(|| graph = Some(kernel(seed(run))));
            drop(graph);
            time
        }),
    );
    let kept = kernel(0);
    line("nodes built that exist", nodes, best(|_| timed(|| kernel(0))));
    line(
        "nodes freed",
        nodes,
        best(|run| {
            let graph = kernel(seed(run));
            timed(|| drop(graph))
        }),
    );
    line("toposort", nodes, best(|_| timed(|| toposort(&kept))));

    line("visits, 900 rules, nothing fires", nodes, best(|_| visit(&kept, TABLES)));
    let normal = simplify(&kept);
    let n = toposort(&normal).len() as u64;
    line("visits, symbolic, nothing fires", n, best(|_| visit(&normal, symbolic().tables())));
    if std::env::args().any(|a| a == "--stats") {
        set_tracking(true);
        visit(&normal, symbolic().tables());
        set_tracking(false);
        println!("{}", report(true));
    }
    let set = RuleSet::new("again", TABLES);
    graph_rewrite(&kept, &set);
    line("visits, known to be normal", nodes, best(|_| timed(|| graph_rewrite(&kept, &set))));

    static FOLD: RuleSet = RuleSet::new("fold", &[SOME]);
    for (what, set) in [("rewrites, six rules", &FOLD), ("rewrites, symbolic", symbolic())] {
        let n = fired(&foldable(0, NODES / 10), set);
        let time = best(|run| {
            let graph = foldable(seed(run), NODES / 10);
            timed(|| graph_rewrite(&graph, set))
        });
        line(what, n, time);
    }
    // as many nodes as a kernel has, which stay in the caches
    let (roots, graphs) = (NODES / 2000, 200);
    let n = fired(&foldable(0, roots), symbolic()) * graphs;
    let time = best(|run| {
        let graph = |k| foldable(seed(run) + k as i64 * 10_000, roots);
        (0..graphs).map(graph).map(|g| timed(|| graph_rewrite(&g, symbolic()))).sum()
    });
    line("rewrites, symbolic, 200 graphs of 500 nodes", n, time);
}
