"""Writes layers.json: what PyTorch's layers give in f64, and the gradients of `sum(y^2) / 2`.

    pip install -r requirements.txt && python layers.py

A case has the layer's tensors by name, its inputs and output, and the gradients of the tensors and of float inputs.
"""

import json
import os

import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(5)
cases = []


def packed(t):
    return [list(t.shape), [float(x) for x in t.detach().reshape(-1)]]


def data(*shape):
    return (torch.randn(shape) * 64).round() / 64


def case(name, layer, *inputs, call=None):
    layer.eval()
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(data(*p.shape) * 0.5)
    inputs = [x.requires_grad_(x.is_floating_point()) for x in inputs]
    result = (call or layer)(*inputs)
    outputs = list(result) if isinstance(result, tuple) else [result]
    sum((y * y).sum() / 2 for y in outputs).backward()
    cases.append({
        "name": name,
        "state": {n: packed(p) for n, p in layer.state_dict().items()},
        "inputs": [[str(x.dtype)[6:]] + packed(x) for x in inputs],
        "outputs": [packed(y) for y in outputs],
        "grads": {n: packed(p.grad) for n, p in layer.named_parameters()},
        "slopes": [packed(x.grad) for x in inputs if x.is_floating_point()],
    })


case("linear", nn.Linear(3, 4), data(2, 5, 3))
case("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), data(2, 4, 9))
case("conv2d", nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=1), data(1, 2, 5, 6))
case("conv transpose 1d", nn.ConvTranspose1d(3, 2, 4, stride=3, padding=1, output_padding=2), data(2, 3, 5))
case("conv transpose 2d", nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 3), padding=(1, 0), output_padding=(1, 0), groups=2,
                                             dilation=(1, 2)), data(2, 4, 3, 4))
case("conv3d", nn.Conv3d(4, 2, (2, 3, 1), stride=(1, 2, 1), padding=(1, 1, 0), groups=2), data(1, 4, 3, 4, 2))
case("conv2d circular", nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), data(1, 2, 4, 3))
case("conv transpose 3d", nn.ConvTranspose3d(2, 3, 2, stride=2), data(1, 2, 2, 3, 2))
case("max pool 3d", nn.MaxPool3d(2, 1, ceil_mode=True), data(1, 2, 3, 2, 4))
case("avg pool 1d", nn.AvgPool1d(3, padding=1, count_include_pad=False), data(2, 2, 7))
case("lp pool", nn.LPPool2d(2, 2), data(1, 2, 4, 6))
case("adaptive avg pool", nn.AdaptiveAvgPool2d((3, 2)), data(1, 2, 5, 4))
case("adaptive max pool", nn.AdaptiveMaxPool1d(3), data(1, 2, 7))
case("group norm", nn.GroupNorm(2, 6), data(3, 6, 4))
case("group norm of rows", nn.GroupNorm(3, 6, affine=False), data(3, 6))
case("instance norm", nn.InstanceNorm2d(3), data(2, 3, 4, 5))
case("instance norm affine", nn.InstanceNorm1d(3, affine=True), data(2, 3, 7))
case("layer norm", nn.LayerNorm([3, 4]), data(2, 3, 4))
case("layer norm plain", nn.LayerNorm([4], elementwise_affine=False), data(2, 3, 4))
channels = nn.LayerNorm(5)
case("layer norm 2d", channels, data(2, 5, 2, 3), call=lambda x: channels(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
case("embedding", nn.Embedding(7, 3), torch.tensor([[1, 6, 1], [0, 2, 1]]))
case("bilinear", nn.Bilinear(3, 4, 2), data(5, 3), data(5, 4))
case("prelu", nn.PReLU(3), data(2, 3, 4))
case("upsample", nn.Upsample(scale_factor=3), data(1, 2, 3, 2))
case("max pool", nn.MaxPool2d(3, 2, 1), data(1, 2, 7, 6))
case("avg pool", nn.AvgPool2d(2, 1), data(1, 2, 4, 5))
case("flatten", nn.Flatten(), data(2, 3, 2))
for name, layer in {"relu": nn.ReLU(), "gelu": nn.GELU("tanh"), "silu": nn.SiLU(), "sigmoid": nn.Sigmoid(), "tanh": nn.Tanh(),
                    "elu": nn.ELU(0.7), "leaky relu": nn.LeakyReLU(0.2), "softplus": nn.Softplus(2.0),
                    "softmax": nn.Softmax(1)}.items():
    case(name, layer, data(3, 5))
for name, layer in {"gelu erf": nn.GELU(), "relu6": nn.ReLU6(), "log sigmoid": nn.LogSigmoid(),
                    "selu": nn.SELU(), "mish": nn.Mish(), "softsign": nn.Softsign(), "tanhshrink": nn.Tanhshrink(), "celu": nn.CELU(0.75),
                    "softshrink": nn.Softshrink(0.25), "hardshrink": nn.Hardshrink(0.25), "log softmax": nn.LogSoftmax(1), "softmin": nn.Softmin(0),
                    "hardtanh": nn.Hardtanh(-0.5, 0.75), "threshold": nn.Threshold(0.125, -2.0)}.items():
    case(name, layer, data(3, 5) * 2)
case("glu", nn.GLU(1), data(3, 6))
case("pixel shuffle", nn.PixelShuffle(2), data(1, 8, 2, 3))
case("pixel unshuffle", nn.PixelUnshuffle(2), data(1, 2, 4, 6))
case("channel shuffle", nn.ChannelShuffle(3), data(1, 6, 2, 2))
case("unfold", nn.Unfold((2, 3), dilation=1, padding=1, stride=2), data(1, 2, 4, 5))
case("fold", nn.Fold((4, 5), (2, 3), padding=1, stride=2), data(1, 12, 9))
case("unflatten", nn.Unflatten(1, (2, 3)), data(2, 6))
case("softmax 2d", nn.Softmax2d(), data(2, 3, 2, 2))
case("local response norm", nn.LocalResponseNorm(3, 0.25, 0.75, 1.5), data(1, 5, 3))
case("cosine similarity", nn.CosineSimilarity(1), data(3, 4), data(3, 4))
case("pairwise distance", nn.PairwiseDistance(3.0), data(3, 4), data(3, 4))
case("reflection pad", nn.ReflectionPad2d((1, 2, 0, 1)), data(1, 2, 3, 4))
case("replication pad", nn.ReplicationPad1d(2), data(1, 2, 3))
case("circular pad", nn.CircularPad3d(1), data(1, 1, 2, 3, 2))
case("zero pad", nn.ZeroPad2d((-1, 1, 0, 2)), data(1, 2, 3, 4))
case("weight norm", nn.utils.weight_norm(nn.Conv1d(2, 3, 2)), data(1, 2, 4))
case("spectral norm", nn.utils.spectral_norm(nn.Linear(4, 3)), data(2, 4))
case("spectral norm transposed", nn.utils.spectral_norm(nn.ConvTranspose1d(2, 3, 2)), data(1, 2, 4))
for mode in ["sum", "mean", "max"]:
    case("bag " + mode, nn.EmbeddingBag(7, 3, mode=mode), torch.tensor([[1, 6, 1], [0, 2, 1]]))
    case("bag from " + mode, nn.EmbeddingBag(7, 3, mode=mode), torch.tensor([1, 6, 1, 0, 2]), torch.tensor([0, 2, 2]))
classes = torch.tensor([1, 0, 3])
case("cross entropy loss", nn.CrossEntropyLoss(label_smoothing=0.125, reduction="sum"), data(3, 4), classes)
case("nll loss", nn.NLLLoss(ignore_index=0), data(3, 4), classes)
for name, layer in {"mse loss": nn.MSELoss(), "l1 loss": nn.L1Loss(reduction="none"), "huber loss": nn.HuberLoss(delta=0.5), "smooth l1 loss": nn.SmoothL1Loss(beta=0.5),
                    "bce logits loss": nn.BCEWithLogitsLoss()}.items():
    case(name, layer, data(3, 4), data(3, 4))
case("soft margin loss", nn.SoftMarginLoss(reduction="sum"), data(2, 3), torch.tensor([[1, -1, 1], [-1, -1, 1]]))
case("triplet loss", nn.TripletMarginLoss(0.75), data(3, 4), data(3, 4), data(3, 4))
case("sequential", nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)), data(4, 3))

case("rnn cell", nn.RNNCell(3, 4), data(2, 3), data(2, 4))
case("gru cell", nn.GRUCell(3, 4), data(2, 3), data(2, 4))
lstm = nn.LSTMCell(3, 4)
case("lstm cell", lstm, data(2, 3), data(2, 4), data(2, 4), call=lambda x, h, c: lstm(x, (h, c)))
case("rnn", nn.RNN(3, 4, num_layers=2), data(5, 2, 3), data(2, 2, 4))
case("gru", nn.GRU(3, 4, num_layers=2), data(5, 2, 3), data(2, 2, 4))
stack = nn.LSTM(3, 4, num_layers=2)


def run(x, h, c):
    y, (h, c) = stack(x, (h, c))
    return y, h, c


case("lstm", stack, data(5, 2, 3), data(2, 2, 4), data(2, 2, 4), call=run)
attention = nn.MultiheadAttention(8, 2, batch_first=True)
case("attention", attention, data(2, 3, 8), data(2, 5, 8), data(2, 5, 8),
     call=lambda q, k, v: attention(q, k, v, need_weights=False)[0])
hidden = torch.triu(torch.ones(4, 4), 1).bool()
causal = nn.MultiheadAttention(8, 4, batch_first=True)
case("causal attention", causal, data(2, 4, 8),
     call=lambda x: causal(x, x, x, need_weights=False, attn_mask=hidden)[0])
case("encoder", nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), data(2, 4, 8))
case("encoder norm first", nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=True), data(2, 4, 8))
decoder = nn.TransformerDecoderLayer(8, 2, 12, batch_first=True)
case("decoder", decoder, data(2, 4, 8), data(2, 3, 8), call=lambda x, memory: decoder(x, memory, tgt_mask=hidden))
case("rnn both ways", nn.RNN(3, 4, num_layers=2, bidirectional=True), data(5, 2, 3), data(4, 2, 4))
case("gru both ways", nn.GRU(3, 4, bidirectional=True), data(1, 2, 3), data(2, 2, 4))
both = nn.LSTM(3, 4, num_layers=2, bidirectional=True)


def run_both(x, h, c):
    y, (h, c) = both(x, (h, c))
    return y, h, c


case("lstm both ways", both, data(5, 2, 3), data(4, 2, 4), data(4, 2, 4), call=run_both)
case("embedding padding", nn.Embedding(7, 3, padding_idx=1), torch.tensor([[1, 6, 1], [0, 2, 1]]))
layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
case("encoder stack", nn.TransformerEncoder(layer, 2, nn.LayerNorm(8)), data(2, 4, 8))
layer = nn.TransformerDecoderLayer(8, 2, 12, batch_first=True)
decoders = nn.TransformerDecoder(layer, 2)
case("decoder stack", decoders, data(2, 4, 8), data(2, 3, 8), call=lambda x, memory: decoders(x, memory, tgt_mask=hidden))

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.json")
with open(path, "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
