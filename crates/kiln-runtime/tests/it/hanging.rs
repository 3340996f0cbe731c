//! C compilers that do not come to an end: scripts that stand for them.

use crate::cpu::{c, config, program};
use crate::memory::TempDir;
use kiln_runtime::cpu::config::{Choice, CpuConfig};
use kiln_runtime::cpu::{self, Rung};
use kiln_runtime::{Backend, Error};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// What compiling with a script says, and how long that takes.
fn compiled_by(name: &str, script: &str, seconds: u64) -> (Result<(), Error>, Duration) {
    let dir = TempDir::new(name);
    let path = dir.0.join("cc");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let time = Duration::from_secs(seconds);
    let config = CpuConfig { cc: Choice::Path(path), cc_time: time, ..config() };
    let device = cpu::open(&config, Some(Rung::C)).unwrap();
    // more than a pipe holds: one who does not read blocks one who writes
    let source = c(&"// much text\n".repeat(20_000), "a[0] += 1;");
    let start = Instant::now();
    (device.load(&program(&source, 1, 1)).map(|_| ()), start.elapsed())
}

/// It has two seconds, or where it has much to say, as many as that takes.
fn fails(name: &str, script: &str, why: &str) {
    let seconds = if why.contains(" 2 s") { 2 } else { 60 };
    let (result, took) = compiled_by(name, script, seconds);
    let error = result.expect_err(name).to_string();
    assert!(error.contains(why) && error.len() < 10_000, "{name}: {error}");
    assert!(took < Duration::from_secs(50), "{name}: {took:?}");
}

#[test]
fn a_compiler_that_hangs_is_ended() {
    fails("hangs", "sleep 1000", "takes longer than 2 s");
    fails("hangs-reading", "cat > /dev/null; sleep 1000", "takes longer than 2 s");
    fails("hangs-silently", "exec 2>&-; sleep 1000", "takes longer than 2 s");
    fails("hangs-later", "sleep 1000 & exit 0", "takes longer than 2 s");
}

#[test]
fn a_compiler_that_prints_for_ever_is_ended() {
    fails("prints", "yes error >&2", "bytes of messages");
    // nobody listens to that
    fails("prints-elsewhere", "yes nonsense", "takes longer than 2 s");
    fails("writes-much", "for a; do o=$a; done; head -c 300000000 /dev/zero > $o", "cannot load");
    fails("complains", "yes 'a long complaint' | head -n 20000 >&2; exit 1", "a long complaint");
}

#[test]
fn what_it_has_started_ends_with_it() {
    let dir = TempDir::new("hangs-children");
    let file = dir.0.join("alive");
    let script = format!("(while :; do date > '{}'; sleep 0.1; done) & sleep 1000", file.display());
    fails("hangs-with-children", &script, "takes longer than 2 s");
    std::fs::remove_file(&file).expect("it was started");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!file.exists(), "it goes on");
}

#[test]
fn a_compiler_that_works_in_its_time_is_used() {
    let (result, _) = compiled_by("slow", "sleep 0.5; exec cc \"$@\"", 60);
    result.unwrap();
}
