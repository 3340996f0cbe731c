//! Which compiler is used, in processes of their own: environment variables and caches as users have them.

use crate::cpu::{c, program, run};
use crate::memory::TempDir;
use kiln_runtime::Backend;
use kiln_runtime::cpu::config::CpuConfig;
use kiln_runtime::cpu::{self, Rung};
use std::path::Path;
use std::process::{Command, Output};

/// What the child does: opens the ladder and runs one kernel; says how.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn child() {
    let rung = match std::env::var("TEST_RUNG").as_deref() {
        Ok("LLVM") => Some(Rung::Llvm),
        Ok("C") => Some(Rung::C),
        _ => None,
    };
    match cpu::open(&CpuConfig::from_env(), rung) {
        Err(error) => println!("ERROR {error}"),
        Ok(device) => {
            let source = match device.rung() {
                Rung::C => c("", "a[0] += 1;"),
                Rung::Llvm => LLVM_ADD_ONE.into(),
            };
            let program = program(&source, 1, 1);
            let origin = device.load(&program).unwrap().origin;
            let result = run(&device, &program, &[41.0]).unwrap();
            println!("DONE {} {origin:?} {} {}", device.name(), result[0], device.compiler());
            println!("MAPPED {}", libraries());
        }
    }
    for warning in kiln_runtime::warnings::take() {
        println!("WARNING {warning}");
    }
}

const LLVM_ADD_ONE: &str = "
define void @kiln_entry(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) {
  %a = load ptr, ptr %bufs
  %x = load float, ptr %a
  %y = fadd float %x, 1.0
  store float %y, ptr %a
  ret void
}
";

/// Whether an LLVM is mapped into this process.
fn libraries() -> &'static str {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    if maps.contains("libLLVM") { "llvm" } else { "nothing" }
}

fn command(cache: &Path, env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["ladder::child", "--exact", "--ignored", "--nocapture"]);
    for name in ["KILN_LLVM", "KILN_CC", "KILN_CACHE", "KILN_THREADS", "TEST_RUNG"] {
        command.env_remove(name);
    }
    command.env("XDG_CACHE_HOME", cache).envs(env.iter().copied());
    command
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The child with files that cannot grow past some size, as on a full disk.
fn says_on_full_disk(cache: &Path) -> String {
    let inner = command(cache, &[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 100; exec \"$0\" \"$@\""]).arg(inner.get_program());
    shell.args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    text(&shell.output().unwrap())
}

fn says(cache: &Path, env: &[(&str, &str)]) -> String {
    text(&command(cache, env).output().unwrap())
}

#[test]
fn each_rung_can_be_forced_and_hidden() {
    let dir = TempDir::new("ladder-rungs");
    let said = says(&dir.0, &[]);
    assert!(said.contains("DONE CPU:LLVM Compiled 42"), "{said}");
    let said = says(&dir.0, &[("TEST_RUNG", "C")]);
    assert!(said.contains("DONE CPU:C Compiled 42"), "{said}");
    assert!(said.contains("MAPPED nothing"), "{said}");
    let said = says(&dir.0, &[("KILN_LLVM", "none")]);
    assert!(said.contains("DONE CPU:C Disk 42"), "{said}");
    let said = says(&dir.0, &[("KILN_LLVM", "none"), ("TEST_RUNG", "LLVM")]);
    assert!(said.contains("ERROR no compiler") && said.contains("KILN_LLVM=none"), "{said}");
    let said = says(&dir.0, &[("KILN_LLVM", "none"), ("KILN_CC", "none")]);
    assert!(said.contains("ERROR no compiler") && said.contains("KILN_CC=none"), "{said}");
    let said = says(&dir.0, &[("KILN_THREADS", "many")]);
    assert!(said.contains(" 42 ") && said.contains("WARNING KILN_THREADS=many"), "{said}");
    let said = says(&dir.0, &[("KILN_CC", "gcc"), ("TEST_RUNG", "C"), ("KILN_CACHE", "none")]);
    assert!(said.contains("Compiled 42") && said.contains("gcc"), "{said}");
}

#[test]
fn a_useless_library_is_said_and_passed_over() {
    let dir = TempDir::new("ladder-useless");
    let library = dir.0.join("libLLVM.so");
    std::fs::write(&library, b"junk").unwrap();
    let library = library.to_str().unwrap();
    let said = says(&dir.0, &[("KILN_LLVM", library)]);
    assert!(
        said.contains("DONE CPU:C Compiled 42") && said.contains("WARNING KILN_LLVM"),
        "{said}"
    );
    let said = says(&dir.0, &[("KILN_LLVM", library), ("TEST_RUNG", "LLVM")]);
    assert!(said.contains("ERROR") && said.contains("libLLVM.so"), "{said}");
    let said = says(&dir.0, &[("TEST_RUNG", "C"), ("KILN_CC", "/no/such/cc")]);
    assert!(said.contains("ERROR") && said.contains("/no/such/cc: no such file"), "{said}");
}

/// Releases older than 15 have every function that is called, but another IR.
#[test]
fn an_old_library_is_refused() {
    let old = "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1";
    if !Path::new(old).exists() {
        return;
    }
    let dir = TempDir::new("ladder-old");
    let said = says(&dir.0, &[("KILN_LLVM", old), ("TEST_RUNG", "LLVM")]);
    assert!(said.contains("ERROR") && said.contains("older than LLVM 15"), "{said}");
}

/// The Rust toolchain's own library is enough.
#[test]
fn every_library_on_this_machine_works() {
    let dir = TempDir::new("ladder-all");
    let mut paths = vec![std::path::PathBuf::from("/usr/lib/x86_64-linux-gnu/libLLVM-15.so.1")];
    for toolchains in CpuConfig::from_env().toolchains {
        for toolchain in std::fs::read_dir(toolchains).into_iter().flatten().flatten() {
            let files = std::fs::read_dir(toolchain.path().join("lib")).into_iter().flatten();
            let named = |p: &std::path::PathBuf| p.to_string_lossy().contains("/libLLVM.so");
            paths.extend(files.flatten().map(|f| f.path()).filter(named));
        }
    }
    for path in paths.iter().filter(|path| path.exists()) {
        let env =
            [("KILN_LLVM", path.to_str().unwrap()), ("TEST_RUNG", "LLVM"), ("KILN_CACHE", "none")];
        let said = says(&dir.0, &env);
        assert!(said.contains("DONE CPU:LLVM Compiled 42"), "{}: {said}", path.display());
    }
}

#[test]
fn a_second_run_compiles_nothing_and_opens_no_compiler() {
    let dir = TempDir::new("ladder-second");
    for (rung, mapped) in [("LLVM", "llvm"), ("C", "nothing")] {
        let first = says(&dir.0, &[("TEST_RUNG", rung)]);
        assert!(first.contains("Compiled 42") && first.contains(&format!("MAPPED {mapped}")));
        let second = says(&dir.0, &[("TEST_RUNG", rung)]);
        assert!(second.contains("Disk 42") && second.contains("MAPPED nothing"), "{second}");
    }
    let leftover = std::fs::read_dir(dir.0.join("kiln")).unwrap().flatten();
    assert!(leftover.into_iter().all(|f| f.path().extension().is_none_or(|e| e != "o")));
}

#[test]
fn many_processes_share_a_new_cache() {
    for round in 0..5 {
        let dir = TempDir::new(&format!("ladder-many-{round}"));
        let children: Vec<_> = (0..4)
            .map(|_| command(&dir.0, &[]).stdout(std::process::Stdio::piped()).spawn().unwrap())
            .collect();
        for child in children {
            let said = text(&child.wait_with_output().unwrap());
            assert!(said.contains(" 42 ") && !said.contains("WARNING"), "{said}");
        }
        assert!(says(&dir.0, &[]).contains("Disk 42"));
    }
}

#[test]
fn a_cache_in_trouble_is_said_and_worked_around() {
    let dir = TempDir::new("ladder-trouble");
    std::fs::write(dir.0.join("kiln"), b"a file where the folder should be").unwrap();
    let said = says(&dir.0, &[]);
    assert!(said.contains("Compiled 42"), "{said}");
    assert_eq!(said.matches("WARNING").count(), 1, "{said}");

    let said = says_on_full_disk(&dir.0.join("full"));
    assert!(said.contains("Compiled 42"), "{said}");
    assert_eq!(said.matches("WARNING").count(), 1, "{said}");
}
