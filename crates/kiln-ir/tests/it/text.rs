//! The text form: exact round trips, comfort for hands, errors with places, no panic on any input.

use expect_test::{Expect, expect};
use kiln_ir::arg::{PadAxis, RangeKind, ReduceOp, SliceAxis, Space, WindowArg};
use kiln_ir::text::{expr, parse, parse_list, print, print_list};
use kiln_ir::{Arg, Const, DType, Op, UOp};
use smallvec::smallvec;

fn round_trip(node: &UOp) {
    let text = print(node);
    match parse(&text) {
        Ok(back) => assert!(back == *node, "{text}\nparsed to\n{}", print(&back)),
        Err(e) => panic!("{e} in\n{text}"),
    }
}

fn check(root: &UOp, expected: Expect) {
    expected.assert_eq(&print(root));
    round_trip(root);
}

fn kernel() -> UOp {
    let (out, x) =
        (UOp::param(0, DType::F32, smallvec![16]), UOp::param(1, DType::F32, smallvec![16]));
    let r = UOp::range(0, RangeKind::Loop, 4);
    let k = UOp::range(1, RangeKind::Reduce, 4);
    let gate = r.lt(&UOp::index(3));
    let v = UOp::load_lanes(&x, &(&(&r * 4) + &k), Some(&gate), 1);
    let sum = v.reduce_ranges(ReduceOp::Add, [k]);
    UOp::kernel([UOp::store(&out, &r, &sum, None).end([r])], "r_4_4")
}

#[test]
fn a_kernel_reads_well() {
    check(
        &kernel(),
        expect![[r#"
            %0 = param f32 slot=0 [16]
            %1 = range index axis=0 loop 4
            %2 = param f32 slot=1 [16]
            %3 = mul index %1 4
            %4 = range index axis=1 reduce 4
            %5 = add index %3 %4
            %6 = cmplt bool %1 3
            %7 = load f32 %2 %5 gate=%6
            %8 = reduce f32 add %7 %4
            %9 = store %0 %1 %8
            %10 = end %9 %1
            sink name=r_4_4 %10
        "#]],
    );
}

#[test]
fn every_constant_round_trips() {
    let floats = [0.0, -0.0, 1.5, 0.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-310, 1e300];
    let tiny = [f64::MIN_POSITIVE, f32::MIN_POSITIVE as f64, 65504.0, 6e-8, f32::MAX as f64];
    let ints = [0, 1, -1, i64::MIN, i64::MAX];
    for dtype in DType::STORAGE.into_iter().chain(DType::FP8).chain([DType::Index]) {
        let floats = floats.iter().chain(&tiny).map(|&f| Const::Float(f));
        let values = floats.chain(ints.map(Const::Int)).chain([Const::UInt(u64::MAX)]);
        for value in values {
            let c = UOp::constant(value, dtype);
            round_trip(&c);
            round_trip(&c.splat(4));
            round_trip(&UOp::unary(Op::Neg, &c.splat(8)));
        }
    }
}

/// A node of each op, by its own constructor or by `UOp::new`.
fn samples() -> Vec<UOp> {
    let f = UOp::param(3, DType::F32, smallvec![2, 3]);
    let (r, m) = (UOp::range(7, RangeKind::Thread, 9), UOp::param(0, DType::F32, smallvec![9]));
    let scratch = UOp::local(Space::Scratch, 1, 64, DType::F32, 1);
    let register = UOp::local(Space::Register, 2, 8, DType::F32, 4);
    let (load, t) = (UOp::load(&m, &r), UOp::bool(true));
    let word = load.bitcast(DType::U32);
    let effect = UOp::store(&m, &r, &load, Some(&r.lt(&UOp::index(2))));
    let slices =
        [SliceAxis { start: 1, step: -1, len: 2 }, SliceAxis { start: 0, step: 2, len: 2 }];
    let pads = [PadAxis { before: 1, between: 2, after: 3 }, PadAxis::default()];
    let window = WindowArg { axis: 1, len: 3, size: 2, stride: 1, dilation: 1 };
    let at = UOp::positions(f.shape().clone());
    let stop = UOp::new(Op::If, DType::Void, 1, smallvec![r.lt(&UOp::index(2))], Arg::None);
    let mut out = vec![
        UOp::constant(3, DType::I16),
        UOp::iota(5, DType::I32),
        UOp::buffer(9, DType::U8, smallvec![2, 0], "odd \"name\"\n\\".into()),
        UOp::var(1, DType::I32, 0, 9),
        UOp::var(2, DType::F32, i64::MIN, i64::MAX),
        f.reshape(smallvec![6]),
        f.permute(smallvec![1, 0]),
        f.reshape(smallvec![2, 1, 3]).expand(smallvec![2, 5, 3]),
        f.pad(&pads),
        f.slice(&slices),
        f.slice_from(&slices, [UOp::var(3, DType::Index, 1, 1), UOp::index(0)]),
        f.window(window),
        f.window(window).unwindow(window),
        f.cast(DType::F64),
        f.bitcast(DType::I32),
        f.bitcast(DType::I8),
        f.reduce(ReduceOp::Max, smallvec![0, 1]),
        load.reduce_ranges(ReduceOp::Mul, [r.clone()]),
        f.contiguous(),
        f.detach(),
        f.mark(77, true),
        f.mark(77, false),
        UOp::new(Op::Vjp, DType::F32, 1, smallvec![f.clone(), f.clone()], Arg::None),
        f.remat([f.clone()]),
        f.update(&f, &at),
        f.update_with(Some(ReduceOp::Max), &f, &at),
        f.gather(&at.reshape(smallvec![6])),
        f.after([f.contiguous()]),
        scratch.after([effect.end([r.clone()])]),
        UOp::new(Op::Copy, DType::F32, 1, smallvec![f.clone()], Arg::Device("CPU:1".into())),
        UOp::new(Op::Barrier, DType::Void, 1, smallvec![effect.clone()], Arg::None),
        UOp::new(Op::EndIf, DType::Void, 1, smallvec![stop.clone()], Arg::None),
        UOp::kernel([effect.clone()], "a name"),
        UOp::sink([]),
        UOp::load(&register, &UOp::index(1)).lane(3),
        UOp::load(&register, &UOp::index(1)).shuffle(8),
        UOp::prefetch(&m, &r, 48),
        UOp::stack(smallvec![load.clone(), UOp::constant(2, DType::F32)]),
        load.splat(16),
        t.where_(&load, &load),
        UOp::ternary(Op::MulAdd, &load, &load, &load),
        UOp::dot([DType::BF16; 2], &word, &word, &load),
        UOp::mma(
            [DType::BF16; 2],
            [2, 4, 3],
            &word.splat(8),
            &word.splat(12),
            &UOp::constant(0.0, DType::F32).splat(6),
        ),
        UOp::dot([DType::U8, DType::I8], &word, &word, &word.cast(DType::I32)),
    ];
    for &op in Op::ALL.iter().filter(|op| op.is_alu()) {
        out.push(match op.group() {
            kiln_ir::op::Group::Unary => UOp::unary(op, &f),
            kiln_ir::op::Group::Binary => UOp::binary(op, &f, &load),
            _ => continue,
        });
    }
    out
}

#[test]
fn every_op_round_trips() {
    let samples = samples();
    let seen: u128 =
        samples.iter().flat_map(kiln_ir::uop::toposort).fold(0, |set, node| set | node.op().bit());
    // what a composite is made of is code, which no text has
    for &op in Op::ALL.iter().filter(|op| **op != Op::Composite) {
        assert!(seen & op.bit() != 0, "no sample of {op}");
    }
    samples.iter().for_each(round_trip);
    round_trip(&UOp::sink(samples));
}

#[test]
fn lists_keep_their_order_and_what_they_do_not_list() {
    let m = UOp::local(Space::Scratch, 0, 16, DType::F32, 1);
    let r = UOp::range(0, RangeKind::Loop, 16);
    let end = UOp::new(Op::End, DType::Void, 1, smallvec![r.clone()], Arg::None);
    let store = UOp::store(&m, &r, &UOp::constant(1.0, DType::F32), None);
    let load = UOp::load(&m.after([end.clone()]), &UOp::index(3));
    let list = [m, r, store, end, load];
    expect![[r#"
        %0 = local f32 scratch id=0 len=16
        %1 = range index axis=0 loop 16
        store %0 %1 1.0:f32
        %2 = end %1
        with %3 = after f32 %0 %2
        %4 = load f32 %3 3
    "#]]
    .assert_eq(&print_list(&list));
    assert!(parse_list(&print_list(&list)).expect("parses") == list);
    // an entry before its source: broken, and still told as it is
    let broken = [list[2].clone(), list[0].clone(), list[1].clone()];
    assert!(parse_list(&print_list(&broken)).expect("parses") == broken);
}

#[test]
fn handwriting_may_leave_types_out() {
    let by_hand = parse(
        "# names are free, and types may follow from the sources
         %i = range loop axis=0 4   # attributes in any order
         %k = range axis=1 reduce 4

         %row = mul %i 4
         %at = add %k %row",
    );
    let by_hand = by_hand.expect("parses");
    assert_eq!(expr(&by_hand), "r1 + r0*4");
    assert_eq!(by_hand.dtype(), DType::Index);
}

fn error(text: &str, expected: Expect) {
    expected.assert_eq(&parse(text).expect_err(text).to_string());
}

#[test]
fn errors_name_the_place() {
    error("", expect!["line 1, column 1: no node in the text"]);
    error("%0 = plus f32 1 2", expect!["line 1, column 6: there is no op `plus`"]);
    error("add %a 1", expect!["line 1, column 5: %a is not defined above"]);
    error("\n%a = add f32 1", expect!["line 2, column 6: add: has 1 sources, wants 2"]);
    error("%a = iota i32 [4]\n%a = iota i32 [4]", expect!["line 2, column 1: %a is defined twice"]);
    error(
        "neg 1.5",
        expect![
            "line 1, column 5: `1.5` is no index constant; other constants name their type as in `1.5:f32`"
        ],
    );
    error("neg 300:u8", expect!["line 1, column 5: `300` is no u8"]);
    error("param f32 slot=0", expect!["line 1, column 1: a list `[..]` is missing"]);
    error("param f32 slot=-1 [2]", expect!["line 1, column 1: `slot=-1` is no number that fits"]);
    error(
        "range axis=0 4",
        expect![
            "line 1, column 1: one of global, thread, local, loop, reduce, upcast, unroll, vector, matrix is missing"
        ],
    );
    error("neg 1 color=red", expect!["line 1, column 7: `color` says nothing about this op"]);
    error(
        "%p = param f32 slot=0 [2]\npermute %p [1]",
        expect!["line 2, column 1: permute: Axes([1]) does not fit the shape [2]"],
    );
    error("iota i32 [4,", expect!["line 1, column 13: a number or `]` is expected here"]);
    error("sink name=\"x", expect!["line 1, column 11: the quotes are not closed"]);
    error("iota i32 [4] ?", expect!["line 1, column 14: unexpected character '?'"]);
}

#[test]
fn no_input_panics() {
    let seeds = [print(&UOp::sink(samples())), print(&kernel())];
    let pieces = [
        "%0",
        "-1",
        "[",
        "]",
        "9223372036854775807",
        ":",
        "=",
        "\"",
        "f32",
        "x65535",
        " ",
        "\\u{",
        "é",
    ];
    let mut state = 1u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    for seed in seeds.iter().flat_map(|s| std::iter::repeat_n(s, 1500)) {
        let lines: Vec<&str> = seed.lines().collect();
        let mut text: Vec<char> = lines[..next(lines.len()) + 1].join("\n").chars().collect();
        for _ in 0..next(4) + 1 {
            let at = next(text.len());
            text.splice(at..(at + next(3)).min(text.len()), pieces[next(pieces.len())].chars());
        }
        let text: String = text.into_iter().collect();
        if let Ok(list) = parse_list(&text) {
            assert!(parse_list(&print_list(&list)).as_ref() == Ok(&list), "{text}");
        }
    }
}

#[test]
fn deep_graphs_do_not_recurse() {
    let mut x = UOp::var(0, DType::I32, 0, 1);
    for _ in 0..50_000 {
        x = &x + &x;
    }
    round_trip(&x);
    assert!(expr(&x).ends_with("..."));
}

#[test]
fn expressions_are_infix() {
    let (a, b) = (UOp::range(0, RangeKind::Loop, 8), UOp::range(1, RangeKind::Loop, 8));
    let v = UOp::var(0, DType::Index, 0, 100);
    let p = UOp::param(2, DType::F32, smallvec![64]);
    let at = &(&a * 4) + &b;
    let cases = [
        (at.clone(), expect!["r0*4 + r1"]),
        ((&at * 3).floordiv(&UOp::index(5)), expect!["(r0*4 + r1)*3//5"]),
        (&v - &(&a - &b), expect!["v0 - (r0 - r1)"]),
        (&a + -1, expect!["r0 - 1"]),
        (a.lt(&UOp::index(4)).and(&b.ne_(&v)), expect!["(r0 < 4) & (r1 != v0)"]),
        (UOp::load_lanes(&p, &at, Some(&a.lt(&b)), 1), expect!["p2[r0*4 + r1 if r0 < r1]"]),
        (a.maximum(&b).floormod(&v).cast(DType::I32), expect!["i32(max(r0, r1)%v0)"]),
        (a.lt(&b).not().where_(&a, &-&b), expect!["where(!(r0 < r1), r0, -r1)"]),
    ];
    for (node, expected) in cases {
        expected.assert_eq(&expr(&node));
    }
}
