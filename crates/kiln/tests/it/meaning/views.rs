//! Views: what aliases a storage, what is a value of its own, and where a view can be written through.

use super::{floats, ints, iota, why};
use kiln::{DType, Tensor, s};

type Change = fn(&Tensor) -> Tensor;

/// Views of `[2, 3, 4]`.
const VIEWS: [(&str, Change); 20] = [
    ("reshape", |t| t.reshape([4, 6])),
    ("flatten", |t| t.flatten()),
    ("flatten_from", |t| t.flatten_from(1)),
    ("unflatten", |t| t.unflatten(2, [2, 2])),
    ("permute", |t| t.permute([2, 0, 1])),
    ("transpose", |t| t.transpose(0, 1)),
    ("flip", |t| t.flip([0, 2])),
    ("unsqueeze", |t| t.unsqueeze(1)),
    ("squeeze", |t| t.unsqueeze(1).squeeze(1)),
    ("position", |t| t.get(s![1])),
    ("positions", |t| t.get(s![1, -1, 2])),
    ("slice", |t| t.get(s![.., 1.., ..2])),
    ("step", |t| t.get(s![.., ..;2, ..])),
    ("negative step", |t| t.get(s![.., ..;-2, 3..0;-1])),
    ("new axis and ellipsis", |t| t.get(s![NewAxis, ..., 1])),
    ("detach", |t| t.detach()),
    ("bitcast", |t| t.bitcast(DType::U32)),
    ("bitcast to halves", |t| t.bitcast(DType::U16)),
    ("bitcast to pairs", |t| t.bitcast(DType::U64)),
    ("view of a view", |t| t.permute([1, 0, 2]).get(s![1..]).reshape([2, 8]).flip(1)),
];

/// What all bits of `t` are, whatever its dtype.
fn bits(t: &Tensor) -> Vec<u8> {
    t.reshape([-1]).bitcast(DType::U8).to_vec().unwrap()
}

fn cube() -> Tensor {
    iota(24).reshape([2, 3, 4])
}

#[test]
fn views_see_writes_to_the_base() {
    for (name, view) in VIEWS {
        let t = cube();
        let v = view(&t);
        t.assign(&cube().flip([0, 1, 2]));
        assert_eq!(bits(&v), bits(&view(&cube().flip([0, 1, 2]).copy())), "{name}");
    }
}

#[test]
fn the_base_sees_writes_to_views() {
    for (name, view) in VIEWS {
        let t = cube();
        let old = bits(&t);
        view(&t).assign(0);
        assert!(bits(&view(&t)).iter().all(|&b| b == 0), "{name}");
        // the elements that the view does not show are the old ones
        let mask = Tensor::full([2, 3, 4], 1.0);
        view(&mask).assign(0);
        let kept = bits(&mask).chunks(4).map(|b| b == 1f32.to_ne_bytes()).collect::<Vec<_>>();
        for ((new, old), kept) in bits(&t).chunks(4).zip(old.chunks(4)).zip(kept) {
            assert_eq!(new, if kept { old } else { &[0; 4] }, "{name}");
        }
    }
}

#[test]
fn what_is_no_view_is_a_value() {
    let values: [(&str, Change); 12] = [
        ("cast to what it is", |t| t.cast(DType::F32)),
        ("pad by nothing", |t| t.pad([(0, 0), (0, 0), (0, 0)])),
        ("cat of one", |t| Tensor::cat([t], 0)),
        ("contiguous", |t| t.contiguous()),
        ("copy", |t| t.copy()),
        ("repeat once", |t| t.repeat([1, 1, 1])),
        ("plus 0", |t| t + 0.0),
        ("times 1", |t| t * 1.0),
        ("sum over nothing", |t| t.sum([0usize; 0])),
        ("where all are taken", |t| t.ge(-1.0).where_(t, 0.0)),
        ("stack of one", |t| Tensor::stack([t], 0)),
        ("maximum of itself", |t| t.maximum(t)),
    ];
    for (name, value) in values {
        for computed_first in [false, true] {
            let t = cube();
            t.realize().unwrap();
            let v = value(&t);
            if computed_first {
                v.realize().unwrap();
            }
            t.assign(-1.0);
            assert_eq!(floats(&v), floats(&cube()), "{name}");
            v.assign(7.0);
            assert_eq!((floats(&t), floats(&v)), (vec![-1.0; 24], vec![7.0; 24]), "{name}");
        }
    }
}

#[test]
fn a_reshape_aliases_whatever_came_before_it() {
    let t = Tensor::arange(6).reshape([2, 3]).copy();
    let v = t.permute([1, 0]).reshape([6]);
    v.set(s![1], 30);
    v.reshape([3, 2]).set(s![2, 0], 20);
    assert_eq!(ints(&t), [0, 1, 20, 30, 4, 5]);
    t.set(s![0, 1], 10);
    assert_eq!(ints(&v), [0, 30, 10, 4, 20, 5]);
    let expanded = Tensor::from([1, 2]);
    let w = expanded.reshape([2, 1]).expand([2, 2]).reshape([4]);
    expanded.set(s![1], 9);
    assert_eq!(ints(&w), [1, 1, 9, 9]);
}

#[test]
fn parts_of_a_split_alias() {
    let t = iota(5);
    let parts = t.split([2, 3], 0);
    parts[1].set(s![0], 20.0);
    t.set(s![0], 10.0);
    assert_eq!((floats(&parts[0]), floats(&parts[1])), (vec![10.0, 1.0], vec![20.0, 3.0, 4.0]));
}

#[test]
fn moving_back_and_forth_does_not_grow() {
    let t = cube();
    t.realize().unwrap();
    let mut x = t.clone();
    for _ in 0..10_000 {
        x = x.permute([2, 0, 1]).flip(0).unsqueeze(1).squeeze(1).flip(0).permute([1, 2, 0]);
    }
    x.set(s![0, 0, 1], 50.0);
    assert_eq!(floats(&t)[..3], [0.0, 50.0, 2.0]);
}

#[test]
fn an_expanded_axis_is_no_target_but_one_row_of_it_is() {
    let t = Tensor::from([1, 2, 3]);
    let wide = t.expand([4, 3]);
    let error = why(wide.try_assign(0));
    assert!(error.contains("repeat") && error.contains("views.rs"), "{error}");
    assert!(wide.try_set(s![1..3], 0).is_err());
    assert!(wide.reshape([12]).try_set(s![..], 0).is_err());
    assert_eq!(ints(&t), [1, 2, 3]);
    wide.get(s![0]).assign(&Tensor::from([4, 5, 6]));
    wide.get(s![1..2, 2]).assign(9);
    assert_eq!(ints(&wide), [4, 5, 9].repeat(4));
}

/// `TestAssignToUnrealizedView.test_const`: the target is one number.
#[test]
fn an_expanded_scalar_is_no_target() {
    let c = Tensor::from(5).reshape([1, 1]).expand([2, 2]);
    assert!(c.get(s![.., 1..2]).try_assign(&Tensor::ones_with([2, 1], DType::I32)).is_err());
    assert_eq!(ints(&c), [5; 4]);
}

#[test]
fn fillers_are_values_and_not_expanded_scalars() {
    for t in [
        Tensor::zeros_with([2, 2], DType::I32),
        Tensor::ones_with([2, 2], DType::I32),
        Tensor::full([2, 2], 5),
        Tensor::full([2, 2], &Tensor::from(5)),
        Tensor::empty_with([2, 2], DType::I32),
        Tensor::from([[5, 5], [5, 5]]).zeros_like(),
    ] {
        let before = ints(&t)[0];
        t.get(s![.., 1..2]).assign(&Tensor::from([[7], [8]]));
        assert_eq!(ints(&t), [before, 7, before, 8]);
    }
}

#[test]
fn an_alias_keeps_what_it_shows_when_handles_go() {
    let v = {
        let t = iota(6);
        let v = t.get(s![2..4]);
        t.set(s![3], 30.0);
        v
    };
    assert_eq!(floats(&v), [2.0, 30.0]);
}
