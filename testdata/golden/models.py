"""Writes models.json: what PyTorch computes with the networks of crates/kiln-models, in f64, from weights and inputs that
both make from names.

    pip install -r resnet-requirements.txt && python models.py

For each network: outputs at batches of 1, 2 and 8, as three numbers a sample (the norm, the product with the formula's
numbers, the first element), and of the whole batch for a network whose samples are not apart; and one training step: the
loss, and for each parameter what SGD with a rate of 0.1 adds to it, as three numbers. `off` says how far PyTorch's own f32
and bf16 are off: outputs and changes by their norms, the loss by itself.
"""

import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SMALL, REAL = "small", "real"
RATE = 0.1


def whole(name, n):
    """Whole numbers below 2^24 that look random and follow from a name."""
    seed = 0x811C9DC5
    for byte in name.encode():
        seed = (seed ^ byte) * 0x01000193 & 0xFFFFFFFF
    x = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(seed)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return (x ^ (x >> np.uint32(16))) >> np.uint32(8)


def numbers(name, n):
    return whole(name, n).astype(np.float64) / (1 << 23) - 1


def floats(name, shape, scale=1.0):
    values = scale * numbers(name, math.prod(shape))
    return torch.tensor(values.astype(np.float32).reshape(shape))


def integers(name, shape, below):
    values = whole(name, math.prod(shape)).astype(np.uint64) * np.uint64(below) >> np.uint64(24)
    return torch.tensor(values.astype(np.int64).reshape(shape))


def filled(name, shape):
    if len(shape) > 1:
        center, scale = 0.0, (3.0 / math.prod(shape[1:])) ** 0.5
    elif name.endswith(("weight", "var")):
        center, scale = 1.0, 0.25
    else:
        center, scale = 0.0, 0.1
    values = center + scale * numbers(name, math.prod(shape))
    return torch.tensor(values.astype(np.float32).reshape(shape))


def fill(model):
    state = model.state_dict()
    model.load_state_dict({k: filled(k, v.shape) if v.is_floating_point() else v for k, v in state.items()})
    return model


def blocks(layers):
    return nn.ModuleList(layers)


def split(x, heads):
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.around = None
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.around is None else self.around(x)))


class ResNet(nn.Module):
    def __init__(self, width, counts, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        inputs, layers = width, []
        for i, count in enumerate(counts):
            layer = []
            for block in range(count):
                layer.append(Bottleneck(inputs, width << i, 2 if i > 0 and block == 0 else 1))
                inputs = 4 * (width << i)
            layers.append(nn.ModuleList(layer))
        self.layers, self.fc = blocks(layers), nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for layer in self.layers:
            for block in layer:
                x = block(x)
        return self.fc(x.mean((2, 3)))


class Convolution(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride=1, padding=0, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.norm(self.conv(x))


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, widening, stride):
        super().__init__()
        inner = inputs * widening
        self.widen = Convolution(inputs, inner, 1) if widening != 1 else None
        self.depthwise = Convolution(inner, inner, 3, stride, 1, inner)
        self.narrow = Convolution(inner, outputs, 1)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x):
        y = x if self.widen is None else F.relu6(self.widen(x))
        y = self.narrow(F.relu6(self.depthwise(y)))
        return y + x if self.is_residual else y


GROUPS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


class MobileNet(nn.Module):
    def __init__(self, first, groups, last, classes):
        super().__init__()
        self.first = Convolution(3, first, 3, 2, 1)
        inputs, layers = first, []
        for widening, outputs, count, stride in groups:
            for block in range(count):
                layers.append(Inverted(inputs, outputs, widening, stride if block == 0 else 1))
                inputs = outputs
        self.blocks, self.last, self.fc = blocks(layers), Convolution(inputs, last, 1), nn.Linear(last, classes)

    def forward(self, x):
        x = F.relu6(self.first(x))
        for block in self.blocks:
            x = block(x)
        return self.fc(F.relu6(self.last(x)).mean((2, 3)))


class Double(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class Up(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, channels // 2, 2, 2)
        self.convs = Double(channels, channels // 2)

    def forward(self, x, across):
        return self.convs(torch.cat([across, self.up(x)], 1))


class UNet(nn.Module):
    def __init__(self, inputs, outputs, width, depth):
        super().__init__()
        self.first = Double(inputs, width)
        self.down = blocks([Double(width << i, width << (i + 1)) for i in range(depth)])
        self.up = blocks([Up(width << (i + 1)) for i in reversed(range(depth))])
        self.last = nn.Conv2d(width, outputs, 1)

    def forward(self, x):
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(F.max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for up in self.up:
            x = up(x, levels.pop())
        return self.last(x)


class ViTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, side, patch, width, layers, heads, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        self.register_parameter("class", nn.Parameter(torch.zeros(1, 1, width)))
        self.blocks = blocks([ViTBlock(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([getattr(self, "class").expand(x.shape[0], -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


class Projection(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.attn = nn.ModuleDict({"c_attn": Projection(width, 3 * width), "c_proj": Projection(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": Projection(width, 4 * width), "c_proj": Projection(4 * width, width)})

    def forward(self, x):
        q, k, v = (split(y, self.heads) for y in self.attn["c_attn"](self.ln_1(x)).chunk(3, -1))
        x = x + self.attn["c_proj"](joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, positions, width, layers, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.h, self.ln_f = blocks([Gpt2Block(width, heads) for _ in range(layers)]), nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def wide(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


class LlamaLayer(nn.Module):
    def __init__(self, width, inner, heads, groups):
        super().__init__()
        narrow = width // heads * groups
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(width, 1e-6), nn.RMSNorm(width, 1e-6)
        self.self_attn = nn.ModuleDict({
            "q_proj": linear(width, width), "k_proj": linear(width, narrow),
            "v_proj": linear(width, narrow), "o_proj": linear(width, width),
        })
        self.mlp = nn.ModuleDict({
            "gate_proj": linear(width, inner), "up_proj": linear(width, inner), "down_proj": linear(inner, width),
        })
        self.heads, self.groups = heads, groups

    def forward(self, x, cos, sin):
        def turned(x):
            half = x.shape[-1] // 2
            return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

        y, a = self.input_layernorm(x), self.self_attn
        q, k = turned(split(a["q_proj"](y), self.heads)), turned(split(a["k_proj"](y), self.groups))
        v = split(a["v_proj"](y), self.groups)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        x = x + a["o_proj"](joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        y, m = self.post_attention_layernorm(x), self.mlp
        return x + m["down_proj"](F.silu(m["gate_proj"](y)) * m["up_proj"](y))


class Llama(nn.Module):
    def __init__(self, vocabulary, width, inner, layers, heads, groups):
        super().__init__()
        self.embed_tokens, self.norm = nn.Embedding(vocabulary, width), nn.RMSNorm(width, 1e-6)
        self.layers = blocks([LlamaLayer(width, inner, heads, groups) for _ in range(layers)])
        self.lm_head, self.width = nn.Linear(width, vocabulary, bias=False), width // heads

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        dtype = wide(x.dtype)
        speeds = torch.exp(torch.arange(self.width // 2, dtype=dtype) * (-2 / self.width) * math.log(10000.0))
        angles = torch.arange(tokens.shape[1], dtype=dtype)[:, None] * speeds
        angles = torch.cat([angles, angles], 1)
        for layer in self.layers:
            x = layer(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype))
        return self.lm_head(self.norm(x))


class Experts(nn.Module):
    def __init__(self, width, experts, chosen):
        super().__init__()
        self.gate, self.chosen = nn.Linear(width, experts, bias=False), chosen
        self.w1 = nn.Parameter(torch.zeros(experts, width, 2 * width))
        self.w2 = nn.Parameter(torch.zeros(experts, 2 * width, width))

    def forward(self, x):
        scores = self.gate(x)
        best, places = scores.topk(self.chosen, 1)
        shares = torch.zeros_like(scores).scatter(1, places, best.softmax(1))
        inner = F.gelu(x[None] @ self.w1, approximate="tanh")
        return ((inner @ self.w2) * shares.T[:, :, None]).sum(0)


class MixtureLayer(nn.Module):
    def __init__(self, width, heads, experts, chosen):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.experts = Experts(width, experts, chosen)

    def forward(self, x):
        q, k, v = (split(y, self.heads) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.experts(self.norm2(x).flatten(0, 1)).reshape(x.shape)


class Mixture(nn.Module):
    def __init__(self, vocabulary, positions, width, layers, heads, experts, chosen):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.layers = blocks([MixtureLayer(width, heads, experts, chosen) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Output(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(inputs, outputs), nn.LayerNorm(outputs, eps=1e-12)

    def forward(self, y, x):
        return self.LayerNorm(self.dense(y) + x)


class BertLayer(nn.Module):
    def __init__(self, width, inner, heads):
        super().__init__()
        three = nn.ModuleDict({name: nn.Linear(width, width) for name in ["query", "key", "value"]})
        self.attention = nn.ModuleDict({"self": three, "output": Output(width, width)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, inner)})
        self.output, self.heads = Output(inner, width), heads

    def forward(self, x, mask):
        q, k, v = (split(self.attention["self"][name](x), self.heads) for name in ["query", "key", "value"])
        x = self.attention["output"](joined(F.scaled_dot_product_attention(q, k, v, mask)), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Bert(nn.Module):
    def __init__(self, vocabulary, positions, width, inner, layers, heads):
        super().__init__()
        self.embeddings = nn.ModuleDict({
            "word_embeddings": nn.Embedding(vocabulary, width),
            "position_embeddings": nn.Embedding(positions, width),
            "token_type_embeddings": nn.Embedding(2, width),
            "LayerNorm": nn.LayerNorm(width, eps=1e-12),
        })
        self.encoder = nn.ModuleDict({"layer": blocks([BertLayer(width, inner, heads) for _ in range(layers)])})

    def forward(self, tokens, mask):
        e = self.embeddings
        x = e["word_embeddings"](tokens) + e["position_embeddings"].weight[: tokens.shape[1]]
        x = e["LayerNorm"](x + e["token_type_embeddings"].weight[0])
        for layer in self.encoder["layer"]:
            x = layer(x, mask[:, None, None])
        return x


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.value, self.out, self.heads = nn.Linear(width, width), nn.Linear(width, width), heads

    def forward(self, x, memory, causal):
        q, k, v = (split(y, self.heads) for y in (self.query(x), self.key(memory), self.value(memory)))
        return self.out(joined(F.scaled_dot_product_attention(q, k, v, is_causal=causal)))


class WhisperBlock(nn.Module):
    def __init__(self, width, heads, crosses):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.own = Attention(width, heads)
        self.cross = nn.ModuleList([nn.LayerNorm(width), Attention(width, heads)]) if crosses else None
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, memory, causal):
        y = self.norm1(x)
        x = x + self.own(y, y, causal)
        if self.cross is not None:
            x = x + self.cross[1](self.cross[0](x), memory, False)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Whisper(nn.Module):
    def __init__(self, bands, vocabulary, positions, width, layers, heads):
        super().__init__()
        block = lambda crosses: blocks([WhisperBlock(width, heads, crosses) for _ in range(layers)])
        self.encoder = nn.ModuleDict({
            "conv1": nn.Conv1d(bands, width, 3, padding=1), "conv2": nn.Conv1d(width, width, 3, 2, 1),
            "blocks": block(False), "norm": nn.LayerNorm(width),
        })
        self.decoder = nn.ModuleDict({
            "tokens": nn.Embedding(vocabulary, width), "positions": nn.Embedding(positions, width),
            "blocks": block(True), "norm": nn.LayerNorm(width),
        })

    def forward(self, sound, text):
        e, d = self.encoder, self.decoder
        x = F.gelu(e["conv2"](F.gelu(e["conv1"](sound)))).transpose(1, 2)
        dtype, half = wide(x.dtype), x.shape[2] // 2
        speeds = torch.exp(torch.arange(half, dtype=dtype) * (-math.log(10000.0) / (max(half, 2) - 1)))
        angles = torch.arange(x.shape[1], dtype=dtype)[:, None] * speeds
        x = x + torch.cat([angles.sin(), angles.cos()], 1).to(x.dtype)
        for block in e["blocks"]:
            x = block(x, x, False)
        memory = e["norm"](x)
        x = d["tokens"](text) + d["positions"].weight[: text.shape[1]]
        for block in d["blocks"]:
            x = block(x, memory, True)
        return d["norm"](x) @ d["tokens"].weight.T


class LstmModel(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.tokens, self.lstm = nn.Embedding(vocabulary, width), nn.LSTM(width, width, layers)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.lstm(self.tokens(tokens).transpose(0, 1))[0].transpose(0, 1))


class NoiseBlock(nn.Module):
    def __init__(self, inputs, outputs, times, groups):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(times, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(groups, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.around = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        return y + (x if self.around is None else self.around(x))


class PixelAttention(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.norm, self.qkv = nn.GroupNorm(groups, channels), nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        # one head
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2)[:, None].chunk(3, 3)
        seen = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(seen.transpose(2, 3).reshape(x.shape))


class Denoiser(nn.Module):
    def __init__(self, channels, width, groups):
        super().__init__()
        times, self.width = 4 * width, width
        block = lambda i, o: NoiseBlock(i, o, times, groups)
        conv = lambda i, o, stride=1: nn.Conv2d(i, o, 3, stride, 1)
        self.time1, self.time2 = nn.Linear(width, times), nn.Linear(times, times)
        self.first, self.high, self.down = conv(channels, width), block(width, width), conv(width, width, 2)
        self.low, self.attention = block(width, 2 * width), PixelAttention(2 * width, groups)
        self.middle, self.up = block(2 * width, 2 * width), conv(2 * width, width)
        self.joined = block(2 * width, width)
        self.norm, self.last = nn.GroupNorm(groups, width), conv(width, channels)

    def forward(self, images, times):
        half, dtype = self.width // 2, wide(times.dtype)
        speeds = torch.exp(torch.arange(half, dtype=dtype) * (-math.log(10000.0) / half))
        angles = times.to(dtype)[:, None] * speeds
        time = torch.cat([angles.sin(), angles.cos()], 1).to(times.dtype)
        time = self.time2(F.silu(self.time1(time)))
        high = self.high(self.first(images), time)
        low = self.low(self.down(high), time)
        low = self.middle(self.attention(low), time)
        up = self.up(F.interpolate(low, scale_factor=2.0, mode="nearest"))
        x = self.joined(torch.cat([up, high], 1), time)
        return self.last(F.silu(self.norm(x)))


class GraphLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message1, self.message2 = nn.Linear(2 * width, width), nn.Linear(width, width)
        self.update, self.norm = nn.Linear(2 * width, width), nn.LayerNorm(width)

    def forward(self, x, start, end):
        messages = self.message2(F.relu(self.message1(torch.cat([x[start], x[end]], 1))))
        heard = torch.zeros_like(x).index_add(0, end, messages)
        return self.norm(x + F.relu(self.update(torch.cat([x, heard], 1))))


class GraphNet(nn.Module):
    def __init__(self, inputs, width, layers, classes):
        super().__init__()
        self.first, self.last = nn.Linear(inputs, width), nn.Linear(width, classes)
        self.layers = blocks([GraphLayer(width) for _ in range(layers)])

    def forward(self, nodes, start, end, graphs, count):
        x = F.relu(self.first(nodes))
        for layer in self.layers:
            x = layer(x, start, end)
        sums = torch.zeros(count.shape[0], x.shape[1], dtype=x.dtype).index_add(0, graphs, x)
        return self.last(sums)


def images(side):
    return lambda batch: [floats("images", (batch, 3, side, side), 1.75)]


def tokens(length, vocabulary):
    return lambda batch: [integers("tokens", (batch, length), vocabulary)]


def resnet50(small):
    if small:
        return ResNet(4, [1, 2, 1, 1], 10), images(64), True
    return ResNet(64, [3, 4, 6, 3], 1000), images(224), True


def mobilenet(small):
    if small:
        return MobileNet(8, [(1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 1, 1)], 32, 10), images(16), True
    return MobileNet(32, GROUPS, 1280, 1000), images(224), True


def unet(small):
    return (UNet(3, 2, 4, 2), images(16), False) if small else (UNet(3, 2, 32, 4), images(128), False)


def vit(small):
    if small:
        return ViT(16, 4, 16, 2, 2, 10), images(16), True
    return ViT(224, 16, 768, 12, 12, 1000), images(224), True


def gpt2(small):
    if small:
        return Gpt2(30, 16, 16, 2, 2), tokens(12, 30), True
    return Gpt2(50257, 1024, 768, 12, 12), tokens(64, 50257), True


def llama(small):
    if small:
        return Llama(30, 16, 24, 2, 4, 2), tokens(12, 30), True
    return Llama(32000, 768, 2048, 12, 12, 4), tokens(64, 32000), True


def moe(small):
    if small:
        return Mixture(30, 16, 16, 2, 2, 4, 2), tokens(12, 30), True
    return Mixture(8000, 256, 512, 6, 8, 8, 2), tokens(64, 8000), True


def bert(small):
    sizes, length = ((30, 16, 16, 32, 2, 2), 12) if small else ((30522, 512, 768, 3072, 12, 12), 128)

    def inputs(batch):
        lengths = integers("lengths", (batch, 1), length // 2) + length // 2
        return [integers("tokens", (batch, length), sizes[0]), torch.arange(length) < lengths]

    return Bert(*sizes), inputs, False


def whisper(small):
    if small:
        model, frames, length = Whisper(4, 30, 16, 16, 1, 2), 20, 12
        bands, vocabulary = 4, 30
    else:
        model, frames, length = Whisper(80, 51865, 448, 384, 4, 6), 3000, 32
        bands, vocabulary = 80, 51865

    def inputs(batch):
        return [floats("sound", (batch, bands, frames)), integers("tokens", (batch, length), vocabulary)]

    return model, inputs, True


def lstm(small):
    if small:
        return LstmModel(30, 16, 2), tokens(6, 30), True
    return LstmModel(10000, 650, 2), tokens(35, 10000), True


def denoiser(small):
    width, groups, side = (8, 4, 8) if small else (64, 8, 32)

    def inputs(batch):
        return [floats("images", (batch, 3, side, side), 1.75), integers("times", (batch,), 1000).float()]

    return Denoiser(3, width, groups), inputs, False


def graph(small):
    inputs, width, nodes, edges = (4, 8, 10, 24) if small else (32, 128, 1000, 8000)

    def given(batch):
        first = torch.arange(batch)[:, None] * nodes
        ends = [(integers(name, (batch, edges), nodes) + first).flatten() for name in ["from", "to"]]
        graphs = torch.arange(batch).repeat_interleave(nodes)
        return [floats("nodes", (batch * nodes, inputs)), *ends, graphs, torch.zeros(batch)]

    return GraphNet(inputs, width, 3, 10), given, True


MODELS = [resnet50, mobilenet, unet, vit, gpt2, llama, moe, bert, whisper, lstm, denoiser, graph]


class Case:
    """A model with weights from the formula, its inputs and its loss."""

    def __init__(self, name, small, dtype=torch.float32):
        make = next(make for make in MODELS if make.__name__ == name)
        model, self.make, self.has_classes = make(small)
        self.model, self.dtype = fill(model).to(dtype), dtype

    def inputs(self, batch):
        return [x.to(self.dtype) if x.is_floating_point() else x for x in self.make(batch)]

    def loss(self, output):
        if not self.has_classes:
            return F.mse_loss(output, floats("target", output.shape).to(output.dtype))
        rows = output.reshape(-1, output.shape[-1])
        return F.cross_entropy(rows, integers("labels", (rows.shape[0],), rows.shape[1]))


def facts(name, x):
    flat = x.detach().double().numpy().reshape(-1)
    return [float(np.linalg.norm(flat)), float(flat @ numbers(name, flat.size)), float(flat[0])]


def outputs(name, dtype):
    case = Case(name, True, dtype)
    case.model.eval()
    with torch.no_grad():
        return [[facts("output", x) for x in case.model(*case.inputs(batch))] for batch in [1, 2, 8]]


def step(name, dtype):
    case = Case(name, True, dtype)
    case.model.train()
    before = {k: p.detach().clone() for k, p in case.model.named_parameters()}
    loss = case.loss(case.model(*case.inputs(2)))
    loss.backward()
    torch.optim.SGD(case.model.parameters(), RATE).step()
    after = dict(case.model.named_parameters())
    changes = {k: facts(k, after[k].double() - p.double()) for k, p in before.items()}
    buffers = case.model.named_buffers()
    running = {k: facts(k, b) for k, b in buffers if b.is_floating_point()}
    return {"loss": loss.item(), "changes": changes, "running": running}


def off(expected, found):
    """How far facts are off at most, by the norm."""
    return max(abs(a - b) / (e[0] or 1.0) for e, f in zip(expected, found) for a, b in zip(e, f))


def computed(name):
    right, trained = outputs(name, torch.float64), step(name, torch.float64)
    case = {"outputs": right, "step": trained, "off": {}}
    # a change that rounding alone makes says nothing: a bias before a norm
    largest = max(change[0] for change in trained["changes"].values())
    told = {k for k, change in trained["changes"].items() if change[0] > 1e-6 * largest}
    trained["changes"] = {k: v for k, v in trained["changes"].items() if k in told}
    for dtype in [torch.float32, torch.bfloat16]:
        found = outputs(name, dtype)
        worst = {"outputs": max(off(a, b) for a, b in zip(right, found))}
        if dtype == torch.float32:
            narrow = step(name, dtype)
            worst["loss"] = abs(narrow["loss"] - trained["loss"]) / trained["loss"]
            worst["changes"] = max(off([v], [narrow["changes"][k]]) for k, v in trained["changes"].items())
        case["off"][str(dtype).removeprefix("torch.")] = worst
    return case


def rounded(x):
    """Twelve digits are more than f32 has."""
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    if isinstance(x, list):
        return [rounded(v) for v in x]
    return float(f"{x:.12g}") if isinstance(x, float) else x


if __name__ == "__main__":
    torch.set_num_threads(2)
    written = {"torch": torch.__version__} | {make.__name__: computed(make.__name__) for make in MODELS}
    with open(sys.argv[1] if len(sys.argv) > 1 else "models.json", "w") as f:
        json.dump(rounded(written), f, separators=(",", ":"))
        f.write("\n")
    for make in MODELS:
        print(make.__name__, written[make.__name__]["off"], written[make.__name__]["step"]["loss"])
