//! Failures on the way: before the first launch nothing changes; after it, what was being overwritten is an error.

use kiln::testing::{INJECTED, fail_after, fault_after, limit_options, limit_pending};
use kiln::{Tensor, measure, s};

fn numbers(n: usize) -> Tensor {
    let t = Tensor::from_vec((0..n).map(|i| i as f32).collect(), [n]);
    t.realize().expect("is there");
    t
}

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("computes")
}

/// The message of the failure that reading gives.
fn failure(t: &Tensor) -> String {
    t.to_vec::<f32>().expect_err("its value is lost").to_string()
}

#[test]
fn what_a_failing_kernel_was_overwriting_is_an_error() {
    let t = numbers(8);
    let alias = t.flip(0);
    t.set(s![2..4], 9.0);
    fault_after(Some(0));
    // the name of a general kernel depends on what other tests have run
    let error = kiln::with([("LENGTHS", 0)], || t.realize().map(drop)).expect("a setting");
    let error = error.expect_err("injected").to_string();
    assert!(error.contains(INJECTED) && error.contains("realize: E_2 on "), "{error}");
    for _ in 0..2 {
        assert!(failure(&t).contains(INJECTED));
        assert!(failure(&alias).contains("E_2"), "{}", failure(&alias));
        assert!(failure(&(&t + 1.0)).contains(INJECTED));
    }
    t.set(s![0], 1.0);
    assert!(failure(&t).contains(INJECTED), "a part of it does not end it");
    t.assign(3.0);
    assert_eq!(floats(&alias), [3.0; 8]);
    t.set(s![0], 1.0);
    assert_eq!(floats(&t), [1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]);
}

#[test]
fn an_old_value_that_is_held_survives_and_the_call_may_be_repeated() {
    let t = numbers(4);
    let before = &t * 2.0;
    t.set(s![0], 9.0);
    fault_after(Some(0));
    assert!(t.realize().is_err());
    assert_eq!(floats(&before), [0.0, 2.0, 4.0, 6.0]);
    assert_eq!(floats(&t), [9.0, 1.0, 2.0, 3.0]);
}

#[test]
fn what_no_kernel_has_touched_is_given_back() {
    let (a, b) = (numbers(4), numbers(7));
    a.set(s![0], 9.0);
    b.set(s![1], 9.0);
    fault_after(Some(0));
    assert!(kiln::realize([&a, &b]).is_err());
    let reads = [a.to_vec::<f32>(), b.to_vec::<f32>()];
    let lost = reads.iter().filter(|r| r.is_err()).count();
    assert_eq!(lost, 1, "{reads:?}");
    for read in reads.into_iter().flatten() {
        let right: [&[f32]; 2] = [&[9.0, 1.0, 2.0, 3.0], &[0.0, 9.0, 2.0, 3.0, 4.0, 5.0, 6.0]];
        assert!(right.contains(&read.as_slice()), "{read:?}");
    }
}

#[test]
fn a_value_that_stood_for_lost_memory_is_computed_again() {
    let x = numbers(4);
    let (sum, twice) = (&x + 1.0, &x + 1.0);
    let more = &sum * 3.0;
    sum.realize().expect("computes");
    sum.set(s![0], 50.0);
    drop(twice);
    fault_after(Some(0));
    assert!(kiln::realize([&sum, &more]).is_err());
    assert_eq!(floats(&(&x + 1.0)), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(floats(&more), [3.0, 6.0, 9.0, 12.0]);
}

#[test]
fn threads_that_wait_for_one_update_get_its_error() {
    for _ in 0..20 {
        let t = numbers(1 << 12);
        t.set(s![..;2], 9.0);
        let start = std::sync::Barrier::new(2);
        let read = || {
            start.wait();
            fault_after(Some(0));
            let result = t.realize().map(drop);
            fault_after(None);
            result
        };
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(read);
            [read(), other.join().expect("no panic")]
        });
        for result in both {
            assert!(result.expect_err("lost").to_string().contains(INJECTED));
        }
    }
}

#[test]
fn before_the_first_launch_nothing_changes() {
    for steps in 0.. {
        let t = numbers(6 + steps);
        let sum = t.sum(..);
        t.set(s![1..3], 9.0);
        fail_after(Some(steps));
        let first = alone(|| kiln::realize([&t, &sum]));
        let reached = !fail_after(None);
        assert_eq!(first.is_err(), reached);
        assert_eq!(floats(&t)[..4], [0.0, 9.0, 9.0, 3.0]);
        let n = (6 + steps) as f32;
        assert_eq!(sum.item::<f32>().expect("computes"), n * (n - 1.0) / 2.0);
        if !reached {
            assert!(steps > 3, "scheduling, compiling and allocating are steps");
            return;
        }
    }
}

/// Each length gets a schedule of its own.
fn alone<R>(f: impl FnOnce() -> R) -> R {
    kiln::with([("LENGTHS", 0)], f).expect("a setting")
}

#[test]
fn a_failure_before_the_launches_names_the_kernel() {
    let messages = (0..).map_while(|steps| {
        // other lengths, so that nothing is known
        let x = numbers(40 + steps);
        let triple = (&x * 3.0).contiguous();
        let sum = triple.sum(..);
        fail_after(Some(steps));
        let result = alone(|| kiln::realize([&triple, &sum]));
        let reached = !fail_after(None);
        reached.then(|| result.expect_err("injected").to_string())
    });
    let messages: Vec<String> = messages.collect();
    let kernel = |m: &String| m.split_once(" on ").map(|(kernel, _)| kernel.to_owned());
    let mut kernels: Vec<String> = messages.iter().filter_map(kernel).collect();
    kernels.dedup();
    assert!(kernels.len() >= 2, "each by its name: {messages:?}");
}

#[test]
fn a_long_chain_of_writes_is_computed_on_the_way() {
    limit_pending(Some(100));
    let t = numbers(64);
    let (kernels, counts) = measure(|| (0..1000).for_each(|i| t.set(s![i % 48], i as f32)));
    assert_eq!((kernels, counts.kernels), ((), 9));
    assert!(counts.peak_memory <= 64 << 10, "{counts:?}");
    let last = |i: usize| (0..1000).rev().find(|k| k % 48 == i).expect("written") as f32;
    assert_eq!(floats(&t)[..48], (0..48).map(last).collect::<Vec<_>>());
    limit_pending(None);
}

#[test]
fn a_chain_that_cannot_be_computed_says_so_at_the_write() {
    limit_pending(Some(2));
    let t = numbers(4);
    (0..2).for_each(|i| t.set(s![i], 7.0));
    fail_after(Some(0));
    let error = t.try_set(s![2], 7.0).expect_err("injected").to_string();
    assert!(error.starts_with("set: ") && error.contains("faults.rs"), "{error}");
    assert_eq!(floats(&t), [7.0, 7.0, 2.0, 3.0]);
    (0..2).for_each(|i| t.set(s![i], 8.0));
    fail_after(Some(0));
    t.set(s![2], 8.0);
    assert!(t.error().is_some_and(|e| e.to_string().contains(INJECTED)));
    t.clear_error();
    assert_eq!(floats(&t), [8.0, 8.0, 2.0, 3.0]);
    let mut all = t.clone();
    (0..9).for_each(|_| all += 1.0);
    assert_eq!(floats(&t), [17.0, 17.0, 11.0, 12.0]);
    limit_pending(None);
}

/// Whole numbers, and what their product with themselves is.
fn square(n: usize) -> (Tensor, Vec<f32>) {
    let x: Vec<f32> = (0..n * n).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
    let at = |i: usize| (0..n).map(|k| x[i / n * n + k] * x[k * n + i % n]).sum();
    let product = (0..n * n).map(at).collect();
    (Tensor::from_vec(x, [n, n]), product)
}

#[test]
fn a_kernel_that_cannot_be_lowered_is_compiled_with_fewer_options() {
    let fallen = || {
        let said = kiln_runtime::warnings::said();
        said.iter().filter(|text| text.contains("pass `lower` failed on kernel ")).count()
    };
    // kernels are remembered: each case has a size of its own, which gets a kernel of its own
    let case = |(case, most): (usize, usize)| {
        let (x, product) = square(50 + case);
        x.realize().expect("is there");
        let before = fallen();
        limit_options(Some((most, true)));
        let computed = x.matmul(&x).to_vec::<f32>();
        let sums = x.softmax(-1).sum(-1).to_vec::<f32>();
        limit_options(None);
        assert!(computed.expect("falls back") == product, "at most {most} options");
        assert!(sums.expect("falls back").iter().all(|sum| (sum - 1.0).abs() < 1e-5));
        assert!(fallen() > before, "at most {most} options");
    };
    let cases = || [0, 1, 2, 3].into_iter().enumerate().for_each(case);
    kiln::with([("LENGTHS", 0)], cases).expect("settings");
}

#[test]
fn the_error_of_a_pass_is_short_and_its_graph_is_in_a_file() {
    let (x, product) = square(48);
    let steps = x.matmul(&x);
    let y = (0..40).fold(steps.clone(), |y, i| (y * 0.5 + i as f32).maximum(&steps));
    limit_options(Some((0, false)));
    let error = y.to_vec::<f32>().expect_err("cannot be lowered").to_string();
    limit_options(None);
    assert!(error.contains("bug in kiln: pass `lower`: a test made this fail"), "{error}");
    assert!(error.lines().count() <= 40, "{} lines", error.lines().count());
    let file = error.rsplit_once("lines, in ").expect("is cut").1;
    let file = file.split_whitespace().next().expect("a name");
    let whole = std::fs::read_to_string(file).expect("is there");
    let (_, graph) = whole.split_once("on the graph\n").expect("a graph");
    kiln_ir::text::parse(graph).expect("parses");
    std::fs::remove_file(file).expect("is there");
    assert!(x.matmul(&x).to_vec::<f32>().expect("nothing is in the way") == product);
}
