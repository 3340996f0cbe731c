//! A decoder of the shape of GPT-2, narrower: twelve layers with a cache of keys and values, a token a step.

use kiln::nn::{LayerNorm, Linear, Module};
use kiln::{Error, Tensor, s};

const LAYERS: usize = 12;
const WIDTH: usize = 384;
const HEADS: usize = 6;
const TOKENS: usize = 5000;
const CONTEXT: usize = 64;

#[derive(Module)]
struct Layer {
    first: LayerNorm,
    queries: Linear,
    out: Linear,
    second: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

pub(crate) struct Decoder {
    layers: Vec<Layer>,
    /// By layer: keys and values of each head.
    caches: Vec<[Tensor; 2]>,
    embedding: Tensor,
    token: usize,
}

impl Decoder {
    pub(crate) fn new() -> Result<Decoder, Error> {
        let layer = |_| Layer {
            first: LayerNorm::new(WIDTH),
            queries: Linear::new(WIDTH, 3 * WIDTH),
            out: Linear::new(WIDTH, WIDTH),
            second: LayerNorm::new(WIDTH),
            wide: Linear::new(WIDTH, 4 * WIDTH),
            narrow: Linear::new(4 * WIDTH, WIDTH),
        };
        let layers: Vec<Layer> = (0..LAYERS).map(layer).collect();
        let cache = || Tensor::zeros([HEADS, CONTEXT, WIDTH / HEADS]);
        let caches = (0..LAYERS).map(|_| [cache(), cache()]).collect();
        let embedding = Tensor::randn([TOKENS, WIDTH]) * 0.02;
        kiln::realize(&layers.iter().flat_map(Module::parameters).collect::<Vec<_>>())?;
        embedding.realize()?;
        Ok(Decoder { layers, caches, embedding, token: 1 })
    }

    /// Computes the next token.
    pub(crate) fn step(&mut self, at: usize) -> Result<(), Error> {
        let mut x = self.embedding.get(s![self.token..self.token + 1]);
        for (layer, caches) in self.layers.iter().zip(&self.caches) {
            x = &x + attention(layer, caches, &layer.first.forward(&x), at);
            let wide = layer.wide.forward(&layer.second.forward(&x)).gelu();
            x = &x + layer.narrow.forward(&wide);
        }
        let logits = x.matmul(&self.embedding.permute([1, 0]));
        self.token = logits.argmax(-1).item::<i32>()? as usize;
        Ok(())
    }
}

fn attention(layer: &Layer, [keys, values]: &[Tensor; 2], x: &Tensor, at: usize) -> Tensor {
    let all = layer.queries.forward(x).reshape([3, HEADS, 1, WIDTH / HEADS]);
    keys.set(s![.., at..at + 1], all.get(s![1]));
    values.set(s![.., at..at + 1], all.get(s![2]));
    let (keys, values) = (keys.get(s![.., ..at + 1]), values.get(s![.., ..at + 1]));
    let scores = all.get(s![0]).matmul(&keys.permute([0, 2, 1])) * 0.125;
    layer.out.forward(&scores.softmax(-1).matmul(&values).reshape([1, WIDTH]))
}
