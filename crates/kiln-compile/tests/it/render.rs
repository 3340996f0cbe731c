//! What renderers write, for a few linear programs in text form.

use expect_test::{Expect, expect};
use kiln_compile::render::render;
use kiln_compile::target::{Costs, Language, Machine, Target};
use kiln_ir::arg::RangeKind;
use kiln_ir::program::{ParamInfo, Program};
use kiln_ir::text::parse_list;
use kiln_ir::{Arg, DType, Op, UOp};

fn program(name: &str, text: &str) -> Program {
    let ops = parse_list(text).unwrap();
    let mut params: Vec<&UOp> = ops.iter().filter(|op| op.op() == Op::Param).collect();
    params.sort_by_key(|op| op.arg().slot());
    let stored = |p: &UOp| ops.iter().any(|op| op.op() == Op::Store && op.memory() == p);
    let info = |p: &&UOp| {
        let (dtype, len) = (p.dtype(), p.numel());
        ParamInfo { dtype, len, written: stored(p), read: true, streamed: false }
    };
    let thread = |op: &UOp| matches!(op.arg(), Arg::Range { kind: RangeKind::Thread, .. });
    Program {
        name: name.into(),
        params: params.iter().map(info).collect(),
        vars: ops.iter().filter(|op| op.op() == Op::Var).map(UOp::dtype).collect(),
        threads: UOp::index(if ops.iter().any(thread) { 4 } else { 1 }),
        ops,
        source: String::new(),
        global: vec![],
        local: vec![],
        scratch_bytes: 0,
        flops: 0,
        bytes: 0,
        accessed: 0,
    }
}

fn check(language: Language, name: &str, text: &str, expected: Expect) {
    let target = Target { language, ..Target::interp() };
    expected.assert_eq(&render(&program(name, text), &target));
}

const ADD: &str = "
%out = param i32 slot=0 [3]
%x = param i32 slot=1 [3]
%i = range i32 axis=0 loop 3:i32
%v = load %x %i
%sum = add %v 2:i32
store %out %i %sum
end %i
";

#[test]
fn c_of_a_loop() {
    check(
        Language::C,
        "E_3",
        ADD,
        expect![[r#"
        void E_3(int* data0, const int* data1) {
          for (int ridx0 = 0; ridx0 < 3; ridx0++) {
            int val0 = data1[ridx0];
            data0[ridx0] = val0+2;
          }
        }
        void kiln_entry(void* const* bufs, const long long* vars, char* scratch, long long lo, long long hi) {
          E_3(bufs[0], bufs[1]);
        }
    "#]],
    );
}

#[test]
fn llvm_of_a_loop() {
    check(
        Language::Llvm,
        "E_3",
        ADD,
        expect![[r#"
        ; E_3
        define void @kiln_entry(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {
        entry:
          %v0 = getelementptr ptr, ptr %bufs, i64 0
          %data0 = load ptr, ptr %v0
          %v1 = getelementptr ptr, ptr %bufs, i64 1
          %data1 = load ptr, ptr %v1
          br label %head0
        head0:
          %ridx0 = phi i32 [ 0, %entry ], [ %ridx0.next, %tail0 ]
          %ridx0.more = icmp slt i32 %ridx0, 3
          br i1 %ridx0.more, label %body0, label %exit0
        body0:
          %v2 = getelementptr inbounds i32, ptr %data1, i32 %ridx0
          %v3 = load i32, ptr %v2, align 4
          %v4 = add i32 %v3, 2
          %v5 = getelementptr inbounds i32, ptr %data0, i32 %ridx0
          store i32 %v4, ptr %v5, align 4
          br label %tail0
        tail0:
          %ridx0.next = add nsw i32 %ridx0, 1
          br label %head0
        exit0:
          ret void
        }
        attributes #0 = { nounwind }
    "#]],
    );
}

/// Rows of a matrix, summed by threads: a register, two loops, a launch-time factor.
const ROWS: &str = "
%out = param f32 slot=0 [4]
%x = param f32 slot=1 [48]
%factor = var f32 slot=0 min=0 max=0
%i = range i32 axis=0 thread 4:i32
%acc = local f32 register id=0 len=1
store %acc 0:i32 0.0:f32
%row = mul %i 12:i32
%j = range i32 axis=1 reduce 12:i32
%at = add %row %j
%v = load %x %at
with %acc.j = after %acc %j
%old = load %acc.j 0:i32
%scaled = mul %v %factor
%sum = add %old %scaled
store %acc.j 0:i32 %sum
%done = end %j
with %acc.done = after %acc %done
%total = load %acc.done 0:i32
%positive = max %total 0.0:f32
store %out %i %positive
end %i
";

#[test]
fn c_of_a_reduction() {
    check(
        Language::C,
        "r_4_12",
        ROWS,
        expect![[r#"
        static inline float max_f32(float a, float b) { return a < b || b != b ? b : a; }
        void r_4_12(float* data0, const float* data1, float var0, long long lo, long long hi) {
          for (int ridx0 = lo; ridx0 < hi; ridx0++) {
            float acc0;
            acc0 = 0.0f;
            int alu0 = ridx0*12;
            for (int ridx1 = 0; ridx1 < 12; ridx1++) {
              float val0 = data1[alu0+ridx1];
              acc0 = acc0+val0*var0;
            }
            data0[ridx0] = max_f32(acc0, 0.0f);
          }
        }
        void kiln_entry(void* const* bufs, const long long* vars, char* scratch, long long lo, long long hi) {
          r_4_12(bufs[0], bufs[1], *(const float*)&vars[0], lo, hi);
        }
    "#]],
    );
}

#[test]
fn llvm_of_a_reduction() {
    check(
        Language::Llvm,
        "r_4_12",
        ROWS,
        expect![[r#"
        ; r_4_12
        define void @kiln_entry(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {
        entry:
          %acc0 = alloca float, i32 1
          %v0 = getelementptr ptr, ptr %bufs, i64 0
          %data0 = load ptr, ptr %v0
          %v1 = getelementptr ptr, ptr %bufs, i64 1
          %data1 = load ptr, ptr %v1
          %v2 = getelementptr i64, ptr %vars, i64 0
          %v3 = load float, ptr %v2, align 8
          %v4 = trunc i64 %lo to i32
          %v5 = trunc i64 %hi to i32
          br label %head0
        head0:
          %ridx0 = phi i32 [ %v4, %entry ], [ %ridx0.next, %tail0 ]
          %ridx0.more = icmp slt i32 %ridx0, %v5
          br i1 %ridx0.more, label %body0, label %exit0
        body0:
          store float 0.0, ptr %acc0, align 4
          %v6 = mul nsw i32 %ridx0, 12
          br label %head1
        head1:
          %ridx1 = phi i32 [ 0, %body0 ], [ %ridx1.next, %tail1 ]
          %ridx1.more = icmp slt i32 %ridx1, 12
          br i1 %ridx1.more, label %body1, label %exit1
        body1:
          %v7 = add nsw i32 %v6, %ridx1
          %v8 = getelementptr inbounds float, ptr %data1, i32 %v7
          %v9 = load float, ptr %v8, align 4
          %v10 = load float, ptr %acc0, align 4
          %v11 = fmul float %v9, %v3
          %v12 = fadd float %v10, %v11
          store float %v12, ptr %acc0, align 4
          br label %tail1
        tail1:
          %ridx1.next = add nsw i32 %ridx1, 1
          br label %head1
        exit1:
          %v13 = load float, ptr %acc0, align 4
          %v14 = fcmp olt float %v13, 0.0
          %v15 = select i1 %v14, float 0.0, float %v13
          %v16 = getelementptr inbounds float, ptr %data0, i32 %ridx0
          store float %v15, ptr %v16, align 4
          br label %tail0
        tail0:
          %ridx0.next = add nsw i32 %ridx0, 1
          br label %head0
        exit0:
          ret void
        }
        attributes #0 = { nounwind }
    "#]],
    );
}

/// Vectors: a comparison selects, a gate per lane guards a load, one for all guards a store.
const VECTORS: &str = "
%out = param f32 slot=0 [16]
%x = param f32 slot=1 [13]
%mask = param bool slot=2 [16]
%i = range i32 axis=0 loop 4:i32
%at = mul %i 4:i32
%on = load boolx4 %mask %at
%v = load f32x4 %x %at gate=%on
%w = load f32x4 %x 1:i32
%less = cmplt %v %w
%product = muladd f32x4 %v %w 1.5:f32x4
%value = where %less %product %v
%early = cmplt %i 3:i32
store %out %at %value gate=%early
end %i
";

#[test]
fn c_of_vectors() {
    check(
        Language::C,
        "E_4_4",
        VECTORS,
        expect![[r#"
            typedef signed char i8x4 __attribute__((vector_size(4), aligned(1)));
            typedef int i32x4 __attribute__((vector_size(16), aligned(4)));
            typedef float f32x4 __attribute__((vector_size(16), aligned(4)));
            static inline f32x4 load_f32x4(const float* p, i32x4 gate) { f32x4 r; for (int i = 0; i < 4; i++) r[i] = gate[i] ? p[i] : 0; return r; }
            static inline f32x4 splat_f32x4(float x) { return (f32x4){x,x,x,x}; }
            static inline f32x4 muladd_f32x4(f32x4 a, f32x4 b, f32x4 c) { f32x4 r; for (int i = 0; i < 4; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]); return r; }
            static inline f32x4 where_f32x4(i32x4 m, f32x4 a, f32x4 b) { return (f32x4)((m & (i32x4)a) | (~m & (i32x4)b)); }
            void E_4_4(float* data0, const float* data1, const _Bool* data2) {
              for (int ridx0 = 0; ridx0 < 4; ridx0++) {
                int alu0 = ridx0*4;
                i8x4 val0 = (i8x4)(*(i8x4*)(data2+alu0) != 0);
                f32x4 val1 = load_f32x4((float*)((__UINTPTR_TYPE__)data1+((__UINTPTR_TYPE__)alu0)*4), __builtin_convertvector(val0, i32x4));
                f32x4 val2 = *(f32x4*)(data1+1);
                if (ridx0<3) *(f32x4*)(data0+alu0) = where_f32x4((i32x4)(val1<val2), muladd_f32x4(val1, val2, splat_f32x4(1.5f)), val1);
              }
            }
            void kiln_entry(void* const* bufs, const long long* vars, char* scratch, long long lo, long long hi) {
              E_4_4(bufs[0], bufs[1], bufs[2]);
            }
        "#]],
    );
}

/// GCC 12 for AArch64 ends with an internal error where wide vectors that were made of f16 at once are compared.
#[test]
fn wide_vectors_of_f16_are_made_lane_by_lane_where_compilers_need_it() {
    let text = |lanes: usize, to: &str| {
        format!(
            "%out = param bool slot=0 [8]\n%x = param f16 slot=1 [8]\n%v = load f16x{lanes} %x 0:i32\n\
             %wide = cast {to}x{lanes} %v\n%less = cmplt %wide 1.0:{to}x{lanes}\nstore %out 0:i32 %less\n"
        )
    };
    let source = |arch: &str, lanes, to| {
        let widened_bytes = Machine::with(arch, Vec::new()).widened_bytes;
        let target = Target { language: Language::C, widened_bytes, ..Target::interp() };
        render(&program("E", &text(lanes, to)), &target)
    };
    for (lanes, to) in [(8, "f32"), (4, "f64")] {
        let (built_in, lane) = (format!("convertvector(val0, {to}x{lanes})"), "r[i] = (");
        let (x86, arm) = (source("x86_64", lanes, to), source("aarch64", lanes, to));
        assert!(x86.contains(&built_in) && !x86.contains(lane), "{x86}");
        assert!(!arm.contains(&built_in) && arm.contains(lane), "{arm}");
    }
    assert_eq!(source("x86_64", 4, "f32"), source("aarch64", 4, "f32"));
}

#[test]
fn llvm_of_vectors() {
    check(
        Language::Llvm,
        "E_4_4",
        VECTORS,
        expect![[r#"
        ; E_4_4
        define void @kiln_entry(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {
        entry:
          %v0 = getelementptr ptr, ptr %bufs, i64 0
          %data0 = load ptr, ptr %v0
          %v1 = getelementptr ptr, ptr %bufs, i64 1
          %data1 = load ptr, ptr %v1
          %v2 = getelementptr ptr, ptr %bufs, i64 2
          %data2 = load ptr, ptr %v2
          br label %head0
        head0:
          %ridx0 = phi i32 [ 0, %entry ], [ %ridx0.next, %tail0 ]
          %ridx0.more = icmp slt i32 %ridx0, 4
          br i1 %ridx0.more, label %body0, label %exit0
        body0:
          %v3 = mul nsw i32 %ridx0, 4
          %v4 = getelementptr inbounds i8, ptr %data2, i32 %v3
          %v5 = load <4 x i8>, ptr %v4, align 1
          %v6 = icmp ne <4 x i8> %v5, <i8 0, i8 0, i8 0, i8 0>
          %v7 = getelementptr float, ptr %data1, i32 %v3
          %v8 = call <4 x float> @llvm.masked.load.v4f32.p0(ptr %v7, i32 4, <4 x i1> %v6, <4 x float> zeroinitializer)
          %v9 = getelementptr inbounds float, ptr %data1, i32 1
          %v10 = load <4 x float>, ptr %v9, align 4
          %v11 = fcmp olt <4 x float> %v8, %v10
          %v12 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v8, <4 x float> %v10, <4 x float> <float 0x3FF8000000000000, float 0x3FF8000000000000, float 0x3FF8000000000000, float 0x3FF8000000000000>)
          %v13 = select <4 x i1> %v11, <4 x float> %v12, <4 x float> %v8
          %v14 = icmp slt i32 %ridx0, 3
          %v15 = getelementptr float, ptr %data0, i32 %v3
          br i1 %v14, label %do1, label %skip1
        do1:
          store <4 x float> %v13, ptr %v15, align 4
          br label %skip1
        skip1:
          br label %tail0
        tail0:
          %ridx0.next = add nsw i32 %ridx0, 1
          br label %head0
        exit0:
          ret void
        }
        declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)
        declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, i32, <4 x i1>, <4 x float>)
        attributes #0 = { nounwind }
    "#]],
    );
}

/// A register that is read before it changes and used after it must not be written in place.
#[test]
fn c_names_what_would_change() {
    let text = "
%out = param f32 slot=0 [1]
%acc = local f32 register id=0 len=1
store %acc 0:i32 1.0:f32
%old = load %acc 0:i32
store %acc 0:i32 2.0:f32
%sum = add %old 1.0:f32
store %out 0:i32 %sum
";
    check(
        Language::C,
        "E",
        text,
        expect![[r#"
        void E_0(float* data0) {
          float acc0;
          acc0 = 1.0f;
          float val0 = acc0;
          acc0 = 2.0f;
          data0[0] = val0+1.0f;
        }
        void kiln_entry(void* const* bufs, const long long* vars, char* scratch, long long lo, long long hi) {
          E_0(bufs[0]);
        }
    "#]],
    );
}

/// Operators bind as in C, with no more parentheses than readers need.
#[test]
fn c_keeps_the_order_of_operations() {
    let text = "
%out = param i32 slot=0 [8]
%a = param i32 slot=1 [8]
%x = load %a 0:i32
%y = load %a 1:i32
%s = add %x %y
%d = sub %x %s
%m = mul %d -3:i32
%t = sub %m 1:i32
store %out 0:i32 %t
%n = neg %y
%n2 = neg %n
%q = sub %x %n2
%sh = shl %q 2:i32
%an = and %sh 255:i32
%lt = cmplt %an %x
%w = where %lt -2147483648:i32 %y
store %out 1:i32 %w
";
    check(
        Language::C,
        "E",
        text,
        expect![[r#"
        void E_0(int* data0, const int* data1) {
          int val0 = data1[0];
          int val1 = data1[1];
          data0[0] = (val0-(val0+val1))*(-3)-1;
          data0[1] = ((((val0-(-(-val1)))<<2)&255)<val0 ? -2147483647-1 : val1);
        }
        void kiln_entry(void* const* bufs, const long long* vars, char* scratch, long long lo, long long hi) {
          E_0(bufs[0], bufs[1]);
        }
    "#]],
    );
}

/// Another processor's name goes into the text, and nothing of this one's; vectors are as wide as it has them.
#[test]
fn kernels_are_written_for_the_processor_that_is_named() {
    let x = UOp::param(0, DType::F32, [1024].as_slice());
    let kernels = crate::stages::schedule(&[&x + &x.const_like(1)]).kernels;
    for (cpu, own, wider) in
        [("haswell", "<8 x float>", "<16 x"), ("x86-64", "<4 x float>", "<8 x")]
    {
        let machine = Machine::named("x86_64", cpu).expect("known");
        let target = Target {
            costs: Costs::CPU,
            language: Language::Llvm,
            vector_bytes: machine.vector_bytes,
            vector_registers: machine.vector_registers,
            masks: machine.vector_bytes >= 32,
            cpu: machine.cpu,
            groups: false,
            ..Target::interp()
        };
        let optimized = crate::stages::optimize(&kernels[0].ast, &target, true);
        let program = crate::stages::lower(&optimized.ast, &target);
        let text = render(&program, &target);
        assert!(
            text.contains(&format!("\"target-cpu\"=\"{cpu}\" \"target-features\"=\"\"")),
            "{text}"
        );
        assert!(text.contains(own) && !text.contains(wider), "{text}");
    }
}

/// A masked load that is off in all lanes takes the address of zeros. Its own address may be nobody's.
#[test]
fn llvm_loads_no_vector_from_where_none_of_its_lanes_is() {
    let text = "
        %out = param f32 slot=0 [64]
        %x = param f32 slot=1 [64]
        %i = range i32 axis=0 loop 16:i32
        %at = mul %i 4:i32
        %before = add %at -32:i32
        %inside = cmplt %i 8:i32
        %behind = not %inside
        %all = splat boolx4 %behind
        %some = stack boolx4 true true true false
        %on = and %all %some
        %v = load f32x4 %x %before gate=%on
        store %out %at %v
        end %i
    ";
    let target = Target { language: Language::Llvm, ..Target::interp() };
    let text = render(&program("E", text), &target);
    let address = text.lines().find(|line| line.contains("ptr @zeros")).expect("a choice");
    let (name, _) = address.trim().split_once(' ').expect("a name");
    assert!(text.contains(&format!("masked.load.v4f32.p0(ptr {name}, ")), "{text}");
    assert!(text.contains("@zeros = ") && address.contains("select i1"), "{text}");
}
