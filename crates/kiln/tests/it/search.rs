//! Searches for options: what is found computes the same, is kept on disk, and is used only where it is asked for.

use kiln::{Device, Found, Tensor, measure, search};
use std::process::Command;

/// Small kernels of several kinds: a product, a softmax, sums along and across memory, a convolution, a write.
fn results(device: &str) -> Vec<Vec<i32>> {
    let on = Device::parse(device).expect("a device");
    let numbers = |shape: &[usize], step: i32| -> Tensor {
        let n: usize = shape.iter().product();
        let all: Vec<i32> = (0..n as i32).map(|i| i * step % 17 - 8).collect();
        Tensor::from_vec_on(all, shape, &on)
    };
    let (a, b) = (numbers(&[24, 19], 5), numbers(&[19, 33], 7));
    let (x, k) = (numbers(&[2, 3, 9, 8], 3), numbers(&[4, 3, 3, 3], 11));
    let product = a.matmul(&b);
    let written = numbers(&[40, 10], 13);
    written.set(kiln::s![4..20, 1..7], numbers(&[16, 6], 9));
    let all = [
        &product + 1,
        &a - a.max(1).reshape([24, 1]),
        a.sum(0),
        product.sum(..),
        x.conv2d(&k, None, 1, 1, 1, 1),
        written,
    ];
    all.iter().map(|t| t.to_vec::<i32>().expect("computes")).collect()
}

/// What the child does: searches, and compares what comes out with the interpreter.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn child() {
    let width = std::env::var("TEST_WIDTH").expect("set by the parent").parse().expect("a number");
    let (found, kernels) = search(width, || results("CPU"));
    assert_eq!(found, results("INTERP"));
    report(&kernels);
    let (again, none) = search(width, || results("CPU"));
    assert_eq!((again, none), (found, Vec::new()));
}

/// One line for the parent.
#[allow(clippy::print_stdout)]
fn report(kernels: &[Found]) {
    let noted = kernels.iter().filter(|f| f.is_noted).count();
    let tried = kernels.iter().map(|f| f.tried).sum::<usize>();
    println!("searched {} noted {noted} tried {tried}", kernels.len());
}

fn run(cache: &str, width: &str) -> String {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--ignored", "--exact", "search::child", "--nocapture"]);
    command.envs([("KILN_CACHE", cache), ("TEST_WIDTH", width), ("BEAM_SECONDS", "10")]);
    let output = command.output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    // with one processor the test's name is on the same line
    let line = text.lines().find_map(|line| line.find("searched").map(|at| &line[at..]));
    line.unwrap_or_else(|| panic!("no report in {text}")).to_owned()
}

#[test]
fn what_is_found_computes_the_same_and_is_noted_for_the_next_process() {
    let folder = std::env::temp_dir().join(format!("kiln-search-{}", std::process::id()));
    let cache = folder.to_str().expect("a path that is text");
    let (first, second) = (run(cache, "1"), run(cache, "1"));
    let other = run(cache, "0");
    std::fs::remove_dir_all(&folder).expect("ours");
    let numbers = |line: &str| -> Vec<usize> {
        line.split(' ').filter_map(|word| word.parse().ok()).collect()
    };
    let (first, second) = (numbers(&first), numbers(&second));
    // without a compiler there is nothing to search for, and on a slow machine no time for every kernel
    if first[0] > 0 {
        assert!(first[2] > first[0], "more than one list is tried: {first:?}");
        assert_eq!(first[1], 0, "nothing is known at first");
        assert_eq!(second[1], first[0], "what was found is known: {second:?}");
    }
    assert_eq!(other, "searched 0 noted 0 tried 0");
}

/// Whether a graph that was scheduled before a search panicked is still known after it.
fn is_known_after_a_panic(n: usize) -> bool {
    let f = || (Tensor::full([n], 1.5) * 4.0 + 0.75).to_vec::<f32>().expect("computes");
    let (inner, found) = search(0, || search(0, f));
    assert_eq!((inner.0, inner.1.len(), found.len()), (vec![6.75; n], 0, 0));
    let panicked = std::panic::catch_unwind(|| search(7, || panic!("on purpose")));
    assert!(panicked.is_err());
    measure(f).1.scheduled == 0
}

#[test]
fn a_search_ends_with_its_scope() {
    // the tests beside this one may push the schedule out, but not each time
    let known = (0..20).any(|n| is_known_after_a_panic(1009 + n));
    assert!(known, "the width is what it was, and so the schedule is known");
}
