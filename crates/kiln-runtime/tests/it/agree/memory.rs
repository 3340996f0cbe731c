//! Loads, stores, gates, registers, scratch, loops, launch-time scalars.

use super::build::{Builder, Dice, int, node, to_bytes};
use super::check;
use kiln_ir::arg::RangeKind;
use kiln_ir::{Arg, DType, Op, UOp};

/// Loads and stores with a gate per element, one for all lanes, and one per lane; indices that are gated off are wild.
#[test]
fn gates() {
    for dtype in DType::STORAGE.into_iter().chain(DType::FP8) {
        let mut b = Builder::new();
        let x = b.buffer(dtype, Dice(9).memory(dtype, 64), false);
        let picks = b.buffer(DType::I32, Dice(8).memory(DType::I32, 64), false);
        let outs: Vec<UOp> = (0..3).map(|_| b.output(dtype, 64)).collect();
        let i = b.open(RangeKind::Loop, &int(16));
        let at = b.add(&i * &int(4));
        let pick = b.load(&picks, &at, 4);
        let gate = b.add(pick.lt(&int(2).splat(4)));
        for lane in 0..4 {
            let (p, own) = (b.add(pick.lane(lane)), b.add(&at + &int(lane as i64)));
            let positive = b.add(int(-1).lt(&p));
            let small = b.add(p.lt(&int(64)));
            let inside = b.add(positive.and(&small));
            let v = b.add(UOp::load_lanes(&x, &p, Some(&inside), 1));
            b.add(UOp::store(&outs[0], &own, &v, Some(&inside)));
        }
        let first = b.add(pick.lane(0));
        let all = b.add(first.lt(&int(1)));
        let v = b.add(UOp::load_lanes(&x, &at, Some(&all), 4));
        b.store(&outs[1], &at, &v);
        let v = b.add(UOp::load_lanes(&x, &at, Some(&gate), 4));
        b.store(&outs[2], &at, &v);
        let w = b.load(&x, &int(1), 4);
        let other = b.add(UOp::unary(Op::Not, &gate));
        b.add(UOp::store(&outs[2], &at, &w, Some(&other)));
        let rare = b.add(int(1000).lt(&first));
        b.add(UOp::store(&outs[1], &at, &w, Some(&rare)));
        b.close(&i);
        check(&b.finish(&format!("gates_{dtype}")), &[]);
    }
}

/// Registers keep their values between stores, whatever is written in place.
#[test]
fn registers() {
    let mut b = Builder::new();
    let x = b.buffer(DType::F32, Dice(4).memory(DType::I32, 64), false);
    let (scalars, sums) = (b.output(DType::F32, 16), b.output(DType::F32, 32));
    let i = b.open(RangeKind::Thread, &int(2));
    let acc = b.register(1, DType::F32, 1);
    let tile = b.register(2, DType::F32, 4);
    b.store(&acc, &int(0), &UOp::constant(1, DType::F32));
    b.store(&tile, &int(0), &UOp::constant(0, DType::F32).splat(4));
    b.store(&tile, &int(1), &UOp::constant(-0.0, DType::F32).splat(4));
    let j = b.open(RangeKind::Reduce, &int(4));
    let row = b.add(&i * &int(16));
    let at = b.add(&row + &(&j * &int(4)));
    let v = b.load(&x, &at, 4);
    for k in 0..2 {
        let memory = tile.after([j.clone(), int(k)]);
        let old = b.load(&memory, &int(k), 4);
        let new = b.add(if k == 0 { &old + &v } else { old.maximum(&v) });
        b.store(&memory, &int(k), &new);
    }
    let old = b.load(&acc.after([j.clone()]), &int(0), 1);
    let last = b.add(v.lane(3));
    b.store(&acc, &int(0), &last);
    // `old` is read before that store and used after it
    let sum = b.add(&old + &last);
    let out = b.add(&(&i * &int(4)) + &j);
    b.store(&scalars, &out, &sum);
    b.close(&j);
    for k in 0..2 {
        let total = b.load(&tile.after([node(Op::End, &[&j], Arg::None)]), &int(k), 4);
        let out = b.add(&(&i * &int(8)) + &int(4 * k));
        b.store(&sums, &out, &total);
    }
    b.close(&i);
    check(&b.finish("registers"), &[]);
}

#[test]
fn scratch_of_several_types() {
    let mut b = Builder::new();
    let x = b.buffer(DType::I16, Dice(6).memory(DType::I16, 8), false);
    let out = b.output(DType::I16, 8);
    let flags = b.output(DType::Bool, 8);
    let (s, t) = (b.scratch(8, DType::Bool), b.scratch(8, DType::I16));
    let i = b.open(RangeKind::Loop, &int(8));
    let v = b.load(&x, &i, 1);
    let negative = b.add(v.lt(&v.const_like(0)));
    b.store(&s, &i, &negative);
    b.store(&t, &i, &v);
    b.close(&i);
    let done = node(Op::End, &[&i], Arg::None);
    let (s, t) = (s.after([done.clone()]), t.after([done]));
    let flipped = b.load(&s, &int(0), 8);
    b.store(&flags, &int(0), &flipped);
    let k = b.open(RangeKind::Loop, &int(8));
    let back = b.add(&int(7) - &k);
    let v = b.load(&t, &back, 1);
    b.store(&out, &k, &v);
    b.close(&k);
    check(&b.finish("scratch"), &[]);
}

#[test]
fn launch_time_scalars_of_every_type() {
    let mut b = Builder::new();
    let mut vars = Vec::new();
    let mut dice = Dice(12);
    for dtype in DType::STORAGE.into_iter().chain(DType::FP8) {
        let (var, out) = (b.var(dtype), b.output(dtype, 1));
        b.store(&out, &int(0), &var);
        let mut bytes = to_bytes(dice.value(dtype), dtype);
        bytes.resize(8, 0);
        vars.push(i64::from_le_bytes(bytes.try_into().unwrap()));
    }
    check(&b.finish("vars"), &vars);
}

/// Loops with bounds that are known at launch only, none among them, inside an `If`.
#[test]
fn loops_and_ifs() {
    let mut b = Builder::new();
    let bound = b.var(DType::I32);
    let out = b.buffer(DType::I64, vec![0; 8], true);
    let i = b.open(RangeKind::Loop, &bound);
    let odd = b.add(&i & &int(1));
    let is_odd = b.add(odd.eq_(&int(1)));
    let branch = b.add(node(Op::If, &[&is_odd], Arg::None));
    let j = b.open(RangeKind::Loop, &i);
    let old = b.load(&out.after([j.clone()]), &int(0), 1);
    let wide = b.add(j.cast(DType::I64));
    let new = b.add(&old + &wide);
    b.store(&out, &int(0), &new);
    b.close(&j);
    b.close(&branch);
    b.close(&i);
    let kernel = b.finish("loops");
    [0, 1, 2, 9].into_iter().for_each(|n| check(&kernel, &[n]));
}

/// Literals of every type, to the last bit.
#[test]
fn literals() {
    let mut b = Builder::new();
    let mut dice = Dice(21);
    for dtype in DType::STORAGE.into_iter().chain(DType::FP8) {
        let out = b.output(dtype, 64);
        for i in 0..64 {
            let value = dice.value(dtype);
            b.store(&out, &int(i), &UOp::constant(value, dtype));
        }
    }
    check(&b.finish("literals"), &[]);
}

/// Vectors from scalars and back, bool among them.
#[test]
fn lanes() {
    for dtype in DType::STORAGE.into_iter().chain(DType::FP8) {
        let mut b = Builder::new();
        let x = b.buffer(dtype, Dice(14).memory(dtype, 8), false);
        let (out, single) = (b.output(dtype, 16), b.output(dtype, 4));
        let v = b.load(&x, &int(2), 4);
        let lanes: Vec<UOp> = (0..4).map(|i| b.add(v.lane(i))).collect();
        let reversed = b.add(UOp::stack(lanes.iter().rev().cloned().collect()));
        b.store(&out, &int(1), &reversed);
        let same = b.add(lanes[2].splat(8));
        b.store(&out, &int(8), &same);
        let again =
            b.add(UOp::new(Op::Lane, dtype, 1, [reversed].into_iter().collect(), Arg::Lane(1)));
        b.store(&single, &int(3), &again);
        check(&b.finish(&format!("lanes_{dtype}")), &[]);
    }
}
