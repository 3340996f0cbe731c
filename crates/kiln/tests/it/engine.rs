//! What the engine promises: how many kernels run, what is compiled, what is overwritten, and that none of it shows.

use kiln::{DType, Rng, Tensor, measure, realize, s};

fn iota(n: usize) -> Tensor {
    let t = Tensor::arange(n as i64).cast(DType::F32).contiguous();
    t.realize().expect("realizes");
    t
}

#[test]
fn one_kernel_for_a_sum_of_two() {
    let (out, n) = measure(|| (Tensor::from([1, 2, 3]) + 2).to_vec::<i32>());
    assert_eq!(out.expect("computes"), [3, 4, 5]);
    assert_eq!(n.kernels, 1);
}

#[test]
fn arange_is_one_kernel_and_no_buffer() {
    let (out, n) = measure(|| (Tensor::arange(10) * 3).to_vec::<i32>());
    assert_eq!(out.expect("computes")[9], 27);
    assert_eq!((n.kernels, n.bytes), (1, 40));
}

#[test]
fn a_matmul_is_one_kernel() {
    let (a, b) = (iota(256).reshape([16, 1, 16]), iota(256).reshape([16, 16]));
    let ((), n) = measure(|| {
        let c = (a * b.permute([1, 0]).reshape([1, 16, 16])).sum(2);
        assert_eq!(
            c.to_vec::<f32>().expect("computes")[0],
            (0..16).map(|k| (k * k * 16) as f32).sum::<f32>()
        );
    });
    assert_eq!(n.kernels, 1);
}

/// What a program holds is computed twice at most, random weights and tables of sines too. Masks are cheaper to compute
/// than to read, and of a large filler only parts may be wanted.
#[test]
fn a_loop_does_not_draw_its_weights_again() -> Result<(), kiln::Error> {
    let x = Rng::new(3).rand([4, 256]).realize()?.clone();
    let of = |read: &dyn Fn() -> Tensor| -> Result<Vec<u64>, kiln::Error> {
        let run = || -> Result<u64, kiln::Error> {
            let (done, counts) = measure(|| read().realize().map(drop));
            done.map(|()| counts.kernels)
        };
        (0..4).map(|_| run()).collect()
    };
    let (drawn, kept) = (Rng::new(5).randn([256, 256]), Rng::new(7).randn([256, 256]).contiguous());
    let table = (Tensor::arange(256 * 256) * 0.1).sin().reshape([256, 256]);
    for weight in [&drawn, &kept] {
        assert_eq!(of(&|| x.matmul(weight))?, [2, 2, 1, 1]);
    }
    // four rows compute it in their own kernel, until it is stored
    assert_eq!(of(&|| x.matmul(&table))?, [1, 2, 1, 1]);
    let mask = Tensor::ones([256, 256]).tril(0);
    assert_eq!(of(&|| x.matmul(&mask))?, [1; 4]);
    let endless = Rng::new(5).rand([1 << 30]);
    assert_eq!(of(&|| endless.get(s![7..9]) + 1.0)?, [1; 4]);
    Ok(())
}

/// The same random numbers on two devices are one node, and two values.
#[test]
fn fillers_are_kept_by_each_device() -> Result<(), kiln::Error> {
    let on = |device: &'static str| kiln::with([("DEV", device)], || Rng::new(6).randn([96, 96]));
    let (here, there) = (on("CPU")?, on("CPU:1")?);
    let (x, y) = (Rng::new(3).rand([4, 96]).to("CPU"), Rng::new(3).rand([4, 96]).to("CPU:1"));
    realize([&x, &y])?;
    for _ in 0..4 {
        let (a, b) = (x.matmul(&here), y.matmul(&there));
        assert_eq!(
            (a.device().to_string(), b.device().to_string()),
            ("CPU".into(), "CPU:1".into())
        );
        assert_eq!(a.to_vec::<f32>()?, b.to_vec::<f32>()?);
    }
    let moved = here.to("CPU:1");
    assert_eq!(y.matmul(&moved).to_vec::<f32>()?, x.matmul(&here).to_vec::<f32>()?);
    Ok(())
}

#[test]
fn what_is_computed_is_not_computed_again() {
    let y = iota(8) * 2.0;
    y.realize().expect("realizes");
    let (out, n) = measure(|| y.to_vec::<f32>());
    assert_eq!(out.expect("reads")[7], 14.0);
    assert_eq!(n.kernels, 0);
}

#[test]
fn overwriting_happens_in_place_when_nobody_looks() {
    let w = iota(1 << 16);
    let ((), n) = measure(|| {
        for _ in 0..10 {
            w.assign(&w * 0.5 + 1.0);
            w.realize().expect("realizes");
        }
    });
    assert_eq!(n.kernels, 10);
    assert!(n.peak_memory < 1 << 16, "{} bytes beyond the weights", n.peak_memory);
}

#[test]
fn an_old_value_that_is_held_stays() {
    let w = iota(64);
    let (old_sum, doubled) = (w.sum(..), &w * 2.0);
    w.assign(&w + 1.0);
    w.realize().expect("realizes");
    assert_eq!(w.to_vec::<f32>().expect("reads")[0], 1.0);
    assert_eq!(doubled.to_vec::<f32>().expect("reads")[63], 126.0);
    assert_eq!(old_sum.item::<f32>().expect("reads"), 63.0 * 32.0);
}

#[test]
fn an_overwrite_that_reads_elsewhere_takes_new_memory() {
    let w = iota(64);
    w.assign(&w + w.flip(0));
    w.realize().expect("realizes");
    assert_eq!(w.to_vec::<f32>().expect("reads"), [63.0; 64]);
}

#[test]
fn reads_of_one_realize_see_one_version() {
    let w = iota(64);
    let before = &w * 1.0;
    w.assign(&w + 1.0);
    let after = &w * 1.0;
    realize([&w, &before, &after]).expect("realizes");
    assert_eq!(before.to_vec::<f32>().expect("reads")[5], 5.0);
    assert_eq!(after.to_vec::<f32>().expect("reads")[5], 6.0);
}

#[test]
fn a_changing_constant_compiles_nothing_after_the_second() {
    let w = iota(32);
    let step = |lr: f32| {
        w.assign(&w - &w * lr);
        w.realize().expect("realizes");
    };
    step(0.1);
    step(0.05);
    let ((), n) = measure(|| (0..20).for_each(|i| step(0.01 * i as f32)));
    assert_eq!((n.scheduled, n.compiled + n.loaded, n.kernels), (0, 0, 20));
}

#[test]
fn reading_a_growing_value_is_linear() {
    let mut x = iota(16);
    let ((), n) = measure(|| {
        for _ in 0..200 {
            x = &x * 0.9 + 1.0;
            x.sum(..).item::<f32>().expect("reads");
        }
    });
    assert!(n.kernels <= 600, "{} kernels", n.kernels);
    assert!(n.scheduled <= 20, "{} schedules", n.scheduled);
}

#[test]
fn long_chains_are_cut_and_linear() {
    for dtype in [DType::F32, DType::I32] {
        let mut x = Tensor::zeros_with([4], dtype);
        for _ in 0..10_000 {
            x = &x + 1;
        }
        let out = x.cast(DType::F32).to_vec::<f32>().expect("computes");
        assert_eq!(out, [10_000.0; 4]);
    }
    let mut x = Tensor::ones([4]);
    for _ in 0..1000 {
        x = &x + &x;
    }
    assert_eq!(x.to_vec::<f32>().expect("computes"), [f32::INFINITY; 4]);
}

/// Outputs of one expression over numbers, or over rows, that differ: more of them are more launches, and nothing new to
/// compile.
#[test]
fn outputs_that_differ_in_a_number_share_their_kernels() {
    type Outputs = fn(&Tensor, usize) -> Tensor;
    let x = iota(16);
    let table = Tensor::arange(4096).reshape([1024, 4]).contiguous();
    kiln::realize([&x, &table]).expect("realizes");
    let kinds: [(&str, Outputs); 4] = [
        ("sums", |x, i| x + (i as f32 + 0.5)),
        ("reductions", |x, i| (x * (i as f32 + 0.5)).sum(..)),
        ("fills", |_, i| Tensor::full([4], i as f32)),
        ("powers", |x, i| (x * 0.01).pow(i as f32)),
    ];
    for (name, of) in kinds {
        let compiled = |n: usize| {
            let outputs: Vec<Tensor> = (0..n).map(|i| of(&x, i)).collect();
            let ((), counts) = measure(|| kiln::realize(&outputs).expect("realizes"));
            for i in [0, 1, 2, 3, 7, 100] {
                let alone = of(&x, i).to_vec::<f32>().expect("computes");
                assert_eq!(outputs[i].to_vec::<f32>().expect("computes"), alone, "{name} {i}");
            }
            counts.compiled + counts.loaded
        };
        let (few, many) = (compiled(200), compiled(900));
        assert!(few <= 6 && many <= 6, "{name}: {few} kernels for 200, {many} for 900");
    }
    let rows: Vec<Tensor> = (0..900).map(|i| table.get(s![i]) * 2).collect();
    let ((), counts) = measure(|| kiln::realize(&rows).expect("realizes"));
    assert!(counts.compiled + counts.loaded <= 6, "{} kernels", counts.compiled + counts.loaded);
    assert_eq!(rows[77].to_vec::<i32>().expect("computes"), [616, 618, 620, 622]);
}

#[test]
fn a_long_chain_drops() {
    let mut x = Tensor::ones([4]);
    for _ in 0..100_000 {
        x = &x + 1.0;
    }
    drop(x);
}

#[test]
fn threads_share_what_they_compute() {
    let w = iota(1024);
    let y = (&w * 2.0).sum(..);
    std::thread::scope(|scope| {
        for i in 0..8 {
            let (w, y) = (&w, &y);
            scope.spawn(move || {
                assert_eq!(y.item::<f32>().expect("reads"), 1023.0 * 1024.0);
                let own = (w + i as f32).to_vec::<f32>().expect("reads");
                assert_eq!(own[1], 1.0 + i as f32);
            });
        }
    });
}

#[test]
fn updates_from_many_threads_are_not_lost() {
    let w = Tensor::zeros([16]).contiguous();
    w.realize().expect("realizes");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| w.realize().map(drop).expect("realizes"));
        }
    });
    assert_eq!(w.to_vec::<f32>().expect("reads"), [0.0; 16]);
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    let t = Tensor::ones([1usize << 40, 1 << 10]).contiguous();
    let error = t.realize().map(drop).expect_err("does not fit").to_string();
    assert!(error.contains("bytes"), "{error}");
    assert_eq!(Tensor::ones([2]).to_vec::<f32>().expect("computes"), [1.0; 2]);
}

#[test]
fn empty_and_single_elements() {
    assert_eq!(Tensor::zeros([0, 3]).to_vec::<f32>().expect("computes"), [0.0f32; 0]);
    assert_eq!(Tensor::zeros([0, 3]).sum(0).to_vec::<f32>().expect("computes"), [0.0; 3]);
    assert_eq!((Tensor::ones([1, 1]) + 1.0).item::<f32>().expect("computes"), 2.0);
}

#[test]
fn slices_are_written() {
    let t = iota(6).reshape([2, 3]);
    t.set(s![0, ..], 9.0);
    t.set(s![.., 2], -1.0);
    assert_eq!(t.to_vec::<f32>().expect("computes"), [9.0, 9.0, -1.0, 3.0, 4.0, -1.0]);
}

#[test]
fn an_argument_that_is_simplified_away_is_not_passed() {
    let t = Tensor::from([1, 2]);
    assert_eq!(t.lt(&t).to_vec::<bool>().expect("computes"), [false, false]);
}

#[test]
fn a_sum_of_nothing_reads_nothing() {
    let t = Tensor::from_vec(Vec::<u8>::new(), [3, 0, 2]);
    assert!(!t.any(..).item::<bool>().expect("computes"));
    assert_eq!(
        t.cast(DType::F16).sum([0, 1]).cast(DType::F32).to_vec::<f32>().expect("computes"),
        [0.0; 2]
    );
    assert_eq!(t.prod(1).to_vec::<u32>().expect("computes"), [1; 6]);
}

#[test]
fn writing_part_of_nothing_keeps_the_shape() {
    let t = Tensor::zeros([4, 0]);
    t.set(s![0..2], 1.0);
    assert_eq!((t.copy().shape(), (&t + 1.0).shape()), (&[4, 0][..], &[4, 0][..]));
}

#[test]
fn zero_minus_zero_is_positive_on_every_device() {
    for device in ["CPU:LLVM", "CPU:C", "INTERP"] {
        for n in [1usize, 3, 16] {
            let x = Tensor::full_with([n], 0, (DType::I32, device)).contiguous();
            x.realize().expect("realizes");
            let y = (0.0 - x.cast(DType::F32)).to_vec::<f32>().expect("computes");
            assert!(y.iter().all(|y| y.to_bits() == 0), "{device} {y:?}");
        }
    }
}

#[test]
fn a_sum_over_an_axis_that_its_terms_do_not_vary_along() {
    let x = iota(12).reshape([2, 6]);
    let sums = x.sum(0).reshape([1, 6]).expand([19, 6]);
    assert_eq!(sums.sum(..).item::<f32>().expect("computes"), 19.0 * 66.0);
    let whole = (x.sum(0).cast(DType::I32) % 8).cast(DType::F32).reshape([1, 6]).expand([19, 6]);
    let each: i32 = (0..6).map(|i| (2 * i + 6) % 8).sum();
    assert_eq!(whole.sum(..).item::<f32>().expect("computes"), 19.0 * each as f32);
}

/// A node that was computed is found again by writing it down again, also after its memory went to somebody else.
#[test]
fn a_value_whose_memory_was_reused_is_computed_again() {
    let turned = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).permute([1, 0]);
    let negative = turned.neg();
    turned.to_vec::<f32>().unwrap();
    negative.to_vec::<f32>().unwrap();
    assert_eq!(turned.to_vec::<f32>().unwrap(), [1.0, 3.0, 2.0, 4.0]);
}

/// What the sum picks of a row may be a number rather than an element.
#[test]
fn a_number_is_picked_where_a_label_is_a_position() {
    let labels = Tensor::from([2i64, 3, 0, 9]);
    let chosen = labels.reshape([4, 1]).eq(Tensor::arange(5));
    assert_eq!(chosen.where_(5, 0).sum(1).to_vec::<i32>().unwrap(), [5, 5, 5, 0]);
}

/// The factor that all of a row shares is read once for it, outside of the sum, which padded rows skip.
#[test]
fn what_padded_rows_would_read_is_not_read() {
    for device in ["CPU", "INTERP"] {
        let (u, b) = (iota(3).to(device), iota(15).to(device).reshape([3, 5]));
        let padded = (u.reshape([3, 1]) * b).pad([(2, 2000), (0, 0)]);
        let sums = padded.sum(1).to_vec::<f32>().unwrap();
        assert_eq!(sums[..7], [0.0, 0.0, 0.0, 35.0, 120.0, 0.0, 0.0], "{device}");
        assert!(sums[7..].iter().all(|x| *x == 0.0), "{device}");
    }
}

#[test]
fn small_transposes_that_do_not_depend_on_each_other() {
    let (a, b) = (iota(64 * 64).reshape([64, 64]), (iota(64 * 64) + 1.0).reshape([64, 64]));
    let [x, y] = [&a, &b].map(|t| t.transpose(0, 1) * 2.0);
    realize([&x, &y]).unwrap();
    let (x, y) = (x.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap());
    assert!((0..64 * 64).all(|i| x[i] == 2.0 * (i % 64 * 64 + i / 64) as f32));
    assert!((0..64 * 64).all(|i| y[i] == x[i] + 2.0));
}

/// A gradient may want what a leaf remembers, and whoever writes it down again finds it.
#[test]
fn a_leaf_that_remembers_is_not_overwritten() {
    let w = iota(4).set_requires_grad(true);
    let x = &w * 2.0;
    x.realize().unwrap();
    let (y, u) = ((&x + 1.0).set_requires_grad(true), &x + 1.0);
    drop(x);
    y.realize().unwrap();
    assert_eq!((&w * 2.0).to_vec::<f32>().unwrap(), [0.0, 2.0, 4.0, 6.0]);
    assert_eq!(u.to_vec::<f32>().unwrap(), [1.0, 3.0, 5.0, 7.0]);
}

/// A product of matrices that wants a gradient, and something that was made of it before it was computed.
fn used_before() -> (Tensor, Tensor, Tensor) {
    let x = Tensor::from_vec((0..4096).map(|i| (i % 7) as f32).collect(), [64, 64]);
    x.set_requires_grad(true).realize().expect("is there");
    let h = x.matmul(&x);
    let y = &h + 1.0;
    (x, h, y)
}

#[test]
fn what_a_living_graph_needs_is_not_computed_again_when_its_tensor_is_gone() {
    let (_x, h, y) = used_before();
    let first = h.realize().expect("computes").to_vec::<f32>().expect("is there")[5];
    drop(h);
    let (y, n) = measure(|| y.to_vec::<f32>().expect("computes"));
    assert!(n.flops <= 2 * 4096, "{n:?}");
    assert_eq!(y[5], first + 1.0);
}

#[test]
fn a_gradient_goes_through_what_a_tensor_left_to_its_graph() {
    let (x, h, y) = used_before();
    h.realize().expect("computes");
    drop(h);
    y.sum(..).backward().expect("has a gradient");
    let read = |t: &Tensor| t.to_vec::<f32>().expect("computes");
    let (values, gradient) = (read(&x), read(&x.grad().expect("reached")));
    let row: f32 = (0..64).map(|j| values[64 * 5 + j]).sum();
    let column: f32 = (0..64).map(|i| values[64 * i + 3]).sum();
    assert_eq!(gradient[64 * 3 + 5], row + column);
}

#[test]
fn what_was_computed_outlives_its_tensors_and_its_input() {
    let w = Tensor::from([2.0f32]).set_requires_grad(true);
    let input = &w * 1.5;
    input.realize().expect("computes");
    // one value in two storages, of which one has given its gradient
    let (a, b) = (&input * 2.0, &input * 2.0);
    let after = &a + 1.0;
    a.backward().expect("has a gradient");
    input.set(s![0], 9.0);
    realize([&a, &b, &input]).expect("computes");
    drop((a, b));
    assert_eq!(after.to_vec::<f32>().expect("is there"), [7.0]);
}

/// The second is the node that the first is.
#[test]
fn values_that_are_equal_are_computed_once_and_given_to_each() {
    let x = Tensor::from([1, 2, 3]);
    let (a, again, other) = (&x * 2, &x * 2, &x * 5);
    kiln::realize([&a, &again, &other]).expect("computes");
    let values = [&a, &again, &other].map(|t| t.to_vec::<i32>().expect("computes"));
    assert_eq!(values, [[2, 4, 6], [2, 4, 6], [5, 10, 15]]);
}

/// A value that two steps pass is stored in the second, but not what is memory in another dtype.
#[test]
fn weights_of_16_bits_stay_what_they_are() {
    let memory = |shape: [usize; 2], dtype| {
        let n: usize = shape.iter().product();
        let x = (Tensor::arange(n) % 7).cast(dtype).reshape(shape).contiguous();
        x.realize().expect("computes").clone()
    };
    for dtype in [DType::BF16, DType::F16] {
        let weights = memory([384, 256], dtype);
        // the last state is read, each step's is kept
        let mut states = vec![memory([1, 384], dtype)];
        for step in 0..4 {
            let x = memory([1, 384], dtype) + step as f32;
            let y = x.matmul(&weights);
            let (_, n) = measure(|| y.cast(DType::F32).sum(..).item::<f32>().expect("computes"));
            assert_eq!(n.kernels, 2, "{dtype}, step {step}");
            assert!(n.peak_memory < 384 * 256, "{dtype}, step {step}: {} bytes", n.peak_memory);
            states.push(y);
        }
    }
}
