//! Kernels written by hand, through each compiler: arguments, threads, scratch, helpers, complaints.

use kiln_ir::DType;
use kiln_ir::program::{ParamInfo, Program};
use kiln_runtime::cpu::config::CpuConfig;
use kiln_runtime::cpu::{self, CpuBackend, Rung};
use kiln_runtime::{Backend, Error, Loaded, Origin, Result};

const BOTH: [Rung; 2] = [Rung::Llvm, Rung::C];

/// The environment's compilers without the user's cache.
pub(crate) fn config() -> CpuConfig {
    CpuConfig { cache: None, ..CpuConfig::from_env() }
}

fn device(rung: Rung) -> CpuBackend {
    cpu::open(&config(), Some(rung)).unwrap()
}

/// A program with this source whose arguments are all `f32` and of one length.
pub(crate) fn program(source: &str, params: usize, len: usize) -> Program {
    let info = ParamInfo { dtype: DType::F32, len, written: true, read: true, streamed: false };
    Program {
        name: "test".into(),
        ops: Vec::new(),
        source: source.into(),
        params: vec![info; params],
        vars: Vec::new(),
        threads: kiln_ir::UOp::index(1),
        global: Vec::new(),
        local: Vec::new(),
        scratch_bytes: 0,
        flops: 0,
        bytes: 0,
        accessed: 0,
    }
}

/// A C function of the kernel's type.
pub(crate) fn c(before: &str, body: &str) -> String {
    format!(
        "{before}\nvoid kiln_entry(void *const *bufs, const long long *vars, char *scratch,\n\
         long long lo, long long hi) {{\nfloat *a = bufs[0];\n{body}\n}}\n"
    )
}

/// `b[i] = a[i] * a[i] + var` over the `Thread` range, in both languages.
pub(crate) fn square_plus(rung: Rung) -> String {
    match rung {
        Rung::C => c(
            "",
            "float *b = bufs[1]; float v = *(const float *)vars;
             for (long long i = lo; i < hi; i++) b[i] = a[i] * a[i] + v;",
        ),
        Rung::Llvm => "
define void @kiln_entry(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) {
entry:
  %a = load ptr, ptr %bufs
  %b.at = getelementptr ptr, ptr %bufs, i64 1
  %b = load ptr, ptr %b.at
  %v = load float, ptr %vars
  br label %head
head:
  %i = phi i64 [%lo, %entry], [%next, %body]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %body, label %done
body:
  %a.i = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %a.i
  %xx = fmul float %x, %x
  %y = fadd float %xx, %v
  %b.i = getelementptr float, ptr %b, i64 %i
  store float %y, ptr %b.i
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
"
        .into(),
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|f| f.to_le_bytes()).collect()
}

/// Runs a program on one argument; returns what it holds afterwards.
pub(crate) fn run(device: &CpuBackend, program: &Program, data: &[f32]) -> Result<Vec<f32>> {
    let buffer = device.alloc(data.len() * 4)?;
    buffer.write(&bytes(data))?;
    device.load(program)?.kernel.launch(std::slice::from_ref(&buffer), &[])?;
    Ok(floats(&buffer.to_vec::<u8>()?))
}

#[test]
fn threads_share_a_launch_and_nothing_is_contracted() {
    const LEN: usize = 100_003;
    for rung in BOTH {
        for threads in [1, 2, 3, 7] {
            let device =
                cpu::open(&CpuConfig { threads: Some(threads), ..config() }, Some(rung)).unwrap();
            let mut program = program(&square_plus(rung), 2, LEN);
            program.vars = vec![DType::F32];
            program.threads = kiln_ir::UOp::index(LEN as i64);
            program.flops = 1 << 30;
            let input: Vec<f32> = (0..LEN).map(|i| i as f32 * 0.37).collect();
            let (a, b) = (device.alloc(LEN * 4).unwrap(), device.alloc(LEN * 4).unwrap());
            a.write(&bytes(&input)).unwrap();
            let loaded = device.load(&program).unwrap();
            assert_eq!(loaded.origin, Origin::Compiled);
            let var = i64::from(0.3f32.to_bits());
            loaded.kernel.launch(&[a.clone(), b.clone()], &[var]).unwrap();
            let wanted: Vec<f32> = input.iter().map(|x| x * x + 0.3).collect();
            assert!(
                floats(&b.to_vec::<u8>().unwrap()) == wanted,
                "{rung:?} with {threads} threads"
            );
            assert_eq!(device.load(&program).unwrap().origin, Origin::Memory);
        }
    }
}

#[test]
fn scratch_is_aligned_large_enough_and_per_thread() {
    let device = cpu::open(&CpuConfig { threads: Some(4), ..config() }, Some(Rung::C)).unwrap();
    let body = "for (long long i = lo; i < hi; i++) {
        volatile float *s = (float *)scratch;
        for (int k = 0; k < 1000000; k++) s[k] = i;
        int good = ((unsigned long)scratch & 63) == 0;
        for (int k = 0; k < 1000000; k++) good &= s[k] == i;
        a[i] = good ? i : -1;
    }";
    let mut program = program(&c("", body), 1, 8);
    program.threads = kiln_ir::UOp::index(8);
    program.scratch_bytes = 4_000_000;
    program.flops = 1 << 30;
    let result = run(&device, &program, &[0.0; 8]).unwrap();
    assert_eq!(result, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn tables_statics_and_the_helpers_of_compilers_resolve() {
    let before = "
        static const float table[4] = {1, 2, 3, 4};
        static float count = 10;
        const float *const exported[2] = {table, table + 2};
        extern void *memset(void *, int, unsigned long);
        extern void *memcpy(void *, const void *, unsigned long);
        extern float fmaf(float, float, float);
        extern float roundevenf(float);
        extern double sqrt(double);
        extern _Float16 __truncsfhf2(float);
        extern float __extendhfsf2(_Float16);
        extern unsigned __int128 __udivti3(unsigned __int128, unsigned __int128);";
    let body = "
        count += 1;
        a[0] = count + exported[1][lo];
        memset(a + 1, 0, 4);
        memcpy(a + 2, table + 3, 4);
        a[3] = fmaf(a[4], a[4], -1);
        a[4] = roundevenf(2.5f) + sqrt(16);
        a[5] = __extendhfsf2(__truncsfhf2(a[5]));
        a[6] = (float)(unsigned long)__udivti3((unsigned __int128)7 << 64, (unsigned __int128)1 << 64);
        switch ((int)a[7]) {
        case 0: a[7] = 3; break; case 1: a[7] = 1; break; case 2: a[7] = 4; break;
        case 3: a[7] = 1; break; case 4: a[7] = 5; break; case 5: a[7] = 9; break; }";
    let program = program(&c(before, body), 1, 8);
    let x = 1.0 + f32::EPSILON;
    let data = [0.0, 5.0, 5.0, 5.0, x, 1.0 / 3.0, 0.0, 4.0];
    let result = run(&device(Rung::C), &program, &data).unwrap();
    assert_eq!(result, [14.0, 0.0, 4.0, x.mul_add(x, -1.0), 6.0, 0.33325195, 7.0, 5.0]);
}

/// The oldest processor of the architecture has no instructions for halves and rounding.
#[cfg(target_arch = "x86_64")]
#[test]
fn llvm_helpers_resolve_too() {
    let source = "
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare <8 x float> @llvm.floor.v8f32(<8 x float>)
define void @kiln_entry(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {
  %a = load ptr, ptr %bufs
  %x = load <8 x float>, ptr %a, align 4
  call void @llvm.memset.p0.i64(ptr %scratch, i8 0, i64 4096, i1 false)
  %h = fptrunc <8 x float> %x to <8 x half>
  %y = fpext <8 x half> %h to <8 x float>
  %z = call <8 x float> @llvm.floor.v8f32(<8 x float> %y)
  %s = load <8 x float>, ptr %scratch, align 4
  %r = fadd <8 x float> %s, %z
  store <8 x float> %r, ptr %a, align 4
  ret void
}
attributes #0 = { \"target-cpu\"=\"x86-64\" \"target-features\"=\"\" }
";
    let mut program = program(source, 1, 8);
    program.scratch_bytes = 4096;
    let data = [0.5, -0.5, 1e6, f32::NAN, 2.9999, -3.0, 7.9, 0.0];
    let result = run(&device(Rung::Llvm), &program, &data).unwrap();
    assert!(result[3].is_nan());
    assert_eq!(result[..3], [0.0, -1.0, f32::INFINITY]);
    assert_eq!(result[4..], [3.0, -3.0, 7.0, 0.0]);
}

#[test]
fn a_missing_symbol_is_named() {
    let source = c("extern float frobnicate(float);", "a[0] = frobnicate(a[0]);");
    let error = run(&device(Rung::C), &program(&source, 1, 1), &[0.0]).unwrap_err();
    assert!(matches!(&error, Error::Load(text) if text.contains("`frobnicate`")), "{error}");
    let error = run(&device(Rung::C), &program("int x = 1;", 1, 1), &[0.0]).unwrap_err();
    assert!(error.to_string().contains("kiln_entry"), "{error}");
}

#[test]
fn compilers_complain_in_the_error() {
    let check = |rung, source: &str, wanted: &str| {
        let error = run(&device(rung), &program(source, 1, 1), &[0.0]).unwrap_err();
        assert!(matches!(error, Error::Compile { .. }));
        assert!(error.to_string().contains(wanted), "{error}");
    };
    check(Rung::C, &c("", "a[0] = nothing;"), "nothing");
    check(Rung::Llvm, "define void @kiln_entry() {\n  ret i32 %x\n}", "kernel:2");
    check(Rung::Llvm, "not llvm at all", "expected top-level entity");
    let unverified =
        "define void @kiln_entry() {\n  %x = add i32 %y, 1\n  %y = add i32 %x, 1\n  ret void\n}";
    check(Rung::Llvm, unverified, "does not dominate");
}

#[test]
fn arguments_are_checked() {
    let device = device(Rung::C);
    let kernel = device.load(&program(&c("", "a[0] = 1;"), 1, 4)).unwrap().kernel;
    let buffer = device.alloc(17).unwrap();
    assert!(kernel.launch(&[], &[]).is_err());
    assert!(kernel.launch(std::slice::from_ref(&buffer), &[1]).is_err());
    assert!(kernel.launch(&[buffer.view(0, 15).unwrap()], &[]).is_err());
    let odd = kernel.launch(&[buffer.view(1, 16).unwrap()], &[]).unwrap_err();
    assert!(odd.to_string().contains("aligned"), "{odd}");
    kernel.launch(&[buffer], &[]).unwrap();
    // what is written past the caches begins with a line
    let mut streaming = program(&c("", "a[0] = 1;"), 1, 4);
    streaming.params[0].streamed = true;
    let kernel = device.load(&streaming).unwrap().kernel;
    let buffer = device.alloc(256).unwrap();
    let odd = kernel.launch(&[buffer.view(16, 64).unwrap()], &[]).unwrap_err();
    assert!(odd.to_string().contains("not aligned to 64 bytes"), "{odd}");
    kernel.launch(&[buffer.view(64, 64).unwrap()], &[]).unwrap();
}

#[test]
fn many_threads_compile_one_kernel_once() {
    for rung in BOTH {
        let device = device(rung);
        let mut program = program(&square_plus(rung), 2, 1);
        program.vars = vec![DType::F32];
        let loaded: Vec<Loaded> = std::thread::scope(|scope| {
            let load = || device.load(&program).unwrap();
            let spawned: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
            spawned.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let compiled = loaded.iter().filter(|loaded| loaded.origin == Origin::Compiled).count();
        assert_eq!(compiled, 1);
    }
}

#[test]
fn llvm_compiles_on_many_threads_at_once() {
    let device = device(Rung::Llvm);
    std::thread::scope(|scope| {
        for n in 0..16 {
            let device = &device;
            scope.spawn(move || {
                let source = square_plus(Rung::Llvm)
                    .replace("add i64 %i, 1", &format!("add i64 %i, {}", n + 1));
                let mut program = program(&source, 2, 1);
                program.vars = vec![DType::F32];
                assert_eq!(device.load(&program).unwrap().origin, Origin::Compiled);
            });
        }
    });
}

#[test]
fn code_can_be_shown() {
    let mut program = program(&square_plus(Rung::Llvm), 2, 1);
    program.vars = vec![DType::F32];
    let text = device(Rung::Llvm).load(&program).unwrap().kernel.disassemble().unwrap().text;
    assert!(text.contains("ret") && !text.contains("(bad)"), "{text}");
}

/// An LLVM kernel of one instruction.
fn kernel_of(attributes: &str, instruction: &str, declaration: &str) -> String {
    format!(
        "define void @kiln_entry(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) {attributes} \
         {{\n  {instruction}\n  ret void\n}}\n{declaration}\n"
    )
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_llvm_cannot_go_on_with_is_an_error() {
    let device = device(Rung::Llvm);
    let message = |source: &str| device.load(&program(source, 1, 1)).err().map(|e| e.to_string());
    let unknown = kernel_of("\"target-cpu\"=\"nonsense\" \"target-features\"=\"\"", "", "");
    let missing = kernel_of(
        "\"target-cpu\"=\"x86-64\" \"target-features\"=\"\"",
        "call void @llvm.x86.tilezero(i8 0)",
        "declare void @llvm.x86.tilezero(i8)",
    );
    for source in [&unknown, &missing] {
        assert!(message(source).is_some_and(|why| why.contains("LLVM gives up")), "{source}");
        assert_eq!(message(&kernel_of("", "", "")), None, "the process goes on");
    }
    assert!(device.writes_for("nonsense").is_err());
    assert!(device.writes_for("x86-64").is_ok());
}

/// Large copies are shared by threads, of which each byte has one.
#[test]
fn copies_of_any_size_are_whole() {
    let config = CpuConfig { threads: Some(3), ..config() };
    let backend = cpu::open(&config, Some(Rung::C)).unwrap();
    for len in [0, 1, (2 << 20) - 1, 2 << 20, (5 << 20) + 77] {
        let (mut from, to) = (backend.alloc(len).unwrap(), backend.alloc(len).unwrap());
        let numbers = |to: &mut [u8]| {
            to.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 31 + i / 251) as u8);
        };
        from.fill(numbers).unwrap();
        backend.copy(&from, &to).unwrap();
        assert!(to.to_vec::<u8>() == from.to_vec::<u8>(), "{len} bytes");
        assert!(backend.copy(&from, &backend.alloc(len + 1).unwrap()).is_err());
    }
}
