//! Other lengths, elements at positions, and columns of windows.

use super::calls::{Args, calls};
use super::windows::{numbers, settings};
use kiln::{PadMode, Resize, Sampling};

calls! { a;
    unary;
    binary;
    "interpolate" [x] => x.interpolate(&resize(a));
    "grid_sample" [x, grid] => x.grid_sample(grid, sampling(a.text(0)), around(a.text(1)), a.is(2));
    "affine_grid" [x] => x.affine_grid(a.ints(0), a.is(1));
    "im2col" [x] => x.im2col(numbers(&a.0[0]), &settings(&a.0[1]));
    "fold" [x] => x.fold(a.ints(2), numbers(&a.0[0]), &settings(&a.0[1]));
    "local_response_norm" [x] => {
        x.local_response_norm(a.count(0), a.float(1), a.float(2), a.float(3))
    };
}

fn sampling(name: &str) -> Sampling {
    match name.trim_end_matches('+') {
        "nearest" => Sampling::Nearest,
        "nearest-exact" => Sampling::NearestExact,
        "linear" => Sampling::Linear,
        "cubic" => Sampling::Cubic,
        _ => Sampling::Area,
    }
}

fn around(name: &str) -> Option<PadMode> {
    match name {
        "zeros" => None,
        "reflect" => Some(PadMode::Reflect),
        _ => Some(PadMode::Replicate),
    }
}

fn resize(a: Args<'_>) -> Resize {
    let to = match (a.has(1), a.0[2].as_array()) {
        (true, _) => Resize::to(numbers(&a.0[1])),
        (false, None) => Resize::by(a.float(2)),
        (false, Some(each)) => {
            Resize::by_each(each.iter().map(|f| f.as_f64().expect("a factor")).collect::<Vec<_>>())
        }
    };
    to.sampling(sampling(a.text(0))).align_corners(a.text(0).ends_with('+'))
}
