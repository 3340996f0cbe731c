//! A small network of a diffusion model: residual blocks that know the time, attention among pixels, a smaller size and the
//! way back (Ho et al., 2020, arXiv:2006.11239).

use kiln::nn::{Conv2d, GroupNorm, Linear, Module};
use kiln::{Resize, Tensor};

/// From noisy images, `[batch, channels, height, width]`, and times, `[batch]`, to the noise.
///
/// ```
/// use kiln::Tensor;
/// let net = kiln_models::Denoiser::new(3, 8, 4);
/// let noise = net.forward(&Tensor::zeros([2, 3, 8, 8]), &Tensor::from([1.0f32, 500.0]));
/// assert_eq!(noise.shape(), [2, 3, 8, 8]);
/// ```
#[derive(Module)]
pub struct Denoiser {
    time1: Linear,
    time2: Linear,
    first: Conv2d,
    high: Block,
    down: Conv2d,
    low: Block,
    attention: Attention,
    middle: Block,
    up: Conv2d,
    joined: Block,
    norm: GroupNorm,
    last: Conv2d,
    width: usize,
}

/// Two convolutions, with the time added in between, around a residual.
#[derive(Module)]
struct Block {
    norm1: GroupNorm,
    conv1: Conv2d,
    time: Linear,
    norm2: GroupNorm,
    conv2: Conv2d,
    around: Option<Conv2d>,
}

/// Each pixel sees all.
#[derive(Module)]
struct Attention {
    norm: GroupNorm,
    qkv: Conv2d,
    out: Conv2d,
}

fn conv3(inputs: usize, outputs: usize) -> Conv2d {
    Conv2d::new(inputs, outputs, 3).padding(1)
}

impl Block {
    fn new(inputs: usize, outputs: usize, times: usize, groups: usize) -> Block {
        Block {
            norm1: GroupNorm::new(groups, inputs),
            conv1: conv3(inputs, outputs),
            time: Linear::new(times, outputs),
            norm2: GroupNorm::new(groups, outputs),
            conv2: conv3(outputs, outputs),
            around: (inputs != outputs).then(|| Conv2d::new(inputs, outputs, 1)),
        }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor, time: &Tensor) -> Tensor {
        let y = self.conv1.forward(&self.norm1.forward(x).silu());
        let y = y + self.time.forward(&time.silu()).unsqueeze(2).unsqueeze(3);
        let y = self.conv2.forward(&self.norm2.forward(&y).silu());
        match &self.around {
            Some(around) => y + around.forward(x),
            None => y + x,
        }
    }
}

impl Attention {
    fn new(channels: usize, groups: usize) -> Attention {
        Attention {
            norm: GroupNorm::new(groups, channels),
            qkv: Conv2d::new(channels, 3 * channels, 1),
            out: Conv2d::new(channels, channels, 1),
        }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let all = self.qkv.forward(&self.norm.forward(x)).flatten_from(2).transpose(1, 2);
        let parts = all.chunk(3, 2);
        let [q, k, v] = &parts[..] else { return all };
        let seen = q.scaled_dot_product_attention(k, v, None, false);
        x + self.out.forward(&seen.transpose(1, 2).reshape(x.shape()))
    }
}

/// Sines and cosines of times, `[batch, width]`.
#[track_caller]
fn waves(times: &Tensor, width: usize) -> Tensor {
    let half = width / 2;
    let step = -(10000f64.ln()) / half as f64;
    let wide = times.dtype().accumulator();
    let speeds = (Tensor::arange(0..half).cast(wide) * step).exp();
    let angles = times.cast(wide).unsqueeze(1) * speeds;
    Tensor::cat([angles.sin(), angles.cos()], 1).cast(times.dtype())
}

impl Denoiser {
    /// For images of so many channels, with `width` inside, whose norms have so many groups.
    ///
    /// ```
    /// let net = kiln_models::Denoiser::new(1, 16, 4);
    /// ```
    pub fn new(channels: usize, width: usize, groups: usize) -> Denoiser {
        let times = 4 * width;
        let block = |inputs, outputs| Block::new(inputs, outputs, times, groups);
        Denoiser {
            time1: Linear::new(width, times),
            time2: Linear::new(times, times),
            first: conv3(channels, width),
            high: block(width, width),
            down: conv3(width, width).stride(2),
            low: block(width, 2 * width),
            attention: Attention::new(2 * width, groups),
            middle: block(2 * width, 2 * width),
            up: conv3(2 * width, width),
            joined: block(2 * width, width),
            norm: GroupNorm::new(groups, width),
            last: conv3(width, channels),
            width,
        }
    }

    /// The noise that is in the images.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let net = kiln_models::Denoiser::new(1, 8, 4);
    /// let noise = net.forward(&Tensor::zeros([1, 1, 8, 8]), &Tensor::from([10.0f32]));
    /// ```
    ///
    /// # Errors
    /// Images of other channels or odd sides; other times than there are images.
    #[track_caller]
    pub fn forward(&self, images: &Tensor, times: &Tensor) -> Tensor {
        let time = self.time1.forward(&waves(times, self.width)).silu();
        let time = self.time2.forward(&time);
        let high = self.high.forward(&self.first.forward(images), &time);
        let low = self.low.forward(&self.down.forward(&high), &time);
        let low = self.middle.forward(&self.attention.forward(&low), &time);
        let up = self.up.forward(&low.interpolate(&Resize::by(2.0)));
        let x = self.joined.forward(&Tensor::cat([&up, &high], 1), &time);
        self.last.forward(&self.norm.forward(&x).silu())
    }
}
