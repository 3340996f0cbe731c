//! AMX, on machines that need not have it: kernels are compiled and read, and run with its intrinsics replaced by
//! functions that do what Intel's manual says.

use crate::dots::{BF16, BYTES, Types, product};
use crate::mma::{SIGNED, target};
use crate::options::{is_counted, kernel_of, seed as seed_of};
use kiln_compile::pipeline::{Compiled, Settings, compile};
use kiln_compile::target::Target;
use kiln_ir::arg::ReduceOp;
use kiln_ir::eval::{from_bits, to_bits};
use kiln_ir::program::Program;
use kiln_ir::{Const, DType, Op, UOp};
use kiln_runtime::Backend;
use kiln_runtime::cpu::config::CpuConfig;
use kiln_runtime::cpu::{CpuBackend, Rung, open};

/// LLVM, if this machine has it and its instructions are of this kind.
fn llvm() -> Option<CpuBackend> {
    let config = CpuConfig { cache: None, ..CpuConfig::from_env() };
    if cfg!(target_arch = "x86_64") { open(&config, Some(Rung::Llvm)).ok() } else { None }
}

fn compiled(root: &UOp, target: &Target) -> Compiled {
    let settings =
        Settings { optimize: true, checks: crate::stages::CHECKED, ..Settings::default() };
    compile(&kernel_of(root), target, settings).expect("compiles")
}

#[test]
fn products_follow_each_other_with_nothing_between_that_stores() {
    let Some(backend) = llvm() else { return };
    let large = [1 << 15, 2 << 20, 32 << 20];
    let target = Target { cpu: "sapphirerapids".into(), cache_bytes: large, ..target(true) };
    for (types, name) in [(BF16, "tdpbf16ps"), (BYTES, "tdpbusd"), (SIGNED, "tdpbssd")] {
        let program = compiled(&product(types, [256, 512, 256], true), &target).program;
        let kernel = backend.load(&program).expect("compiles").kernel;
        let text = kernel.disassemble().expect("LLVM tells").text;
        let names = text.lines().filter_map(|line| line.split_whitespace().nth(1));
        let matrix = |n: &&str| n.starts_with('t') && !n.starts_with("test") || *n == "ldtilecfg";
        let found: Vec<&str> = names.filter(matrix).collect();
        let count = |name| found.iter().filter(|n| **n == name).count();
        let counts = ["ldtilecfg", "tilezero", "tileloadd", name, "tilestored", "tilerelease"];
        assert_eq!(counts.map(count), [1, 4, 4, 4, 4, 1], "{text}");
        let inner = &found[found.iter().position(|n| *n == "tileloadd").expect("counted")..];
        assert!(inner[..8].iter().all(|n| *n != "tilestored"), "{found:?}");
    }
}

/// The text with the intrinsics as calls of functions that are defined here, on eight registers in the kernel's frame.
fn emulated(source: &str) -> String {
    for line in source.lines().filter(|line| line.contains("call void @llvm.x86.tdp")) {
        let mut registers: Vec<&str> = line.split("i8 ").skip(1).collect();
        registers.iter_mut().for_each(|r| *r = r.trim_end_matches([',', ' ', ')']));
        let [z, x, y] = registers[..] else { panic!("{line}") };
        assert!(x != y && x != z && y != z, "the processor refuses {line}");
    }
    let body = source.lines().filter(|line| !line.starts_with("declare void @llvm.x86.t"));
    let body = body.filter(|line| !line.starts_with("declare void @llvm.x86.ldtilecfg"));
    let mut text: String = body.map(|line| format!("{line}\n")).collect();
    text = text.replace("entry:\n", "entry:\n  %tiles = alloca [8 x [256 x i32]], align 64\n");
    for name in ["ldtilecfg", "tilezero", "tileloadd64", "tilestored64", "tilerelease", "tdp"] {
        text = text.replace(&format!("@llvm.x86.{name}"), &format!("@{name}"));
    }
    for name in ["ldtilecfg", "tilezero", "tileloadd64", "tilestored64", "tilerelease"] {
        text = text.replace(&format!("@{name}("), &format!("@{name}(ptr %tiles, "));
    }
    for (name, ..) in PRODUCTS {
        text = text.replace(&format!("@{name}("), &format!("@{name}(ptr %tiles, "));
    }
    text = text.replace("%tiles, )", "%tiles)");
    text.push_str(&functions());
    text
}

/// Names, and whether the parts of the first and the second operand have signs; bf16 have no such thing.
const PRODUCTS: [(&str, Option<[bool; 2]>); 5] = [
    ("tdpbf16ps", None),
    ("tdpbssd", Some([true, true])),
    ("tdpbsud", Some([true, false])),
    ("tdpbusd", Some([false, true])),
    ("tdpbuud", Some([false, false])),
];

/// What the instructions do, in loops over words: for products `m * 256 + k * 16 + n`.
fn functions() -> String {
    let around = |head: &str, count: usize, body: &str| {
        format!(
            "define internal void {head} {{\nentry:\n  br label %loop\nloop:\n  \
             %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n{body}\n  %next = add i64 %i, 1\n  \
             %more = icmp ult i64 %next, {count}\n  br i1 %more, label %loop, label %done\n\
             done:\n  ret void\n}}\n"
        )
    };
    let word = |tile: &str, at: &str| {
        format!("  %p{tile} = getelementptr [256 x i32], ptr %tiles, i8 %{tile}, i64 %{at}\n")
    };
    let outside = "  %r = lshr i64 %i, 4\n  %row = mul i64 %r, %stride\n  %c = and i64 %i, 15\n  \
                   %pr = getelementptr i8, ptr %at, i64 %row\n  \
                   %po = getelementptr i32, ptr %pr, i64 %c\n";
    // a configuration that is not eight times 16 rows of 64 bytes ends the process
    let mut text = "define internal void @ldtilecfg(ptr %tiles, ptr %at) {\n  \
         %pb = getelementptr i8, ptr %at, i64 16\n  %pr = getelementptr i8, ptr %at, i64 48\n  \
         %head = load i128, ptr %at, align 1\n  %b = load <16 x i16>, ptr %pb, align 1\n  \
         %r = load <16 x i8>, ptr %pr, align 1\n  %h = icmp eq i128 %head, 1\n"
        .to_owned();
    let vector = |of: &str, n: u8| -> String {
        let lanes: Vec<String> =
            (0..16).map(|i| format!("{of} {}", if i < 8 { n } else { 0 })).collect();
        format!("<{}>", lanes.join(", "))
    };
    text.push_str(&format!(
        "  %bs = icmp eq <16 x i16> %b, {}\n  %rs = icmp eq <16 x i8> %r, {}\n  \
         %both = and <16 x i1> %bs, %rs\n  %bits = bitcast <16 x i1> %both to i16\n  \
         %all = icmp eq i16 %bits, -1\n  %ok = and i1 %all, %h\n  \
         br i1 %ok, label %fine, label %wrong\nwrong:\n  call void @llvm.trap()\n  \
         br label %fine\nfine:\n  ret void\n}}\ndeclare void @llvm.trap()\n\
         define internal void @tilerelease(ptr %tiles) {{\n  ret void\n}}\n",
        vector("i16", 64),
        vector("i8", 16)
    ));
    let zero = format!("{}  store i32 0, ptr %pn", word("n", "i"));
    text.push_str(&around("@tilezero(ptr %tiles, i8 %n)", 256, &zero));
    let load = format!(
        "{}{outside}  %v = load i32, ptr %po, align 1\n  store i32 %v, ptr %pn",
        word("n", "i")
    );
    let store = format!(
        "{}{outside}  %v = load i32, ptr %pn\n  store i32 %v, ptr %po, align 1",
        word("n", "i")
    );
    let access = "(ptr %tiles, i8 %n, ptr %at, i64 %stride)";
    text.push_str(&around(&format!("@tileloadd64{access}"), 256, &load));
    text.push_str(&around(&format!("@tilestored64{access}"), 256, &store));
    let places = format!(
        "  %m = lshr i64 %i, 8\n  %k1 = lshr i64 %i, 4\n  %k = and i64 %k1, 15\n  \
         %n = and i64 %i, 15\n  %m16 = mul i64 %m, 16\n  %k16 = mul i64 %k, 16\n  \
         %mk = add i64 %m16, %k\n  %kn = add i64 %k16, %n\n  %mn = add i64 %m16, %n\n{}{}{}  \
         %a = load i32, ptr %px\n  %b = load i32, ptr %py\n",
        word("x", "mk"),
        word("y", "kn"),
        word("z", "mn")
    );
    for (name, signs) in PRODUCTS {
        let head = format!("@{name}(ptr %tiles, i8 %z, i8 %x, i8 %y)");
        let body = match signs {
            None => bf16(),
            Some(signs) => bytes(signs),
        };
        text.push_str(&around(&head, 4096, &format!("{places}{body}")));
    }
    text
}

fn bf16() -> String {
    let mut text = "  %s0 = load float, ptr %pz\n".to_owned();
    for (i, part) in ["shl i32 %W, 16", "and i32 %W, -65536"].into_iter().enumerate() {
        for (word, name) in [("a", "x"), ("b", "y")] {
            let bits = part.replace("%W", &format!("%{word}"));
            text.push_str(&format!("  %{name}i{i} = {bits}\n"));
            text.push_str(&format!("  %{name}f{i} = bitcast i32 %{name}i{i} to float\n"));
        }
        text.push_str(&format!("  %f{i} = fmul float %xf{i}, %yf{i}\n"));
        text.push_str(&format!("  %s{} = fadd float %s{i}, %f{i}\n", i + 1));
    }
    text + "  store float %s2, ptr %pz"
}

fn bytes(signs: [bool; 2]) -> String {
    let mut text = "  %s0 = load i32, ptr %pz\n".to_owned();
    for i in 0..4 {
        for ((word, name), signed) in [("a", "x"), ("b", "y")].into_iter().zip(signs) {
            let shift = if signed { "ashr" } else { "lshr" };
            text.push_str(&format!("  %{name}h{i} = shl i32 %{word}, {}\n", 24 - 8 * i));
            text.push_str(&format!("  %{name}p{i} = {shift} i32 %{name}h{i}, 24\n"));
        }
        text.push_str(&format!("  %f{i} = mul i32 %xp{i}, %yp{i}\n"));
        text.push_str(&format!("  %s{} = add i32 %s{i}, %f{i}\n", i + 1));
    }
    text + "  store i32 %s4, ptr %pz"
}

fn value(dtype: DType, i: usize) -> i64 {
    (i * 7 % 13) as i64 - if dtype == DType::U8 { 0 } else { 6 }
}

fn memory(dtype: DType, len: usize) -> Vec<u8> {
    let bits = |i| to_bits(Const::Int(value(dtype, i)).cast(dtype), dtype).to_le_bytes();
    (0..len).flat_map(|i| bits(i).into_iter().take(dtype.size())).collect()
}

/// What the program computes from [`memory`], its intrinsics emulated.
fn run(backend: &CpuBackend, program: &Program) -> Vec<i64> {
    // without ops: the system would be asked for AMX
    let program = Program { source: emulated(&program.source), ops: Vec::new(), ..program.clone() };
    let loaded = backend.load(&program).expect("compiles");
    let buffer = |p: &kiln_ir::program::ParamInfo| {
        let buffer = backend.alloc(p.len * p.dtype.size()).expect("memory");
        buffer.write(&memory(p.dtype, p.len)).expect("just allocated");
        buffer
    };
    let buffers: Vec<_> = program.params.iter().map(buffer).collect();
    loaded.kernel.launch(&buffers, &[]).expect("runs");
    let (bytes, dtype) = (buffers[0].to_vec().expect("computed"), program.params[0].dtype);
    let word = |c: &[u8]| from_bits(u32::from_le_bytes(c.try_into().expect("4")) as u64, dtype);
    let number = |c: Const| match c {
        Const::Float(f) => f as i64,
        Const::Int(i) => i,
        other => panic!("{other:?} is no sum"),
    };
    bytes.chunks_exact(4).map(word).map(number).collect()
}

/// `max(x @ y + 3, 0)` of `[batch, m, k]` and `[batch, k, n]`, or of y with its last two axes swapped.
fn batched(([a, b], sum): Types, [batch, m, k, n]: [usize; 4], swapped: bool) -> UOp {
    let x = UOp::param(0, a, [batch, m, k].as_slice()).cast(sum);
    let x = x.reshape(&[batch, m, 1, k][..]).expand(&[batch, m, n, k][..]);
    let y = if swapped { [batch, n, k] } else { [batch, k, n] };
    let y = UOp::param(1, b, y.as_slice()).cast(sum);
    let y = if swapped { y } else { y.permute(&[0, 2, 1][..]) };
    let y = y.reshape(&[batch, 1, n, k][..]).expand(&[batch, m, n, k][..]);
    let sums = (x * y).reduce(ReduceOp::Add, &[3][..]);
    let three = UOp::constant(3, sum);
    (&sums + &three).maximum(&three.const_like(0))
}

fn expected(([a, b], _): Types, [batch, m, k, n]: [usize; 4], swapped: bool) -> Vec<i64> {
    let y = |b: usize, k_: usize, j: usize| match swapped {
        true => (b * n + j) * k + k_,
        false => (b * k + k_) * n + j,
    };
    let mut sums = Vec::new();
    for at in 0..batch * m * n {
        let (of, i, j) = (at / (m * n), at / n % m, at % n);
        let term = |p: usize| value(a, (of * m + i) * k + p) * value(b, y(of, p, j));
        sums.push(((0..k).map(term).sum::<i64>() + 3).max(0));
    }
    sums
}

#[test]
fn kernels_with_emulated_units_compute_what_they_should() {
    let Some(backend) = llvm() else { return };
    let mut seed = seed_of(12345);
    let mut random = |least: usize, most: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        least + (seed >> 33) as usize % (most - least + 1)
    };
    let mut units = 0;
    for round in 0..24 {
        let types = [BF16, BYTES, SIGNED][round % 3];
        let batch = random(1, 2) * (round % 2) + 1;
        let shape = [batch, random(17, 130), random(60, 400), random(17, 130)];
        let swapped = random(0, 1) == 1;
        let caches = [1 << 10, [8, 64, 1024][random(0, 2)] << 10, 4 << 20];
        let target = Target { cache_bytes: caches, ..target(true) };
        let compiled = compiled(&batched(types, shape, swapped), &target);
        units += compiled.program.ops.iter().any(|op| op.op() == Op::Mma) as usize;
        let found = run(&backend, &compiled.program);
        let right = found == expected(types, shape, swapped);
        assert!(right, "{types:?} {shape:?} {swapped}: {:?}", compiled.applied);
    }
    assert!(units > 16 || !is_counted(), "only {units} kernels had units to emulate");
}
