//! What is in memory already is read without a kernel, and copied when one of two who have it writes.

use super::files::File;
use super::{floats, ints, iota, item};
use kiln::optim::SGD;
use kiln::{Counts, DType, Tensor, measure, realize, s};

/// What computing `t` takes.
fn cost(t: &Tensor) -> Counts {
    measure(|| t.realize().map(drop).expect("computes")).1
}

/// 0.0, 1.0, .. in rows of 8.
fn table() -> Tensor {
    iota(48).reshape([6, 8])
}

#[test]
fn views_that_lie_in_one_piece_are_read_without_a_kernel() {
    let t = table();
    let range = |from: i32, to: i32| (from..to).map(|i| i as f32).collect::<Vec<f32>>();
    let views = [
        (t.reshape([2, 3, 8]), range(0, 48)),
        (t.get(s![2]), range(16, 24)),
        (t.get(s![-1]), range(40, 48)),
        (t.get(s![1..4]), range(8, 32)),
        (t.get(s![3, 2..5]), range(26, 29)),
        (t.get(s![1..4]).reshape([2, 12]).get(s![1]), range(20, 32)),
        (t.get(s![3..4]).permute([1, 0]), range(24, 32)),
        (t.get(s![4, 7]), range(39, 40)),
        (t.detach().get(s![5]).unsqueeze(0), range(40, 48)),
        (t.bitcast(DType::U8).get(s![2]).bitcast(DType::F32), range(16, 24)),
    ];
    for (i, (view, expected)) in views.iter().enumerate() {
        let (read, n) = measure(|| view.to_vec::<f32>());
        assert_eq!(&read.unwrap(), expected, "{i}");
        assert_eq!((n.kernels, n.scheduled, n.peak_memory), (0, 0, 0), "{i}");
    }
    let (read, n) = measure(|| t.get(s![2]).bitcast(DType::U16).get(s![2..4]).to_vec::<u16>());
    assert_eq!((read.unwrap(), n.kernels), (vec![0, 0x4188], 0));
    let (number, n) = measure(|| t.get(s![4, 7]).item::<f32>());
    assert_eq!((number.unwrap(), n.kernels), (39.0, 0));
}

#[test]
fn other_views_are_computed() {
    let t = table();
    let views = [
        (t.get(s![.., 1]), vec![1.0, 9.0, 17.0, 25.0, 33.0, 41.0]),
        (t.get(s![..2, 6..]), vec![6.0, 7.0, 14.0, 15.0]),
        (t.get(s![1]).flip(0), vec![15.0, 14.0, 13.0, 12.0, 11.0, 10.0, 9.0, 8.0]),
        (t.get(s![0, ..2]).expand([2, 2]), vec![0.0, 1.0, 0.0, 1.0]),
        (t.get(s![..2, ..2]).permute([1, 0]), vec![0.0, 8.0, 1.0, 9.0]),
    ];
    for (i, (view, expected)) in views.iter().enumerate() {
        let (read, n) = measure(|| view.to_vec::<f32>());
        assert_eq!((read.unwrap(), n.kernels), (expected.clone(), 1), "{i}");
    }
    assert!(t.get(s![2..2]).to_vec::<f32>().unwrap().is_empty());
    // whatever the bits are, a bool is 0 or 1
    let bools = Tensor::from([0u8, 2, 1]).bitcast(DType::Bool);
    assert_eq!(bools.to_vec::<bool>().unwrap(), [false, true, true]);
}

/// A way to look at all of a tensor.
type Look = fn(&Tensor) -> Tensor;

/// Ways to look at all of a table that lie as it does.
const LOOKS: [Look; 4] = [
    Tensor::clone,
    |t| t.reshape([4, 12]),
    |t| t.bitcast(DType::I32),
    |t| t.bitcast(DType::U16).reshape([96]).get(s![..]),
];

#[test]
fn a_copy_of_all_that_is_in_memory_takes_nothing() {
    for (i, look) in LOOKS.iter().enumerate() {
        let t = table();
        let before = look(&t).contiguous();
        for c in [before, look(&t).contiguous(), look(&t).copy()] {
            assert_eq!((cost(&c).kernels, cost(&c).bytes, cost(&c).peak_memory), (0, 0, 0), "{i}");
            assert_eq!(floats(&c), floats(&look(&t)), "{i}");
        }
    }
    // also where it came to memory after the line that copies it
    let t = table() + 1.0;
    let c = t.contiguous();
    t.realize().unwrap();
    assert_eq!((cost(&c).kernels, cost(&c).peak_memory), (0, 0));
    assert_eq!(floats(&c), floats(&t));
}

#[test]
fn a_copy_of_a_part_holds_the_part_alone() {
    let copies: [Look; 2] = [Tensor::contiguous, Tensor::copy];
    for copy in copies {
        let t = table();
        let c = copy(&t.get(s![1..3]));
        let n = cost(&c);
        assert_eq!((n.kernels, n.bytes, n.peak_memory), (0, 128, 64));
        // so who writes to the rest, or to the part, does so in place
        t.set(s![1], 5.0);
        assert_eq!(cost(&t).peak_memory, 0);
        assert_eq!((item(&c.get(s![0, 0])), item(&t.get(s![1, 0]))), (8.0, 5.0));
    }
}

/// A way to write to all or a part.
type Write = fn(&Tensor);

const WRITES: [Write; 4] = [
    |t| t.reshape([t.numel()]).set(s![3], 7),
    |t| drop(t.assign(9)),
    |t| {
        let mut t = t.clone();
        t += 1;
    },
    |t| drop(t.assign(&t.flip(0) + 1)),
];

#[test]
fn a_write_on_either_side_leaves_the_other_as_it_was() {
    for look in LOOKS {
        for write in WRITES {
            for (realized, writes_to_copy) in [(0, false), (0, true), (1, false), (1, true)] {
                let t = table();
                let shown = look(&t);
                let old: Vec<f32> = floats(&shown);
                let c = shown.contiguous();
                if realized == 1 {
                    c.realize().unwrap();
                }
                let (written, other) = if writes_to_copy { (&c, &shown) } else { (&shown, &c) };
                let expected = {
                    let alone = look(&table()) * 1;
                    write(&alone);
                    floats(&alone)
                };
                write(written);
                let n = cost(written);
                assert!(n.peak_memory <= 2 * 192, "{n:?}");
                assert_eq!((floats(written), floats(other)), (expected, old));
            }
        }
    }
}

/// Once they are apart, or one is gone, memory is overwritten again.
#[test]
fn who_is_alone_writes_in_place() {
    for look in LOOKS {
        let t = table();
        let c = look(&t).contiguous();
        c.realize().unwrap();
        WRITES[0](&c);
        assert_eq!(cost(&c).peak_memory, 192, "a copy");
        WRITES[0](&c);
        WRITES[0](&t);
        assert_eq!((cost(&c).peak_memory, cost(&t).peak_memory), (0, 0), "apart");
    }
    for look in LOOKS {
        let c = {
            let t = table();
            let c = look(&t).contiguous();
            c.realize().unwrap();
            c
        };
        WRITES[0](&c);
        assert_eq!(cost(&c).peak_memory, 0, "the original is gone");
        assert_eq!(floats(&c).len(), c.numel());
    }
}

#[test]
fn a_write_through_a_view_of_either_side() {
    let t = table();
    let c = t.reshape([48]).contiguous();
    c.realize().unwrap();
    let (row_of_t, row_of_c) = (t.get(s![1]), c.get(s![8..16]));
    row_of_t.assign(-1.0);
    assert_eq!((floats(&row_of_t)[0], floats(&row_of_c)[0]), (-1.0, 8.0));
    row_of_c.assign(&row_of_t * 2.0);
    assert_eq!((floats(&t.get(s![1]))[7], floats(&c)[15]), (-1.0, -2.0));
    assert_eq!((floats(&t.get(s![2]))[0], floats(&c)[16]), (16.0, 16.0));
}

#[test]
fn a_chain_of_copies_is_told_apart() {
    let a = table();
    let b = a.contiguous();
    let c = b.reshape([48]).contiguous();
    let d = c.get(s![..24]).contiguous();
    realize([&b, &c, &d]).unwrap();
    for (i, t) in [&c, &a, &d, &b].into_iter().enumerate() {
        t.reshape([t.numel()]).set(s![1], i as f32 + 100.0);
    }
    let second = [&a, &b, &c, &d].map(|t| floats(t)[1]);
    assert_eq!(second, [101.0, 103.0, 100.0, 102.0]);
    assert!([&a, &b, &c, &d].iter().all(|t| floats(t)[2] == 2.0));
}

#[test]
fn a_copy_of_a_file_is_no_part_of_it() {
    for realized in [false, true] {
        let file = File::new("sharing", &[1, 2, 3, 4]);
        let t = file.open(4, DType::U8);
        let (row, n) = measure(|| t.get(s![1..3]).to_vec::<u8>());
        assert_eq!((row.unwrap(), n.kernels), (vec![2, 3], 0));
        let (whole, part) = (t.reshape([2, 2]).contiguous(), t.get(s![2..]).contiguous());
        if realized {
            realize([&whole, &part]).unwrap();
        }
        t.set(s![2], 9u8);
        kiln::sync().unwrap();
        assert_eq!(file.bytes(), [1, 2, 9, 4]);
        assert_eq!((ints(&whole), ints(&part)), (vec![1, 2, 3, 4], vec![3, 4]));
        whole.set(s![0, 0], 7u8);
        part.assign(8u8);
        kiln::sync().unwrap();
        assert_eq!((ints(&whole), ints(&part)), (vec![7, 2, 3, 4], vec![8, 8]));
        assert_eq!((file.bytes(), ints(&t)), (vec![1, 2, 9, 4], vec![1, 2, 9, 4]));
    }
}

/// Others may write to a file as they like: what was computed from it stays.
#[test]
fn a_computed_copy_of_a_file_is_in_memory() {
    let file = File::new("others", &[1, 2, 3, 4]);
    let t = file.open(4, DType::U8);
    let (whole, part) = (t.contiguous(), t.get(s![1..]).contiguous());
    realize([&whole, &part]).unwrap();
    std::fs::write(&file.path, [5, 6, 7, 8]).unwrap();
    assert_eq!((ints(&whole), ints(&part)), (vec![1, 2, 3, 4], vec![2, 3, 4]));
}

#[test]
fn gradients_go_through_what_shares_memory() {
    for realized in [false, true] {
        let x = table().set_requires_grad(true);
        let (whole, part) = (x.reshape([48]).contiguous(), x.get(s![1]).contiguous());
        if realized {
            realize([&whole, &part]).unwrap();
            assert_eq!((floats(&whole)[9], floats(&part)[1]), (9.0, 9.0));
        }
        whole.set(s![0], 5.0); // takes the gradient of element 0
        let loss = (&whole * 2.0).sum(..) + (&part * 3.0).sum(..);
        assert_eq!(item(&loss), 2.0 * 1133.0 + 3.0 * 92.0);
        loss.backward().unwrap();
        let expected =
            |i: usize| if i == 0 { 0.0 } else { 2.0 } + if i / 8 == 1 { 3.0 } else { 0.0 };
        let expected: Vec<f32> = (0..48).map(expected).collect();
        assert_eq!(floats(&x.grad().unwrap()), expected, "{realized}");
    }
}

/// The weights of three steps, and what each step takes.
fn trained(a: Tensor, b: Tensor) -> Vec<(f32, f32, u64)> {
    let parameters = [a.set_requires_grad(true), b.set_requires_grad(true)];
    let opt = SGD::new(&parameters, 1.0);
    let step = |_| {
        opt.zero_grad();
        let [a, b] = &parameters;
        (a.sum(..) + b.sum(..) * 2.0).backward().unwrap();
        let ((), n) = measure(|| opt.step().unwrap());
        (floats(a)[5], floats(b)[5], n.peak_memory)
    };
    (0..3).map(step).collect()
}

#[test]
fn parameters_that_share_memory_are_updated_apart() {
    let a = table();
    let b = a.reshape([2, 24]).contiguous();
    let together = trained(a, b);
    assert_eq!(together, trained(table(), table().reshape([2, 24]) * 1.0));
    let weights: Vec<_> = together.iter().map(|&(a, b, _)| (a, b)).collect();
    assert_eq!(weights, [(4.0, 3.0), (3.0, 1.0), (2.0, -1.0)]);
}

/// Each thread takes what the tensor is at some moment and writes to that, while one writes to the tensor.
#[test]
fn threads_take_and_write_copies() {
    let t = Tensor::from(vec![0.0f32; 1 << 12]);
    let all_of = |values: &[f32], value: f32| values.iter().all(|&v| v == value);
    std::thread::scope(|scope| {
        let t = &t;
        scope.spawn(move || {
            for i in 1..100 {
                t.assign(i as f32);
                t.realize().unwrap();
            }
        });
        for _ in 0..3 {
            scope.spawn(move || {
                let mut latest = 0.0;
                for _ in 0..100 {
                    let c = t.reshape([64, 64]).contiguous();
                    c.realize().unwrap();
                    let row = floats(&c.get(s![5]));
                    assert!(all_of(&row, row[0]) && row[0] >= latest, "{row:?}");
                    latest = row[0];
                    c.set(s![5], -1.0);
                    let values = floats(&c);
                    let (own, others) =
                        (&values[320..384], [&values[..320], &values[384..]].concat());
                    assert!(all_of(own, -1.0) && all_of(&others, row[0]), "{values:?}");
                }
            });
        }
    });
    assert!(all_of(&floats(&t), 99.0));
}
