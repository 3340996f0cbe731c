//! Each spec accepts what the stages make and rejects broken graphs: text in, reason out.

use expect_test::{Expect, expect};
use kiln_ir::spec::{KERNEL, Spec, TENSOR, verify, verify_program};
use kiln_ir::text::{parse, parse_list};

fn graph(spec: &Spec, text: &str) -> String {
    match verify(spec, &parse(text).unwrap_or_else(|e| panic!("{e} in\n{text}"))) {
        Ok(()) => "ok".to_string(),
        Err(e) => e.to_string(),
    }
}

fn program(text: &str) -> String {
    match verify_program(&parse_list(text).unwrap_or_else(|e| panic!("{e} in\n{text}"))) {
        Ok(()) => "ok".to_string(),
        Err(e) => e.to_string(),
    }
}

fn check(cases: &[(&str, Expect)], verdict: impl Fn(&str) -> String) {
    for (text, expected) in cases {
        expected.assert_eq(&verdict(text));
    }
}

#[test]
fn tensor_graphs() {
    let text = "%x = buffer f32 id=1 device=CPU [2,3]
        %s = reduce f32 add [1] %x
        %m = mark storage=4 %x
        %i = iota i32 [4]
        %u = update %x 1.0:f32 %i
        %c = cmplt %m 0.5:f32
        %w = where %c %x %u
        %v = var index slot=0 min=0 max=1
        %r = slice [0:1:1,0:-1:3] %x %v 2
        sink %s %w %r";
    assert_eq!(graph(&TENSOR, text), "ok");
    check(
        &[
            (
                "range axis=0 loop 4",
                expect![
                    "TENSOR: range: the op is not allowed at this stage in `range index axis=0 loop 4`"
                ],
            ),
            (
                "%p = param f32 slot=0 [4]\nload %p 0:i32",
                expect!["TENSOR: load: the op is not allowed at this stage in `load f32 p0, 0`"],
            ),
            (
                "%p = param f32 slot=0 [4]\nslice [0:1:2] %p 1:i32",
                expect!["TENSOR: slice: source 1 is i32, wants index in `slice f32 [0:1:2] p0, 1`"],
            ),
            (
                "%p = param f32 slot=0 [4]\n%v = var index slot=0 min=0 max=2\nadd %v 1",
                expect![
                    "TENSOR: add: the type index is not allowed at this stage in `add index v0, 1`"
                ],
            ),
            (
                "%p = param index slot=0 [4]",
                expect![
                    "TENSOR: param: the type index is not allowed at this stage in `param index slot=0 [4]`"
                ],
            ),
            (
                "%p = param f32 slot=0 [4]\nadd i32 %p %p",
                expect!["TENSOR: add: the result is f32, not i32 in `add i32 p0, p0`"],
            ),
            (
                "%p = param f32 slot=0 [4]\nadd %p 1:i32",
                expect!["TENSOR: add: source 1 is i32, wants f32 in `add f32 p0, 1`"],
            ),
            (
                "%p = param i32 slot=0 [4]\nsqrt %p",
                expect!["TENSOR: sqrt: it is not defined for i32 in `sqrt i32 p0`"],
            ),
            (
                "%p = param bool slot=0 [4]\nneg %p",
                expect!["TENSOR: neg: it is not defined for bool in `neg bool p0`"],
            ),
            (
                "%p = param f32 slot=0 [4]\nwhere %p %p %p",
                expect!["TENSOR: where: source 0 is f32, wants bool in `where f32 p0, p0, p0`"],
            ),
            (
                "%p = param f32 slot=0 [4]\nsplat f32x4 %p",
                expect!["TENSOR: splat: the op is not allowed at this stage in `splat f32x4 p0`"],
            ),
            (
                "%p = param f32 slot=0 [4]\nreduce add %p",
                expect![
                    "TENSOR: reduce: a tensor is reduced along axes, not over ranges in `reduce f32 add p0`"
                ],
            ),
            (
                "%p = param f32 slot=0 [4]\n%i = iota i32 [4]\nupdate %p 1:i32 %i",
                expect!["TENSOR: update: source 1 is i32, wants f32 in `update f32 p0, 1, iota()`"],
            ),
            (
                "%p = param f32 slot=0 [4]\n%i = iota i32 [3]\nupdate %p %p %i",
                expect![
                    "TENSOR: update: shape [4] is written to positions of [3] in `update f32 p0, p0, iota()`"
                ],
            ),
            (
                "%p = param f32 slot=0 [4]\ngather %p %p",
                expect!["TENSOR: gather: positions are integers, not f32 in `gather f32 p0, p0`"],
            ),
            (
                "%p = param f32 slot=0 [4]\ncmplt f32 %p %p",
                expect!["TENSOR: cmplt: the result is bool, not f32 in `cmplt f32 p0, p0`"],
            ),
            (
                "%p = param f32 slot=0 [4]\nreshape f16 %p [2,2]",
                expect!["TENSOR: reshape: source 0 is f32, wants f16 in `reshape f16 [2,2] p0`"],
            ),
            (
                "%p = param f32 slot=0 [4]\nsink name=E %p",
                expect!["TENSOR: sink: a kernel stands in a tensor graph in `sink name=E p0`"],
            ),
        ],
        |text| graph(&TENSOR, text),
    );
}

const SUM: &str = "%out = param f32 slot=0 [4]
    %x = param f32 slot=1 [16]
    %i = range axis=0 loop 4
    %k = range axis=1 reduce 4
    %row = mul %i 4
    %at = add %row %k
    %v = load %x %at\n";

#[test]
fn kernels() {
    let sum = "%s = reduce add %v %k\n%e = store %out %i %s\n%end = end %e %i\nsink name=r %end";
    assert_eq!(graph(&KERNEL, &format!("{SUM}{sum}")), "ok");
    let staged = "%s = local f32 scratch id=0 len=16
        %w = store %s %k %v
        %filled = end %w %k
        %ready = after %s %filled
        %j = range axis=2 loop 4
        %y = load %ready %j
        %o = store %out %j %y
        %oe = end %o %j
        %e = end %oe %i
        sink name=staged %e";
    assert_eq!(graph(&KERNEL, &format!("{SUM}{staged}")), "ok");
    check(
        &[
            (
                "%e = store %out %i %v\nsink name=k %e",
                expect![
                    "KERNEL: sink: r0 is never closed in `sink name=k store(p0, r0, p1[r0*4 + r1])`"
                ],
            ),
            (
                "%e = store %out %i %v\n%f = end %e %k\nsink name=k %f",
                expect![
                    "KERNEL: sink: r0 is never closed in `sink name=k end(store(p0, r0, p1[r0*4 + r1]), r1)`"
                ],
            ),
            (
                "%e = store %out %i %v\n%f = end %e %i\nsink name=k %f",
                expect![
                    "KERNEL: end: r0 ends while r1 further in is open in `end store(p0, r0, p1[r0*4 + r1]), r0`"
                ],
            ),
            (
                "%s = reduce add %v %k\n%t = add %s %v\n%e = store %out %i %t",
                expect![
                    "KERNEL: add: it is inside r1 and uses a result of r1 in `add f32 reduce(p1[r0*4 + r1], r1), p1[r0*4 + r1]`"
                ],
            ),
            (
                "%e = store %out %i 1.0:f32\n%f = end %e %i\n%a = after %x %f\nload %a %i",
                expect![
                    "KERNEL: load: it is inside r0 and uses a result of r0 in `load f32 p1, r0`"
                ],
            ),
            // reductions over one loop, inside of another and not
            (
                "%in = reduce add %v %k\n%y = load %x %k\n%all = reduce add %y %k\nadd %in %all",
                expect![
                    "KERNEL: reduce: r1 is closed inside of {} here and of {0} elsewhere in `reduce f32 add p1[r1], r1`"
                ],
            ),
            // each of two loops waits for the other, though no single node does
            (
                "%l = range axis=2 loop 4\n%a = load %x %k\n%b = load %x %l
        %ra = reduce add %a %k\n%rb = reduce add %b %l\n%ab = mul %a %rb\n%ba = mul %b %ra
        %rab = reduce add %ab %k\n%rba = reduce add %ba %l\nadd %rab %rba",
                expect![
                    "KERNEL: mul: r1 can only run after its own end in `mul f32 p1[r2], reduce(p1[r1], r1)`"
                ],
            ),
            (
                "reduce add %v 4",
                expect![
                    "KERNEL: reduce: only ranges follow the first source in `reduce f32 add p1[r0*4 + r1], 4`"
                ],
            ),
            (
                "reduce add %v",
                expect!["KERNEL: reduce: no range is closed in `reduce f32 add p1[r0*4 + r1]`"],
            ),
            (
                "reduce add %v %k %k",
                expect![
                    "KERNEL: reduce: a range is closed twice in `reduce f32 add p1[r0*4 + r1], r1, r1`"
                ],
            ),
            (
                "reduce f64 add %v %k",
                expect![
                    "KERNEL: reduce: source 0 is f32, wants f64 in `reduce f64 add p1[r0*4 + r1], r1`"
                ],
            ),
            (
                "store %out 1:i32 %v",
                expect![
                    "KERNEL: store: source 1 is i32, wants index in `store p0, 1, p1[r0*4 + r1]`"
                ],
            ),
            (
                "store %out %i 1:i32",
                expect!["KERNEL: store: source 2 is i32, wants f32 in `store p0, r0, 1`"],
            ),
            (
                "store %out %i %v gate=%i",
                expect![
                    "KERNEL: store: source 3 is index, wants bool in `store p0, r0, p1[r0*4 + r1], r0`"
                ],
            ),
            (
                "store %v %i %v",
                expect![
                    "KERNEL: store: source 0 is Value, wants Memory in `store p1[r0*4 + r1], r0, p1[r0*4 + r1]`"
                ],
            ),
            (
                "load %x 16",
                expect![
                    "KERNEL: load: every index (16 to 16) is outside of 16 elements in `load f32 p1, 16`"
                ],
            ),
            (
                "load f64 %x %i",
                expect!["KERNEL: load: source 0 is f32, wants f64 in `load f64 p1, r0`"],
            ),
            (
                "add %x %v",
                expect![
                    "KERNEL: add: source 0 is Memory, wants Value in `add f32 p1, p1[r0*4 + r1]`"
                ],
            ),
            (
                "%e = store %out %i %v\nsink %e",
                expect![
                    "KERNEL: sink: the kernel has no name in `sink store(p0, r0, p1[r0*4 + r1])`"
                ],
            ),
            (
                "sink name=k %v",
                expect![
                    "KERNEL: sink: source 0 is Value, wants Effect in `sink name=k p1[r0*4 + r1]`"
                ],
            ),
            (
                "after %x %v",
                expect![
                    "KERNEL: after: source 1 is neither an effect nor a range in `after f32 p1, p1[r0*4 + r1]`"
                ],
            ),
            (
                "range axis=0 loop %k",
                expect![
                    "KERNEL: range: the bound depends on a loop further in in `range index axis=0 loop r1`"
                ],
            ),
            (
                "%j = range axis=1 loop 5\nadd %k %j",
                expect![
                    "KERNEL: range: another node has this number in `range index axis=1 loop 5`"
                ],
            ),
            (
                "%p = param i32 slot=0 [4]\n%l = load %p 0\nstore %out %l 1.0:f32",
                expect!["KERNEL: store: source 1 is i32, wants index in `store p0, p0[0], 1.0`"],
            ),
            (
                "%p = param f32 slot=2 [4,4]\nload %p 0",
                expect![
                    "KERNEL: param: memory has one axis, not [4, 4] in `param f32 slot=2 [4,4]`"
                ],
            ),
            (
                "splat f32x4 %v",
                expect![
                    "KERNEL: splat: the op is not allowed at this stage in `splat f32x4 p1[r0*4 + r1]`"
                ],
            ),
            (
                "%q = param f32 slot=0 [8]\n%w = load %q 0\nstore %out 0 %w",
                expect!["KERNEL: param: another node has this number in `param f32 slot=0 [8]`"],
            ),
        ],
        |text| graph(&KERNEL, &format!("{SUM}{text}")),
    );
}

const LIST: &str = "%out = param f32 slot=0 [16]
    %half = param f16 slot=1 [16]
    %acc = local f32x4 register id=0 len=2
    %i = range i32 axis=0 thread 4:i32\n";

#[test]
fn programs() {
    let good = "%n = mul %i 4:i32
        store %acc 0:i32 0.0:f32x4
        %k = range i32 axis=1 reduce 3:i32
        %v = load f32x4 %out %n
        %a = load %acc 0:i32
        %s = add %a %v
        %w = store %acc 0:i32 %s
        %done = end %k
        with %later = after %acc %done
        %r = load %later 0:i32
        %c = cmplt %i 3:i32
        %if = if %c
        store %out %n %r
        endif %if
        end %i";
    let with_splat =
        good.replace("store %acc 0:i32 0.0", "%z = splat f32x4 0.0:f32\nstore %acc 0:i32 %z #");
    assert_eq!(program(&format!("{LIST}{with_splat}")), "ok");
    check(
        &[
            (
                good,
                expect!["PROGRAM: store: source 2 is not listed before it in `store reg0, 0, 0.0`"],
            ),
            (
                "",
                expect!["PROGRAM: range: the block is never closed in `range i32 axis=0 thread 4`"],
            ),
            (
                "%k = range i32 axis=1 loop 2:i32\nend %i\nend %k",
                expect!["PROGRAM: end: it does not close the innermost open block in `end r0`"],
            ),
            (
                "%k = range i32 axis=1 loop 2:i32\n%j = add %k 1:i32\nend %k\nneg %j",
                expect![
                    "PROGRAM: neg: source 0 was computed in a block that has ended in `neg i32 r1 + 1`"
                ],
            ),
            (
                "with %j = add %i 1:i32\nneg %j",
                expect!["PROGRAM: neg: source 0 is not listed before it in `neg i32 r0 + 1`"],
            ),
            (
                "%k = range index axis=1 loop 2",
                expect![
                    "PROGRAM: range: the type index is not allowed at this stage in `range index axis=1 loop 2`"
                ],
            ),
            (
                "%k = range i64 axis=1 loop 2:i32",
                expect!["PROGRAM: range: source 0 is i32, wants i64 in `range i64 axis=1 loop 2`"],
            ),
            (
                "%k = range i32 axis=1 upcast 2:i32",
                expect![
                    "PROGRAM: range: no upcast range may be left in `range i32 axis=1 upcast 2`"
                ],
            ),
            (
                "%k = range i32 axis=1 thread 2:i32",
                expect![
                    "PROGRAM: range: the thread range is inside a loop in `range i32 axis=1 thread 2`"
                ],
            ),
            (
                "%k = range i32 axis=1 global 2:i32",
                expect![
                    "PROGRAM: range: work-groups are inside a loop in `range i32 axis=1 global 2`"
                ],
            ),
            (
                "%k = range i32 axis=0 loop 2:i32",
                expect![
                    "PROGRAM: range: another entry has this number in `range i32 axis=0 loop 2`"
                ],
            ),
            (
                "load %acc %i",
                expect![
                    "PROGRAM: load: registers have constant indices within their length in `load f32x4 reg0, r0`"
                ],
            ),
            (
                "load %acc 2:i32",
                expect![
                    "PROGRAM: load: registers have constant indices within their length in `load f32x4 reg0, 2`"
                ],
            ),
            (
                "load f32 %acc 0:i32",
                expect![
                    "PROGRAM: load: registers of 4 lanes are accessed by 1 in `load f32 reg0, 0`"
                ],
            ),
            (
                "load f32 %out 0",
                expect!["PROGRAM: load: an index is an i32 or i64 in `load f32 p0, 0`"],
            ),
            (
                "%v = load f32x4 %out %i\n%w = load f32x2 %out %i\nadd f32x4 %v %w",
                expect!["PROGRAM: add: 4 lanes from a source of 2 in `add f32x4 p0[r0], p0[r0]`"],
            ),
            (
                "%v = load f16 %half %i\nadd %v %v",
                expect![
                    "PROGRAM: add: half floats are not computed with in `add f16 p1[r0], p1[r0]`"
                ],
            ),
            (
                "%v = load f32 %out %i\nexp %v",
                expect!["PROGRAM: exp: the op is not allowed at this stage in `exp f32 p0[r0]`"],
            ),
            (
                "floordiv %i 3:i32",
                expect![
                    "PROGRAM: floordiv: the op is not allowed at this stage in `floordiv i32 r0, 3`"
                ],
            ),
            (
                "load f32x4 %out %i gate=true:boolx2",
                expect!["PROGRAM: load: 2 gates for 4 lanes in `load f32x4 p0, r0, true`"],
            ),
            (
                "load f32 %out %i gate=%i",
                expect!["PROGRAM: load: source 2 is i32, wants bool in `load f32 p0, r0, r0`"],
            ),
            ("add %out %out", expect!["PROGRAM: add: source 0 is not a value in `add f32 p0, p0`"]),
            ("%e = if %i", expect!["PROGRAM: if: source 0 is i32, wants bool in `if r0`"]),
            (
                "%e = if true\nend %i",
                expect!["PROGRAM: end: it does not close the innermost open block in `end r0`"],
            ),
            (
                "%j = neg %i\n%j2 = neg %i",
                expect!["PROGRAM: neg: it is listed twice in `neg i32 r0`"],
            ),
            (
                "%s = store %out %i 1.0:f32\nend %s %i",
                expect!["PROGRAM: end: it closes one range in `end store(p0, r0, 1.0), r0`"],
            ),
        ],
        |text| program(&format!("{LIST}{text}")),
    );
}
