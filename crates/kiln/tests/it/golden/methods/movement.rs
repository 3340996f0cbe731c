//! Views, and elements moved, repeated and put around a tensor.

use super::calls::{Args, calls};
use kiln::{PadMode, Tensor};

calls! { a;
    unary t fliplr flipud atleast_1d atleast_2d atleast_3d;
    binary;
    "view" [x] => x.view(a.ints(0));
    "flatten_axes" [x] => x.flatten_axes(a.int(0), a.int(1));
    "swapaxes" [x] => x.swapaxes(a.int(0), a.int(1));
    "movedim" [x] => x.movedim(a.ints(0), a.ints(1));
    "moveaxis" [x] => x.moveaxis(a.ints(0), a.ints(1));
    "rot90" [x] => x.rot90(a.int(0), a.int(1), a.int(2));
    "roll" [x] => x.roll(a.ints(0), a.ints(1));
    "roll_all" [x] => x.roll(a.int(0), ..);
    "split" [x] => x.split(a.int(0), a.int(1));
    "split_sizes" [x] => x.split(a.ints(0), a.int(1));
    "chunk" [x] => x.chunk(a.count(0), a.int(1));
    "tensor_split" [x] => x.tensor_split(a.count(0), a.int(1));
    "tensor_split_at" [x] => x.tensor_split_at(a.ints(0), a.int(1));
    "unbind" [x] => x.unbind(a.int(0));
    "narrow" [x] => x.narrow(a.int(0), a.int(1), a.count(2));
    "select" [x] => x.select(a.int(0), a.int(1));
    "pad" [x] => x.pad_with(pads(a), a.float(1));
    "pad_mode" [x] => x.pad_mode(pads(a), mode(a.text(1)));
    "pad_to" [x] => x.pad_to(a.ints(0));
    "shrink_to" [x] => x.shrink_to(a.ints(0));
    "repeat_interleave" [x] => x.repeat_interleave(a.count(0), a.int(1));
    "repeat_interleave_all" [x] => x.repeat_interleave(a.count(0), ..);
    "tile" [x] => x.tile(a.ints(0));
    "unfold" [x] => x.unfold(a.int(0), a.count(1), a.count(2));
    "pixel_shuffle" [x] => x.pixel_shuffle(a.count(0));
    "pixel_unshuffle" [x] => x.pixel_unshuffle(a.count(0));
    "channel_shuffle" [x] => x.channel_shuffle(a.count(0));
    "broadcast_to" [x] => x.broadcast_to(a.ints(0));
    "hstack" xs => Tensor::hstack(xs);
    "vstack" xs => Tensor::vstack(xs);
    "dstack" xs => Tensor::dstack(xs);
    "rearrange" [x] => rearranged(x, a);
}

fn pads(a: Args<'_>) -> Vec<(i64, i64)> {
    let end = |v: &serde_json::Value| v.as_i64().expect("an integer");
    a.list(0).iter().map(|pair| (end(&pair[0]), end(&pair[1]))).collect()
}

fn mode(name: &str) -> PadMode {
    match name {
        "reflect" => PadMode::Reflect,
        "replicate" => PadMode::Replicate,
        _ => PadMode::Circular,
    }
}

fn rearranged(x: &Tensor, a: Args<'_>) -> Tensor {
    let length = |v: &'static serde_json::Value| {
        (v[0].as_str().expect("a name"), v[1].as_u64().expect("a length") as usize)
    };
    let lengths: Vec<(&str, usize)> = a.list(1).iter().map(length).collect();
    x.rearrange(a.text(0), &lengths)
}
