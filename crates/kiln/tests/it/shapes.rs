//! New shapes without end: what is remembered of them is bounded, in memory and on disk.

use kiln::Tensor;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// What the process holds in memory.
fn resident_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
}

fn disk_mb(folder: &Path) -> f64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.metadata().map_or(0, |meta| meta.len()) as f64).sum::<f64>() / 1e6
}

/// A graph of a shape of its own: a kernel or two that nobody has compiled.
fn compute(i: usize) {
    let x = Tensor::full([2 + i % 1000, 3 + i / 1000], 1.5f32).contiguous();
    ((&x * 2.0).sum(0) + 1.0).realize().expect("computes");
}

#[test]
#[ignore = "run by another test, in a process of its own; TEST_SHAPES says where to look"]
fn many_shapes() {
    let stops = std::env::var("TEST_SHAPES").expect("run by another test");
    let cache = PathBuf::from(std::env::var_os("KILN_CACHE").expect("a folder"));
    let (start, mut done) = (Instant::now(), 0);
    for stop in stops.split(',').map(|n| n.parse::<usize>().expect("numbers")) {
        (done..stop).for_each(compute);
        done = stop;
        let (memory, disk) = (resident_mb(), disk_mb(&cache));
        println!(
            "SHAPES {done} MB {memory:.1} DISK {disk:.1} S {:.0}",
            start.elapsed().as_secs_f64()
        );
    }
}

/// MB in memory and on disk after so many shapes.
fn after(device: &str, cache_mb: usize, stops: &[usize]) -> Vec<(f64, f64)> {
    let folder = std::env::temp_dir().join(format!("kiln-shapes-{device}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let stops = stops.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let run = Command::new(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--exact", "--nocapture", "shapes::many_shapes"])
        .env("TEST_SHAPES", stops)
        .env("DEV", device)
        .env("KILN_CACHE", &folder)
        .env("KILN_CACHE_MB", cache_mb.to_string())
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&run.stdout);
    println!("{said}");
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    std::fs::remove_dir_all(&folder).expect("was there");
    let number = |line: &str, name: &str| -> f64 {
        let rest = line.split_once(name).expect("is said").1;
        rest.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
    };
    let lines = said.lines().filter(|line| line.contains("SHAPES"));
    lines.map(|line| (number(line, " MB "), number(line, " DISK "))).collect()
}

fn is_flat(device: &str, cache_mb: usize, stops: &[usize], spread: f64) {
    let all = after(device, cache_mb, stops);
    let [(first, _), .., (last, disk)] = all[..] else { panic!("{all:?}") };
    assert!(last - first < spread, "{device}: {first} MB, then {last} MB");
    // a log, and what lies between two looks at the size
    assert!(disk < 1.25 * cache_mb as f64 + 6.0, "{device}: {disk} MB on disk");
}

#[test]
fn memory_and_disk_are_flat_over_new_shapes() {
    is_flat("NULL", 2, &[400, 1200], 3.0);
    // 24 KB for each would be 14 MB; threads of the compiler leave some more or less behind
    is_flat("CPU", 2, &[300, 900], 8.0);
}

#[test]
#[ignore = "takes half an hour: a million shapes"]
fn a_million_shapes() {
    // the bound is reached before the first stop
    is_flat("NULL", 64, &[100_000, 300_000, 1_000_000], 8.0);
}

#[test]
#[ignore = "takes an hour: many compiled shapes"]
fn many_compiled_shapes() {
    is_flat("CPU", 64, &[3_000, 10_000, 30_000], 16.0);
}
