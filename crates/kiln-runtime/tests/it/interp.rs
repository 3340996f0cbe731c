//! INTERP on hand-written programs: loops, gates, groups, and the errors it exists to find.

use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::program::{ParamInfo, Program};
use kiln_ir::uop::Srcs;
use kiln_ir::{Arg, DType, Op, UOp};
use kiln_runtime::interp::{Counts, InterpError, Neighbours, Traffic, count, run};
use std::cell::Cell;

fn program(ops: Vec<UOp>, params: usize, global: &[usize], local: &[usize]) -> Program {
    let param = ParamInfo { dtype: DType::I32, len: 0, written: true, read: true, streamed: false };
    Program {
        name: "test".into(),
        ops,
        source: String::new(),
        params: vec![param; params],
        vars: vec![],
        threads: UOp::index(1),
        global: global.to_vec(),
        local: local.to_vec(),
        scratch_bytes: 0,
        flops: 0,
        bytes: 0,
        accessed: 0,
    }
}

fn i32s(values: &[i32]) -> Vec<Cell<u8>> {
    values.iter().flat_map(|v| v.to_le_bytes()).map(Cell::new).collect()
}

fn back(bytes: &[Cell<u8>]) -> Vec<i32> {
    let bytes: Vec<u8> = bytes.iter().map(Cell::get).collect();
    bytes.chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect()
}

fn c(value: i64) -> UOp {
    UOp::constant(value, DType::I32)
}

fn loop_to(axis: u32, kind: RangeKind, n: i64) -> UOp {
    UOp::new(Op::Range, DType::I32, 1, [c(n)].into_iter().collect(), Arg::Range { axis, kind })
}

fn end(range: &UOp) -> UOp {
    UOp::new(Op::End, DType::Void, 1, [range.clone()].into_iter().collect(), Arg::None)
}

fn data(slot: usize, n: usize) -> UOp {
    UOp::param(slot, DType::I32, [n].as_slice())
}

#[test]
fn adds_two_to_each_element() {
    let (out, x, i) = (data(0, 3), data(1, 3), loop_to(0, RangeKind::Loop, 3));
    let (load, two) = (UOp::load(&x, &i), c(2));
    let sum = &load + &two;
    let store = UOp::store(&out, &i, &sum, None);
    let p = program(vec![out, x, i.clone(), load, sum, store, end(&i)], 2, &[], &[]);
    let (a, b) = (i32s(&[0; 3]), i32s(&[1, 2, 3]));
    run(&p, &[&a, &b], &[]).unwrap();
    assert_eq!(back(&a), [3, 4, 5]);
}

/// A register that sums the rows of `[2, 3]`, and the loops' state on the second pass.
#[test]
fn nested_loops_and_registers() {
    let (out, x) = (data(0, 2), data(1, 6));
    let (i, j) = (loop_to(0, RangeKind::Thread, 2), loop_to(1, RangeKind::Reduce, 3));
    let acc = UOp::local(Space::Register, 0, 1, DType::I32, 1);
    let clear = UOp::store(&acc, &c(0), &c(0), None);
    let row = &i * &c(3);
    let at = &row + &j;
    let (load, old) = (UOp::load(&x, &at), UOp::load(&acc.after([j.clone()]), &c(0)));
    let sum = &old + &load;
    let keep = UOp::store(&acc, &c(0), &sum, None);
    let total = UOp::load(&acc.after([end(&j)]), &c(0));
    let store = UOp::store(&out, &i, &total, None);
    let ops = vec![
        out,
        x,
        i.clone(),
        acc,
        clear,
        row,
        j.clone(),
        at,
        load,
        old,
        sum,
        keep,
        end(&j),
        total,
        store,
        end(&i),
    ];
    let (a, b) = (i32s(&[0; 2]), i32s(&[1, 2, 3, 4, 5, 6]));
    run(&program(ops, 2, &[], &[]), &[&a, &b], &[]).unwrap();
    assert_eq!(back(&a), [6, 15]);
}

#[test]
fn gated_accesses_stay_away_from_memory() {
    let (out, x, i) = (data(0, 3), data(1, 3), loop_to(0, RangeKind::Loop, 3));
    let inside = i.lt(&c(1));
    let far = &i + &c(2);
    let load = UOp::load_lanes(&x, &far, Some(&inside), 1);
    let store = UOp::store(&out, &i, &load, None);
    let ops = vec![out, x, i.clone(), inside, far, load, store, end(&i)];
    let (a, b) = (i32s(&[9; 3]), i32s(&[1, 2, 3]));
    run(&program(ops, 2, &[], &[]), &[&a, &b], &[]).unwrap();
    assert_eq!(back(&a), [3, 0, 0]);
}

#[test]
fn an_access_out_of_bounds_is_an_error() {
    let (out, i) = (data(0, 3), loop_to(0, RangeKind::Loop, 4));
    let store = UOp::store(&out, &i, &c(7), None);
    let p = program(vec![out, i.clone(), store, end(&i)], 1, &[], &[]);
    let a = i32s(&[0; 8]);
    let error = run(&p, &[&a], &[]).unwrap_err();
    assert!(matches!(error, InterpError::OutOfBounds { at: 2, index: 3, len: 3, .. }), "{error}");
    assert_eq!(error.to_string(), "kernel test: store number 2 accesses element 3 of 3 in param 0");
}

/// Two groups of four: each item writes scratch, waits, and reads its neighbour's.
fn neighbours(barrier: bool) -> Result<Vec<i32>, InterpError> {
    let out = data(0, 8);
    let (g, l) = (loop_to(0, RangeKind::Global, 2), loop_to(1, RangeKind::Local, 4));
    let s = UOp::local(Space::Scratch, 0, 4, DType::I32, 1);
    let value = &g * &c(10);
    let value2 = &value + &l;
    let put = UOp::store(&s, &l, &value2, None);
    let wait = UOp::new(Op::Barrier, DType::Void, 1, Srcs::new(), Arg::None);
    let next = &l + &c(1);
    let next2 = &next & &c(3);
    let get = UOp::load(&s.after([put.clone()]), &next2);
    let base = &g * &c(4);
    let at = &base + &l;
    let store = UOp::store(&out, &at, &get, None);
    let mut ops = vec![out, g, l, s, value, value2, put, wait, next, next2, get, base, at, store];
    ops.retain(|op| barrier || op.op() != Op::Barrier);
    let a = i32s(&[0; 8]);
    run(&program(ops, 1, &[2], &[4]), &[&a], &[]).map(|()| back(&a))
}

#[test]
fn items_of_a_group_meet_at_barriers() {
    assert_eq!(neighbours(true).unwrap(), [1, 2, 3, 0, 11, 12, 13, 10]);
    let error = neighbours(false).unwrap_err();
    assert!(matches!(error, InterpError::Race { .. }), "{error}");
    assert!(error.to_string().contains("races with another item"), "{error}");
}

/// A group of so many items: each stores ten times what the item with this mask has, plus its own number.
fn exchanged(items: usize, mask: u16) -> Result<Vec<i32>, InterpError> {
    let (out, l) = (data(0, 8), loop_to(0, RangeKind::Local, items as i64));
    let square = &l * &l;
    let other = square.shuffle(mask);
    let tens = &other * &c(10);
    let value = &tens + &l;
    let store = UOp::store(&out, &l, &value, None);
    let a = i32s(&[0; 8]);
    let ops = vec![out, l, square, other, tens, value, store];
    run(&program(ops, 1, &[], &[items]), &[&a], &[]).map(|()| back(&a))
}

#[test]
fn items_exchange_values() {
    assert_eq!(exchanged(4, 1).unwrap(), [10, 1, 92, 43, 0, 0, 0, 0]);
    assert_eq!(exchanged(8, 6).unwrap(), [360, 491, 162, 253, 44, 95, 6, 17]);
    let error = exchanged(3, 2).unwrap_err();
    assert!(error.to_string().contains("item 1 with item 3, which does not exist"), "{error}");
}

/// Two groups of 64 items, of which 32 execute a step at the same time. Each item loads an element, copies it to scratch, and
/// from there to memory after a barrier. What neighbours load and what they have in scratch is so far apart.
fn counted(apart: i64, apart_in_scratch: i64) -> Counts {
    let memory = |slot, n| UOp::param(slot, DType::F32, [n].as_slice());
    let (out, x) = (memory(0, 128), memory(1, 128 * 4));
    let (g, l) = (loop_to(0, RangeKind::Global, 2), loop_to(1, RangeKind::Local, 64));
    let s = UOp::local(Space::Scratch, 0, 64 * 33, DType::F32, 1);
    let (base, near) = (&g * &c(64), &l * &c(apart));
    let (own, at, place) = (&base + &l, &base + &near, &l * &c(apart_in_scratch));
    let (never, none) = (l.lt(&c(0)), UOp::constant(0.0, DType::F32));
    let load = UOp::load(&x, &at);
    let put = UOp::store(&s, &place, &load, None);
    let nothing = UOp::store(&s, &place, &none, Some(&never));
    let wait = UOp::new(Op::Barrier, DType::Void, 1, Srcs::new(), Arg::None);
    let get = UOp::load(&s.after([put.clone()]), &place);
    let square = UOp::ternary(Op::MulAdd, &get, &get, &get);
    let store = UOp::store(&out, &own, &square, None);
    let ops = [
        [out, x, g, l, s, base, near, own, at],
        [place, never, load, put, nothing, wait, get, square, store],
    ];
    let (a, b) = (i32s(&[0; 128]), i32s(&[0; 512]));
    let neighbours = Neighbours { items: 32, line_bytes: 32, banks: 32, bank_bytes: 4 };
    count(&program(ops.concat(), 2, &[2], &[64]), &[&a, &b], &[], neighbours).unwrap()
}

#[test]
fn accesses_of_neighbours_are_counted_together() {
    let traffic = Traffic { elements: 128, bytes: 512 };
    let shared = Counts {
        loads: traffic,
        stores: traffic,
        flops: 256,
        lines: 16 + 16,
        least_lines: 16 + 16,
        bank_conflicts: 0,
        barriers: 2,
    };
    assert_eq!(counted(1, 1), shared);
    // elements of rows of 33 words are in different banks
    assert_eq!(counted(1, 33), shared);
    let apart = Counts { lines: 64 + 16, ..shared };
    assert_eq!((counted(4, 1), apart.unshared_lines()), (apart, 48));
    // each of four runs of neighbours loads one element
    assert_eq!(counted(0, 1), Counts { lines: 4 + 16, least_lines: 4 + 16, ..shared });
    // in each of two accesses of such a run one word, or 15, of a bank have to wait
    assert_eq!(counted(1, 2), Counts { bank_conflicts: 8, ..shared });
    assert_eq!(counted(1, 16), Counts { bank_conflicts: 8 * 15, ..shared });
}

#[test]
fn vectors_are_lanes() {
    let (out, x) = (data(0, 4), data(1, 8));
    let load = UOp::load_lanes(&x, &c(3), None, 4);
    let lane = load.lane(2);
    let scaled = &load * &c(2).splat(4);
    let gate = load.lt(&c(6).splat(4));
    let plus = &scaled + &lane.splat(4);
    let store = UOp::store(&out, &c(0), &plus, Some(&gate));
    let ops = vec![out, x, load, lane.clone(), scaled, gate, lane.splat(4), plus, store];
    let (a, b) = (i32s(&[-1; 4]), i32s(&[0, 1, 2, 3, 4, 5, 6, 7]));
    run(&program(ops, 2, &[], &[]), &[&a, &b], &[]).unwrap();
    assert_eq!(back(&a), [11, 13, 15, -1]);
}

#[test]
fn a_loop_may_run_no_times_and_an_if_may_skip() {
    let (out, x) = (data(0, 1), data(1, 1));
    let bound = UOp::load(&x, &c(0));
    let r = UOp::new(
        Op::Range,
        DType::I32,
        1,
        [bound.clone()].into_iter().collect(),
        Arg::Range { axis: 0, kind: RangeKind::Loop },
    );
    let odd = &r & &c(1);
    let is_odd = odd.eq_(&c(1));
    let branch =
        UOp::new(Op::If, DType::Void, 1, [is_odd.clone()].into_iter().collect(), Arg::None);
    let old = UOp::load(&out, &c(0));
    let sum = &old + &r;
    let store = UOp::store(&out, &c(0), &sum, None);
    let done =
        UOp::new(Op::EndIf, DType::Void, 1, [branch.clone()].into_iter().collect(), Arg::None);
    let ops = vec![out, x, bound, r.clone(), odd, is_odd, branch, old, sum, store, done, end(&r)];
    let p = program(ops, 2, &[], &[]);
    for (n, sum) in [(0, 0), (1, 0), (6, 1 + 3 + 5)] {
        let (a, b) = (i32s(&[0]), i32s(&[n]));
        run(&p, &[&a, &b], &[]).unwrap();
        assert_eq!(back(&a), [sum], "{n} iterations");
    }
}
