//! Convolutions, pooling, and what else slides windows along axes.

use super::calls::{Args, calls};
use kiln::{ConvOptions, PadMode, Padding, PoolOptions};
use serde_json::Value;

calls! { a;
    unary;
    binary;
    "conv1d" [x, w, b @ ..] => x.conv1d_with(w, b.first(), &conv(a));
    "conv2d" [x, w, b @ ..] => x.conv2d_with(w, b.first(), &conv(a));
    "conv3d" [x, w, b @ ..] => x.conv3d_with(w, b.first(), &conv(a));
    "conv_transpose1d" [x, w, b @ ..] => x.conv_transpose1d(w, b.first(), &conv(a));
    "conv_transpose2d" [x, w, b @ ..] => x.conv_transpose2d(w, b.first(), &conv(a));
    "conv_transpose3d" [x, w, b @ ..] => x.conv_transpose3d(w, b.first(), &conv(a));
    "max_pool1d" [x] => x.max_pool1d(pool(a));
    "max_pool2d" [x] => x.max_pool2d(pool(a));
    "max_pool3d" [x] => x.max_pool3d(pool(a));
    "avg_pool1d" [x] => x.avg_pool1d(pool(a));
    "avg_pool2d" [x] => x.avg_pool2d(pool(a));
    "avg_pool3d" [x] => x.avg_pool3d(pool(a));
    "lp_pool1d" [x] => x.lp_pool1d(a.float(2), pool(a));
    "lp_pool2d" [x] => x.lp_pool2d(a.float(2), pool(a));
    "lp_pool3d" [x] => x.lp_pool3d(a.float(2), pool(a));
    "max_pool1d_with_indices" [x] => x.max_pool1d_with_indices(pool(a));
    "max_pool2d_with_indices" [x] => x.max_pool2d_with_indices(pool(a));
    "max_pool3d_with_indices" [x] => x.max_pool3d_with_indices(pool(a));
    "max_unpool1d" [x, at] => x.max_unpool1d(at, pool(a));
    "max_unpool2d" [x, at] => x.max_unpool2d(at, pool(a));
    "max_unpool3d" [x, at] => x.max_unpool3d(at, pool(a));
    "max_unpool1d_to" [x, at] => x.max_unpool1d_to(at, a.ints(0));
    "max_unpool2d_to" [x, at] => x.max_unpool2d_to(at, a.ints(0));
    "max_unpool3d_to" [x, at] => x.max_unpool3d_to(at, a.ints(0));
    "adaptive_avg_pool1d" [x] => x.adaptive_avg_pool1d(numbers(&a.0[0]));
    "adaptive_avg_pool2d" [x] => x.adaptive_avg_pool2d(numbers(&a.0[0]));
    "adaptive_avg_pool3d" [x] => x.adaptive_avg_pool3d(numbers(&a.0[0]));
    "adaptive_max_pool1d" [x] => x.adaptive_max_pool1d(numbers(&a.0[0]));
    "adaptive_max_pool2d" [x] => x.adaptive_max_pool2d(numbers(&a.0[0]));
    "adaptive_max_pool3d" [x] => x.adaptive_max_pool3d(numbers(&a.0[0]));
    "adaptive_max_pool1d_with_indices" [x] => x.adaptive_max_pool1d_with_indices(numbers(&a.0[0]));
    "adaptive_max_pool2d_with_indices" [x] => x.adaptive_max_pool2d_with_indices(numbers(&a.0[0]));
    "adaptive_max_pool3d_with_indices" [x] => x.adaptive_max_pool3d_with_indices(numbers(&a.0[0]));
}

/// One number or several.
pub(super) fn numbers(value: &Value) -> Vec<i64> {
    match value.as_array() {
        Some(list) => list.iter().map(|v| v.as_i64().expect("an integer")).collect(),
        None => vec![value.as_i64().expect("an integer")],
    }
}

fn padding(value: &Value) -> Padding {
    match value.as_array() {
        None if value == "same" => Padding::Same,
        Some(list) if list[0].is_array() => {
            let pair = |v: &Value| (v[0].as_i64().expect("one"), v[1].as_i64().expect("one"));
            Padding::Sides(list.iter().map(pair).collect())
        }
        _ => Padding::Explicit(numbers(value)),
    }
}

fn conv(a: Args<'_>) -> ConvOptions {
    settings(&a.0[0])
}

pub(super) fn settings(value: &Value) -> ConvOptions {
    let mut options = ConvOptions::new();
    for (name, value) in value.as_object().expect("settings") {
        options = match name.as_str() {
            "stride" => options.stride(numbers(value)),
            "dilation" => options.dilation(numbers(value)),
            "output_padding" => options.output_padding(numbers(value)),
            "groups" => options.groups(value.as_u64().expect("a count") as usize),
            "padding" => options.padding(padding(value)),
            _ => options.padding_mode(match value.as_str() {
                Some("reflect") => PadMode::Reflect,
                Some("replicate") => PadMode::Replicate,
                _ => PadMode::Circular,
            }),
        };
    }
    options
}

fn pool(a: Args<'_>) -> PoolOptions {
    let mut options = PoolOptions::new(numbers(&a.0[0]));
    for (name, value) in a.0[1].as_object().expect("settings") {
        options = match name.as_str() {
            "stride" => options.stride(numbers(value)),
            "dilation" => options.dilation(numbers(value)),
            "padding" => options.padding(padding(value)),
            "ceil" => options.ceil_mode(true),
            "excluded" => options.count_include_pad(false),
            _ => options.divisor(value.as_u64().expect("a count") as usize),
        };
    }
    options
}
