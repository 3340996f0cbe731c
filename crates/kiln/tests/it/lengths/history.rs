//! Real numbers, whose sums depend on their order: a program gives the same bits each time. Threads and failures on the way
//! change none of its numbers.

use super::loops::{small, sum, wide};
use super::{floats, numbers, with_lengths};
use crate::fuzz::Rng;
use kiln::testing::{INJECTED, fail_after, fault_after};
use kiln::{Tensor, s};
use std::process::Command;

/// Real numbers in memory.
fn reals(shape: &[usize]) -> Tensor {
    let mut rng = Rng(11);
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|_| rng.below(1_000_000) as f32 / 999_983.0).collect();
    let t = Tensor::from_vec(values, shape);
    t.realize().expect("computes");
    t
}

/// The bits of a program whose sums are long, one more for each length. `factor` makes it a program of its own.
fn program(n: usize, factor: f32) -> Vec<u32> {
    let x = reals(&[n, 40]);
    let rows = (x.exp() * factor).sum(0);
    let scores = x.matmul(&x.t()).softmax(-1).matmul(&x);
    let all = Tensor::cat([rows, scores.sum(0), x.sqrt().sum_keepdim(..).reshape([1])], 0);
    floats(&all).into_iter().map(f32::to_bits).collect()
}

const SEQUENCE: [usize; 14] = [20, 21, 22, 23, 37, 36, 20, 100, 21, 300, 36, 22, 5, 300];

fn in_sequence(factor: f32) -> Vec<Vec<u32>> {
    SEQUENCE.iter().map(|&n| program(n, factor)).collect()
}

#[test]
fn a_length_gives_the_bits_that_it_gave_before() {
    for (mode, factor) in [(0, 1.5), (1, 2.5), (2, 3.5)] {
        let [first, second] = with_lengths(mode, || [(); 2].map(|()| in_sequence(factor)));
        for (at, (a, b)) in first.iter().zip(&second).enumerate() {
            assert!(a == b, "length {} at {at}, LENGTHS={mode}", SEQUENCE[at]);
        }
        for (at, n) in SEQUENCE.iter().enumerate() {
            let before = SEQUENCE.iter().position(|m| m == n).expect("it is there");
            assert!(first[at] == first[before], "length {n} at {before} and {at}, LENGTHS={mode}");
        }
    }
}

#[test]
fn the_sixty_fifth_run_of_a_length_gives_the_bits_of_the_others() {
    for (mode, factor) in [(1, 4.5), (2, 5.5)] {
        with_lengths(mode, || {
            let wanted = [20, 21, 22, 23].map(|n| program(n, factor))[3].clone();
            for run in 0..70 {
                assert!(program(23, factor) == wanted, "run {run}, LENGTHS={mode}");
            }
            // one that is made for none of the lengths above
            let wanted = program(50, factor);
            for run in 0..70 {
                assert!(program(50, factor) == wanted, "run {run} of 50, LENGTHS={mode}");
            }
        });
    }
}

/// What a process of its own says about its numbers.
#[test]
#[ignore = "run by the test below, in a process of its own"]
#[allow(clippy::print_stderr, reason = "a child process tells its parent")]
fn sequence_of_a_process() {
    let mix = |all: u64, bits: u32| {
        all.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(bits)
    };
    let all: Vec<u64> =
        in_sequence(6.5).into_iter().map(|bits| bits.into_iter().fold(0, mix)).collect();
    eprintln!("BITS {all:?}");
}

fn said(cache: &str) -> String {
    let name = "lengths::history::sequence_of_a_process";
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--ignored", "--exact", name, "--nocapture"]).env("KILN_CACHE", cache);
    let output = command.output().expect("runs");
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.starts_with("BITS ")).map(str::to_owned);
    line.unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn processes_give_the_same_bits_whatever_a_disk_remembers() {
    let folder = std::env::temp_dir().join(format!("kiln-history-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let path = folder.to_str().expect("text");
    let [cold, warm, none] = [path, path, "none"].map(said);
    std::fs::remove_dir_all(&folder).expect("removes");
    assert_eq!(cold, warm);
    assert_eq!(cold, none);
}

/// A sum of products, and what plain loops give.
fn products(n: usize, m: usize) -> (Tensor, Vec<f64>) {
    let x = numbers(&[n, m]);
    let product = x.matmul(&numbers(&[m, 3])).sum(0);
    let column = |j| sum(n * m, |at| small(at) * small(3 * (at % m) + j));
    (product, (0..3).map(column).collect())
}

/// Computes at a length, where something may fail on the way.
fn computed_in_spite(n: usize, m: usize, rng: &mut Rng) {
    let (product, wanted) = products(n, m);
    match rng.below(4) {
        0 => drop(fail_after(Some(rng.below(5)))),
        1 => drop(fault_after(Some(0))),
        _ => {}
    }
    let result = product.to_vec::<f32>();
    fail_after(None);
    fault_after(None);
    match result {
        Ok(found) => assert!(found.iter().map(|x| f64::from(*x)).eq(wanted), "{n} and {m}"),
        Err(why) => assert!(why.to_string().contains(INJECTED), "{why}"),
    }
}

#[test]
fn threads_fail_at_several_lengths_and_the_others_are_right() {
    for mode in [1, 2] {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let rng = &mut Rng(thread + 1);
                    with_lengths(mode, || {
                        for _ in 0..40 {
                            let (n, m) = (2 + rng.below(60), 2 + rng.below(9));
                            computed_in_spite(n, m, rng);
                        }
                        for n in 2..40 {
                            let (product, wanted) = products(n, 5);
                            assert_eq!(wide(&product), wanted, "{n}, LENGTHS={mode}");
                        }
                    });
                });
            }
        });
    }
}

#[test]
fn threads_write_to_one_cache_at_lengths_of_their_own() {
    let cache = numbers(&[4, 80]);
    cache.realize().expect("computes");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let mine = cache.get(s![thread]);
            scope.spawn(move || {
                let mut values: Vec<f64> = (0..80).map(|i| small(80 * thread + i)).collect();
                for turn in 0..40 {
                    let n = 2 + (turn * 5 + thread * 11) % 37;
                    mine.set(s![n..2 * n], mine.get(s![..n]) + 1.0);
                    (0..n).for_each(|i| values[n + i] = values[i] + 1.0);
                    assert_eq!(wide(&mine.get(s![..2 * n])), values[..2 * n], "{thread}, {n}");
                }
            });
        }
    });
}

/// A compilation that fails is no reason to take a length for one that was seen.
#[test]
fn failures_before_a_launch_change_no_later_length() {
    for (mode, m) in [(1, 11), (2, 12)] {
        with_lengths(mode, || {
            for n in [20, 21, 22, 23, 24, 40, 7, 8] {
                for steps in 0..6 {
                    fail_after(Some(steps));
                    let failed = products(n, m).0.to_vec::<f32>();
                    if !fail_after(None) {
                        assert!(failed.expect_err("injected").to_string().contains(INJECTED));
                    }
                    let (product, wanted) = products(n, m);
                    assert_eq!(wide(&product), wanted, "{n} after {steps}, LENGTHS={mode}");
                }
            }
        });
    }
}
