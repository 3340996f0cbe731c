//! Decomposed ops mean what `eval` says.

use crate::flat::Flat;
use crate::ulp::{FUNCTIONS, program, program_for, worst_f32};
use kiln_compile::lower::decompose::decompose;
use kiln_compile::target::Target;
use kiln_ir::rules::simplify;
use kiln_ir::uop::toposort;
use kiln_ir::{Const, DType, Op, UOp, eval};
use rustc_hash::FxHashMap;

/// The value of a scalar expression whose variables have these values.
fn value(root: &UOp, vars: &[Const]) -> Const {
    let mut known: FxHashMap<UOp, Const> = FxHashMap::default();
    for node in toposort(root) {
        let srcs: Vec<Const> = node.srcs().iter().map(|s| known[s]).collect();
        let value = match node.op() {
            Op::Const => node.as_const(),
            Op::Var => Some(vars[node.arg().slot().expect("slot")]),
            Op::Bitcast => eval::bitcast(srcs[0], node.src(0).dtype(), node.dtype()),
            op => eval::eval(op, node.dtype(), &srcs),
        };
        known.insert(node.clone(), value.unwrap_or_else(|| panic!("{node:?} of {srcs:?}")));
    }
    known[root]
}

fn machine(root: &UOp) -> UOp {
    decompose(root, &Target::interp())
}

fn var(slot: usize, dtype: DType) -> UOp {
    let (lo, hi) = dtype.int_bounds();
    UOp::var(slot, dtype, lo, hi)
}

fn edges_f32() -> impl Iterator<Item = u32> {
    let near = |x: f32| (-2i32..=2).map(move |d| x.to_bits().wrapping_add_signed(d));
    let points = [0.0, f32::MIN_POSITIVE, 0.5, 0.625, 1.0, 1.5707964, 4.712389, 10.0, 88.72284];
    let more = [103.97208, 128.0, 149.0, 1.6367173e29, f32::MAX, f32::INFINITY];
    points.into_iter().chain(more).flat_map(move |x| near(x).chain(near(-x)))
}

#[test]
fn functions_of_f32_are_within_their_bounds() {
    for fma in [true, false] {
        let target = Target { fma, ..Target::interp() };
        for (op, truth, bound) in FUNCTIONS {
            let inputs = (0..=u32::MAX).step_by(100_003).chain(edges_f32());
            let (worst, at) = worst_f32(&program_for(op, DType::F32, &target), truth, inputs);
            assert!(worst <= bound, "{op}, fma {fma}: {worst} ulp at {}", f32::from_bits(at));
        }
    }
}

fn samples_f64() -> Vec<f64> {
    let random = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(i | 1);
    let bits = (1..4000).map(random).map(f64::from_bits);
    let grid = (-4000..4000).map(|i| i as f64 * 0.1873);
    let edges = [0.0, -0.0, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e300];
    let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -745.2, 709.8, 1023.9, -1074.6];
    bits.chain(grid).chain(edges).chain(special).collect()
}

#[test]
fn functions_of_f64_are_near_the_library() {
    for (op, truth, bound) in FUNCTIONS {
        let inputs: Vec<u64> = samples_f64().into_iter().map(f64::to_bits).collect();
        for (x, y) in inputs.iter().zip(program(op, DType::F64).run(&inputs)) {
            let (y, right) = (f64::from_bits(y), truth(f64::from_bits(*x)));
            let same = y == right || (y.is_nan() && right.is_nan());
            let apart = y.to_bits().abs_diff(right.to_bits());
            // the library itself may be one off
            assert!(
                same || apart as f64 <= bound + 1.0,
                "{op} {}: {y} {right}",
                f64::from_bits(*x)
            );
        }
    }
}

/// The f64 that comes nearest to a multiple of `pi / 2`; the right value is from a calculation with 1300 bits.
#[test]
fn exponentials_of_what_is_at_most_zero_are_the_same_bits() {
    let check = |dtype: DType, samples: Vec<Const>| {
        let x = var(0, dtype);
        let bounded = x.minimum(&x.const_like(0.0));
        let [plain, bounded] = [&x, &bounded].map(|x| machine(&UOp::unary(Op::Exp, x)));
        assert!(toposort(&bounded).len() < toposort(&plain).len());
        for at in samples {
            assert_eq!(value(&bounded, &[at]), value(&plain, &[at]), "{at:?}");
        }
    };
    let negative = |bits: u32| f32::from_bits(bits | 1 << 31);
    let f32s = edges_f32().chain((0..=u32::MAX >> 1).step_by(100_003)).map(negative);
    check(DType::F32, f32s.map(|x| Const::Float(x as f64)).collect());
    let f64s = samples_f64().into_iter().map(|x| -x.abs());
    check(DType::F64, f64s.map(Const::Float).collect());
}

#[test]
fn the_hardest_angle_is_right() {
    let x = 6381956970095103.0 * 2f64.powi(797);
    let y = program(Op::Cos, DType::F64).run(&[x.to_bits()])[0];
    assert!(y.abs_diff((-4.687165924254628e-19f64).to_bits()) <= 1);
}

#[test]
fn zeros_keep_their_sign() {
    for op in [Op::Sin, Op::Tanh] {
        for dtype in [DType::F32, DType::F64] {
            let root = machine(&UOp::unary(op, &var(0, dtype)));
            assert_eq!(value(&root, &[Const::Float(-0.0)]), Const::Float(-0.0), "{op} {dtype}");
        }
    }
}

const INTS: [DType; 8] =
    [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];

fn interesting(dtype: DType) -> Vec<Const> {
    let (lo, hi) = dtype.int_bounds();
    let near =
        [lo, lo + 1, lo / 2, -17, -8, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, 9, 31, 32, 63, 64, 65];
    let all = near.into_iter().chain([hi / 2, hi - 1, hi]);
    let mut values: Vec<Const> = all.map(|v| Const::Int(v).cast(dtype)).collect();
    values.push(Const::UInt(u64::MAX).cast(dtype));
    values
}

#[test]
fn integer_division_and_shifts_mean_the_same_on_machines() {
    let ops = [Op::FloorDiv, Op::FloorMod, Op::Shl, Op::Shr];
    for dtype in INTS {
        let (x, y) = (var(0, dtype), var(1, dtype));
        for op in ops {
            let open = machine(&UOp::binary(op, &x, &y));
            for b in interesting(dtype) {
                let closed = machine(&UOp::binary(op, &x, &x.const_like(b)));
                for a in interesting(dtype) {
                    let right = eval::eval(op, dtype, &[a, b]);
                    assert_eq!(Some(value(&open, &[a, b])), right, "{op} {dtype} {a} {b}");
                    assert_eq!(Some(value(&closed, &[a])), right, "{op} {dtype} {a} const {b}");
                }
            }
        }
    }
}

#[test]
fn divisions_are_never_what_traps() {
    let x = var(0, DType::I32);
    let y = var(1, DType::I32);
    let root = machine(&x.floordiv(&y));
    for node in toposort(&root).iter().filter(|n| n.op() == Op::TruncDiv) {
        for (a, b) in [(5, 0), (i32::MIN, -1), (i32::MIN, 0)] {
            let vars = [Const::from(a), Const::from(b)];
            let divisor = value(node.src(1), &vars);
            assert_eq!(divisor, Const::Int(1), "{a} by {b}");
        }
    }
}

#[test]
fn bounds_leave_guards_out() {
    let x = UOp::var(0, DType::Index, 0, 100);
    let ops = |root: &UOp| {
        toposort(&machine(root)).iter().map(|n| n.op().name()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ops(&x.floordiv(&UOp::index(8))), "var const shr");
    assert_eq!(ops(&x.floormod(&UOp::index(8))), "var const and");
    assert_eq!(ops(&x.floordiv(&UOp::index(7))), "var const truncdiv");
    assert_eq!(ops(&x.floormod(&UOp::index(7))), "var const truncmod");
}

fn interesting_floats(dtype: DType) -> Vec<Const> {
    let powers = [7, 8, 15, 16, 31, 32, 63, 64].map(|p| 2f64.powi(p));
    let around = powers.iter().flat_map(|&p| [p * (1.0 - 1e-7), p - 1.0, p - 0.5, p, p + 1.0]);
    let small = [0.0, 0.3, 0.999, 1.0, 1.5, 2.7, 1e-30, 65504.0, 65519.9, 65520.0, 1e38, 1e300];
    let positive = around.chain(small).chain([f64::INFINITY]);
    let both = positive.flat_map(|x| [x, -x]).chain([f64::NAN]);
    both.map(|x| Const::Float(x).cast(dtype)).collect()
}

#[test]
fn casts_saturate_and_round_as_constants_do() {
    let floats = [DType::F16, DType::BF16, DType::F32, DType::F64];
    for from in floats {
        for to in INTS.into_iter().chain(floats).chain([DType::Bool]) {
            let root = machine(&var(0, from).cast(to));
            for x in interesting_floats(from) {
                assert_eq!(value(&root, &[x]), x.cast(to), "{from} {x} to {to}");
            }
        }
    }
    for from in INTS {
        for to in floats.into_iter().chain(INTS).chain([DType::Bool]) {
            let root = machine(&var(0, from).cast(to));
            for x in interesting(from) {
                assert_eq!(value(&root, &[x]), x.cast(to), "{from} {x} to {to}");
            }
        }
    }
}

#[test]
fn machine_casts_of_floats_are_in_range() {
    for to in INTS {
        let root = machine(&var(0, DType::F32).cast(to));
        for node in toposort(&root) {
            let from = node.srcs().first().map_or(DType::Void, UOp::dtype);
            if node.op() == Op::Cast && from.is_float() && node.dtype().is_int() {
                for x in interesting_floats(DType::F32) {
                    let Const::Float(plain) = value(node.src(0), &[x]) else { panic!("a float") };
                    let exact = value(&node, &[x]).as_i128().expect("an integer");
                    assert_eq!(plain.trunc() as i128, exact, "{to} {x}");
                }
            }
        }
    }
}

#[test]
fn narrow_arithmetic_is_f32_with_a_rounding() {
    for dtype in [DType::F16, DType::BF16] {
        let (x, y) = (var(0, dtype), var(1, dtype));
        for op in [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Max, Op::Min, Op::CmpLt, Op::CmpNe] {
            let root = machine(&UOp::binary(op, &x, &y));
            let wide = |n: &UOp| !n.op().is_alu() || !n.srcs().iter().any(|s| s.dtype() == dtype);
            assert!(toposort(&root).iter().all(wide), "{op} {dtype}");
            for a in interesting_floats(dtype) {
                for b in interesting_floats(dtype) {
                    let right = eval::eval(op, root.dtype(), &[a, b]);
                    assert_eq!(Some(value(&root, &[a, b])), right, "{op} {dtype} {a} {b}");
                }
            }
        }
    }
}

#[test]
fn what_only_picks_is_not_converted_twice() {
    let (x, y) = (var(0, DType::F16), var(1, DType::F16));
    let root = machine(&(UOp::unary(Op::Neg, &x.maximum(&y)) + &x));
    let casts = toposort(&root).iter().filter(|n| n.op() == Op::Cast).count();
    assert_eq!(casts, 3, "both operands in, the sum out");
}

#[test]
fn vectors_decompose_like_scalars() {
    let x = UOp::local(kiln_ir::arg::Space::Register, 0, 1, DType::F32, 4);
    let v = UOp::load(&x, &UOp::index(0));
    for (op, ..) in FUNCTIONS {
        let root = machine(&UOp::unary(op, &v));
        assert_eq!(root.lanes(), 4, "{op}");
        assert!(toposort(&root).iter().all(|n| !n.op().is_transcendental()), "{op}");
    }
}

#[test]
fn bools_become_logic() {
    let (x, y) = (var(0, DType::Bool), var(1, DType::Bool));
    for op in [Op::Add, Op::Mul, Op::Max, Op::Min, Op::CmpLt, Op::CmpEq, Op::CmpNe] {
        let root = machine(&UOp::binary(op, &x, &y));
        for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
            let operands = [Const::Bool(a), Const::Bool(b)];
            assert_eq!(
                Some(value(&root, &operands)),
                eval::eval(op, DType::Bool, &operands),
                "{op}"
            );
        }
    }
}

#[test]
fn simplification_changes_no_bit() {
    let inputs: Vec<u64> =
        (0..=u32::MAX).step_by(1_000_003).chain(edges_f32()).map(u64::from).collect();
    for (op, ..) in FUNCTIONS {
        let root = machine(&UOp::unary(op, &var(0, DType::F32)));
        let (plain, simple) = (Flat::new(&root), Flat::new(&simplify(&root)));
        let same = |(a, b): (u64, u64)| {
            a == b || [a, b].map(|y| f32::from_bits(y as u32).is_nan()) == [true; 2]
        };
        assert!(plain.run(&inputs).into_iter().zip(simple.run(&inputs)).all(same), "{op}");
    }
}

#[test]
fn functions_of_narrow_floats_are_the_f32_ones_rounded() {
    for dtype in [DType::F16, DType::BF16] {
        for (op, truth, _) in FUNCTIONS {
            let root = machine(&UOp::unary(op, &var(0, dtype)));
            for bits in (0..=u16::MAX as u64).step_by(41) {
                let x = eval::from_bits(bits, dtype);
                let right = Const::Float(truth(x.as_f64())).cast(dtype);
                let got = value(&root, &[x]);
                let bits = |c: Const| eval::to_bits(c, dtype);
                assert!(got == right || bits(got).abs_diff(bits(right)) == 1, "{op} {dtype} {x}");
            }
        }
    }
}
