//! Programs of many kinds, with sizes that divide nothing, windows of 2 to 7, batches of 1 to 33, all dtypes.

use kiln::{DType, Tensor};

/// A program, as a name and what builds it from arguments that are in memory.
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) build: Box<dyn Fn() -> Tensor>,
}

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];
const ALL: [DType; 13] = [
    DType::F32,
    DType::I8,
    DType::F64,
    DType::I16,
    DType::BF16,
    DType::U8,
    DType::I32,
    DType::F16,
    DType::U16,
    DType::I64,
    DType::U32,
    DType::U64,
    DType::Bool,
];

/// Numbers from a seed (Knuth's MMIX constants).
struct Dice(u64);

impl Dice {
    /// A number from `least` to `most`.
    fn between(&mut self, least: usize, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        least + (self.0 >> 33) as usize % (most - least + 1)
    }

    /// The same, and odd.
    fn odd(&mut self, least: usize, most: usize) -> usize {
        self.between(least, most) | 1
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.between(0, list.len() - 1)]
    }
}

/// Five of each kind.
pub(crate) fn all() -> Vec<Kind> {
    let makers: [fn(&mut Dice) -> Kind; 13] = [
        product,
        few_rows,
        batched,
        convolution,
        slope_of_weights,
        slope_of_input,
        sum,
        softmax,
        normalized,
        broadcast,
        transposed,
        pooled,
        attention,
    ];
    let kinds = makers.into_iter().zip(1..).flat_map(|(make, seed)| {
        let mut dice = Dice(seed * 1000);
        (0..5).map(move |_| make(&mut dice))
    });
    kinds.collect()
}

fn kind(name: String, build: impl Fn() -> Tensor + 'static) -> Kind {
    Kind { name, build: Box::new(build) }
}

/// An argument in memory.
fn given(shape: &[usize], dtype: DType) -> Tensor {
    let x = (Tensor::rand(shape) * 4.0).cast(dtype).copy();
    x.realize().expect("there is memory");
    x
}

fn product(dice: &mut Dice) -> Kind {
    let (m, k, n, dtype) = (dice.odd(40, 500), dice.odd(40, 700), dice.odd(40, 500), dice.of(&ALL));
    kind(format!("product {m}x{k}x{n} {dtype}"), move || {
        given(&[m, k], dtype).matmul(&given(&[k, n], dtype))
    })
}

fn few_rows(dice: &mut Dice) -> Kind {
    let (m, k, n, dtype) =
        (dice.between(1, 9), dice.odd(300, 2000), dice.odd(300, 2000), dice.of(&FLOATS));
    kind(format!("few rows {m}x{k}x{n} {dtype}, transposed"), move || {
        given(&[m, k], dtype).matmul(&given(&[n, k], dtype).transpose(0, 1))
    })
}

fn batched(dice: &mut Dice) -> Kind {
    let (b, m, k, n) = (dice.between(2, 33), dice.odd(5, 90), dice.odd(5, 130), dice.odd(5, 90));
    let dtype = dice.of(&FLOATS);
    kind(format!("{b} products {m}x{k}x{n} {dtype}"), move || {
        given(&[b, m, k], dtype).matmul(&given(&[b, k, n], dtype))
    })
}

/// Batch, channels in and out, side, window, stride.
fn window(dice: &mut Dice) -> [usize; 6] {
    let (channels, out) = (dice.of(&[1, 3, 16, 33, 64, 96]), dice.of(&[8, 17, 32, 64, 80]));
    let (side, size) = (dice.between(9, 40), dice.between(2, 7));
    let most = 150_000_000 / (channels * out * side * side * size * size).max(1);
    [dice.between(1, 33).min(most.max(1)), channels, out, side, size, dice.between(1, 2)]
}

fn convolution(dice: &mut Dice) -> Kind {
    let ([b, c, o, side, size, stride], dtype) = (window(dice), dice.of(&FLOATS));
    kind(format!("conv [{b},{c},{side},{side}] {o} of {size}/{stride} {dtype}"), move || {
        let (x, w) = (given(&[b, c, side, side], dtype), given(&[o, c, size, size], dtype));
        x.conv2d(&w, None, 1, stride, 1, size / 2)
    })
}

fn slopes(
    [b, c, o, side, size, stride]: [usize; 6],
    which: impl Fn(&Tensor, &Tensor) -> Tensor,
) -> Tensor {
    let x = given(&[b, c, side, side], DType::F32).set_requires_grad(true);
    let w = given(&[o, c, size, size], DType::F32).set_requires_grad(true);
    let y = x.conv2d(&w, None, 1, stride, 1, size / 2);
    let weights = given(y.shape(), DType::F32);
    let target = which(&x, &w);
    let slopes = (y * weights).sum(..).gradient([&target]).expect("it can be differentiated");
    slopes[0].clone()
}

fn slope_of_weights(dice: &mut Dice) -> Kind {
    let of = window(dice);
    let [b, c, o, side, size, stride] = of;
    kind(format!("slope of {o} of {size}/{stride}, [{b},{c},{side},{side}]"), move || {
        slopes(of, |_, w| w.clone())
    })
}

fn slope_of_input(dice: &mut Dice) -> Kind {
    let of = window(dice);
    let [b, c, o, side, size, stride] = of;
    kind(format!("slope of [{b},{c},{side},{side}], {o} of {size}/{stride}"), move || {
        slopes(of, |x, _| x.clone())
    })
}

fn sum(dice: &mut Dice) -> Kind {
    let shape = [dice.odd(3, 70), dice.odd(20, 300), dice.odd(20, 300)];
    let (axis, dtype) = (dice.between(0, 2), dice.of(&ALL));
    kind(format!("sum({axis}) of {shape:?} {dtype}"), move || given(&shape, dtype).sum(axis))
}

fn softmax(dice: &mut Dice) -> Kind {
    let (shape, dtype) = ([dice.odd(30, 900), dice.odd(10, 1500)], dice.of(&FLOATS));
    let axis = dice.between(0, 1);
    kind(format!("softmax({axis}) of {shape:?} {dtype}"), move || {
        given(&shape, dtype).softmax(axis)
    })
}

fn normalized(dice: &mut Dice) -> Kind {
    let (shape, dtype) = ([dice.odd(30, 900), dice.odd(10, 1500)], dice.of(&FLOATS));
    kind(format!("layernorm of {shape:?} {dtype}"), move || {
        given(&shape, dtype).layernorm(-1) * given(&[shape[1]], dtype)
    })
}

fn broadcast(dice: &mut Dice) -> Kind {
    let shape = [dice.between(1, 33), dice.odd(9, 120), dice.odd(9, 300)];
    let dtype = dice.of(&ALL[..12]);
    kind(format!("a*b + c over {shape:?} {dtype}"), move || {
        let [n, rows, columns] = shape;
        given(&shape, dtype) * given(&[n, 1, columns], dtype) + given(&[rows, 1], dtype)
    })
}

fn transposed(dice: &mut Dice) -> Kind {
    let shape = [dice.odd(3, 60), dice.odd(20, 200), dice.odd(20, 200)];
    let (order, dtype) = (dice.of(&[[2, 1, 0], [0, 2, 1], [1, 0, 2], [2, 0, 1]]), dice.of(&ALL));
    kind(format!("permute({order:?}) of {shape:?} {dtype}"), move || {
        given(&shape, dtype).permute(order).contiguous()
    })
}

fn pooled(dice: &mut Dice) -> Kind {
    let shape = [dice.between(1, 33), dice.odd(3, 40), dice.odd(20, 70), dice.odd(20, 70)];
    let (size, dtype) = (dice.between(2, 7), dice.of(&FLOATS));
    kind(format!("max_pool2d({size}) of {shape:?} {dtype}"), move || {
        given(&shape, dtype).max_pool2d(size)
    })
}

fn attention(dice: &mut Dice) -> Kind {
    let shape = [dice.between(1, 9), dice.odd(20, 200), dice.odd(16, 80)];
    kind(format!("attention of {shape:?}"), move || {
        let [q, k, v] = [(); 3].map(|()| given(&shape, DType::F32));
        q.scaled_dot_product_attention(&k, &v, None, false)
    })
}
