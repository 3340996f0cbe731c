"""The peers' side of the conversation (src/serve.rs has kiln's): `peers.py torch|compile|tinygrad|ort` answers requests on
stdin. Every workload computes what kiln's of the same name does, from the same inputs, as its library's users would
write it: PyTorch without gradients where none are asked for, tinygrad under its JIT, ONNX Runtime from what torch.onnx
exports."""

import glob
import importlib
import io
import keyword
import operator
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import numpy as np

ROWS = 4096
ODD = (4093, 4099)


def hashed(seed, at):
    """Mixes the bits of positions; src/data.rs has the same."""
    x = at * np.uint32(0x9E3779B9) + np.uint32(seed * 0x85EBCA6B & 0xFFFFFFFF)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


assert list(hashed(7, np.arange(3, dtype=np.uint32))) == [549895044, 1701095817, 806627162]


def floats(seed, shape, scale=1.0):
    """Numbers in -1..1, times a scale."""
    at = np.arange(int(np.prod(shape)), dtype=np.uint32)
    x = (hashed(seed, at) >> np.uint32(8)).astype(np.float32) / np.float32(1 << 23) - np.float32(1)
    return (x * np.float32(scale)).reshape(shape)


def labels(seed, n, classes):
    return (hashed(seed, np.arange(n, dtype=np.uint32)) % np.uint32(classes)).astype(np.int64)


def samples(values):
    """What results are compared by; src/data.rs has the same."""
    flat = values.astype(np.float64).reshape(-1)
    at = hashed(1, np.arange(48, dtype=np.uint32)).astype(np.int64) % flat.size
    return [float(np.abs(flat).mean())] + [float(x) for x in flat[at]]


# Shapes and scales of the convnet's parameters, in order; what has neither keeps 1 (weights) or 0 (biases).
PARAMETERS = [
    ((32, 1, 5, 5), 25**-0.5), ((32,), 0.01), ((32, 32, 5, 5), 800**-0.5), ((32,), 0.01), ((32,), None), ((32,), None),
    ((64, 32, 3, 3), 288**-0.5), ((64,), 0.01), ((64, 64, 3, 3), 576**-0.5), ((64,), 0.01), ((64,), None), ((64,), None),
    ((10, 576), 576**-0.5), ((10,), 0.01),
]


def convnet_parameters():
    """The initial values; of a batch norm, weight comes before bias."""
    out, ones = [], True
    for i, (shape, scale) in enumerate(PARAMETERS):
        if scale is None:
            out.append(np.full(shape, 1.0 if ones else 0.0, np.float32))
            ones = not ones
        else:
            out.append(floats(100 + i, shape, scale))
    return out


class Torch:
    """PyTorch, eager or compiled."""

    def __init__(self, compiled):
        import torch

        self.torch, self.F, self.compiled = torch, torch.nn.functional, compiled
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
        self.version = f"torch {torch.__version__}" + (" compiled" if compiled else "")
        self.program = "import torch; print((torch.tensor([1., 2., 3.]) + torch.tensor([4., 5., 6.])).tolist())"

    def tensor(self, x, dtype=None):
        t = self.torch.from_numpy(np.ascontiguousarray(x))
        return t if dtype is None else t.to(getattr(self.torch, dtype))

    def numpy(self, t):
        return t.detach().double().numpy()

    def run(self, f, *args):
        if self.compiled:
            self.torch.compiler.reset()
            f = self.torch.compile(f, dynamic=False)

        def call():
            with self.torch.no_grad():
                return f(*args)

        return call

    def gelu(self, x):
        return self.F.gelu(x, approximate="tanh")

    def gelu_erf(self, x):
        return self.F.gelu(x)

    def valid(self, x, w):
        return self.F.conv2d(x, w)

    def depthwise(self, x, w):
        return self.F.conv2d(x, w, padding=w.shape[-1] // 2, groups=w.shape[0])

    def layernorm(self, x):
        return self.F.layer_norm(x, x.shape[-1:])

    def rmsnorm(self, x):
        return self.F.rms_norm(x, x.shape[-1:], eps=1e-5)

    def softmax(self, x):
        return self.torch.softmax(x, -1)

    def conv(self, x, w):
        return self.F.conv2d(x, w, padding=1)

    def convolution(self, way, x, w, slope, stride):
        padding, torch = w.shape[-1] // 2, self.torch
        if way == "forward":
            return self.run(lambda x, w: self.F.conv2d(x, w, stride=stride, padding=padding), x, w)
        wanted = [way == "image", way == "weights", False]
        slopes = torch.ops.aten.convolution_backward

        def gradient(x, w, slope):
            steps, zeros = [stride] * 2, [0, 0]
            all = slopes(slope, x, w, None, steps, [padding] * 2, [1, 1], False, zeros, 1, wanted)
            return all[wanted.index(True)]

        return self.run(gradient, x, w, slope)

    def attention(self, q, k, v, causal):
        return self.F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def cross_entropy(self, x, y):
        return self.F.cross_entropy(x, y)

    def convnet(self, x, y):
        torch, F = self.torch, self.F
        w = [torch.from_numpy(p).requires_grad_() for p in convnet_parameters()]
        adam = torch.optim.Adam(w, 1e-3)

        def norm(x, n):
            mean, var = stats[n]
            return F.batch_norm(x, mean, var, w[4 if n == 0 else 10], w[5 if n == 0 else 11], True)

        stats = [(torch.zeros(n), torch.ones(n)) for n in (32, 64)]

        def forward(x, y):
            x = F.relu(F.conv2d(F.relu(F.conv2d(x, w[0], w[1])), w[2], w[3]))
            x = F.max_pool2d(norm(x, 0), 2)
            x = F.relu(F.conv2d(F.relu(F.conv2d(x, w[6], w[7])), w[8], w[9]))
            x = F.max_pool2d(norm(x, 1), 2)
            return F.cross_entropy(F.linear(x.reshape(-1, 576), w[12], w[13]), y)

        if self.compiled:
            torch.compiler.reset()
            forward = torch.compile(forward, dynamic=False)

        def call():
            loss = forward(x, y)
            adam.zero_grad()
            loss.backward()
            adam.step()
            return loss.detach()

        return call

    def resnet(self, batch):
        model = resnet_of(64, 1000).eval()
        return self.run(model, images(batch, 224))

    def resnet_training(self, batch):
        torch, model = self.torch, resnet_of(64, 1000).train()
        sgd = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
        x, y, forward = images(batch, 224), image_labels(batch, 1000), model
        if self.compiled:
            torch.compiler.reset()
            forward = torch.compile(model, dynamic=False)

        def call():
            loss = self.F.cross_entropy(forward(x), y)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            return loss.detach()

        return call

    def model(self, name):
        case = models().Case(name, False)
        return self.run(case.model.eval(), *case.inputs(1))

    def model_training(self, name, batch):
        torch, case = self.torch, models().Case(name, False)
        forward, x = case.model.train(), case.inputs(batch)
        adam = torch.optim.AdamW(case.model.parameters(), 1e-5)
        if self.compiled:
            torch.compiler.reset()
            forward = torch.compile(case.model, dynamic=False)

        def call():
            loss = case.loss(forward(*x))
            adam.zero_grad()
            loss.backward()
            adam.step()
            return loss.detach()

        return call

    def optimizer(self, parameters, slopes):
        parameters = [p.requires_grad_() for p in parameters]
        adam = self.torch.optim.AdamW(parameters, 1e-3)

        def call():
            adam.zero_grad()
            sum((p * s).sum() for p, s in zip(parameters, slopes)).backward()
            adam.step()
            return parameters[0]

        return call


def spell_as_python(model):
    """Renames parameters such as `class`: torch.export writes a program in which they are attributes. The model still finds
    them by their old names."""
    for module in list(model.modules()):
        for name in filter(keyword.iskeyword, list(module._parameters)):
            module.register_parameter(f"{name}_", module._parameters.pop(name))
            setattr(type(module), name, property(operator.attrgetter(f"{name}_")))


class Ort(Torch):
    """ONNX Runtime on the CPU, from what torch.onnx exports: functions without gradients."""

    def __init__(self):
        import onnxruntime

        super().__init__(compiled=False)
        self.ort = onnxruntime
        self.version = f"onnxruntime {onnxruntime.__version__}"
        self.program = (
            "import onnxruntime as o, numpy as n; from onnx import helper as h, TensorProto as t;"
            "v = [h.make_tensor_value_info(x, t.FLOAT, [3]) for x in 'abc'];"
            "g = h.make_graph([h.make_node('Add', ['a', 'b'], ['c'])], 'g', v[:2], v[2:]);"
            "m = h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8).SerializeToString();"
            "s = o.InferenceSession(m, providers=['CPUExecutionProvider']);"
            "print(s.run(None, {'a': n.float32([1, 2, 3]), 'b': n.float32([4, 5, 6])})[0].tolist())"
        )

    def run(self, f, *args):
        torch = self.torch

        class Function(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = f if isinstance(f, torch.nn.Module) else None

            def forward(self, *args):
                return f(*args)

        module = Function().eval()
        spell_as_python(module)
        table = {torch.ops.aten.index_add.default: self.added}
        written = sys.stdout
        sys.stdout = io.StringIO()
        try:
            with torch.no_grad():
                program = torch.onnx.export(
                    module, args, dynamo=True, verbose=False, custom_translation_table=table
                )
        finally:
            sys.stdout = written
        settings = self.ort.SessionOptions()
        settings.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "2"))
        model = program.model_proto.SerializeToString()
        session = self.ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        inputs = {name: x.numpy() for name, x in zip(names, args)}
        return lambda: torch.from_numpy(np.asarray(session.run(None, inputs)[0]))

    @staticmethod
    def added(x, axis, at, rows, alpha=1.0):
        """`index_add`. torch.onnx makes a ScatterND of it. Several threads of ONNX Runtime share that op, and lose sums when
        two of them add to one row. One thread runs a ScatterElements."""
        from onnxscript import opset18 as op

        if axis != 0 or alpha != 1.0:
            raise RuntimeError("index_add along the first axis only")
        at = op.Expand(op.Unsqueeze(at, op.Constant(value_ints=[-1])), op.Shape(rows))
        return op.ScatterElements(x, at, rows, axis=0, reduction="add")

    def convolution(self, way, x, w, slope, stride):
        if way != "forward":
            raise RuntimeError("no gradients")
        return super().convolution(way, x, w, slope, stride)

    def convnet(self, x, y):
        raise RuntimeError("no gradients")

    def resnet_training(self, batch):
        raise RuntimeError("no gradients")

    def model_training(self, name, batch):
        raise RuntimeError("no gradients")

    def optimizer(self, parameters, slopes):
        raise RuntimeError("no gradients")


class Tinygrad:
    """tinygrad on the CPU, through LLVM where it finds a library that is new enough."""

    def __init__(self):
        compiler = os.environ.get("CC") or shutil.which("clang")
        if not compiler:
            raise RuntimeError("tinygrad wants clang: set CC to one")
        os.environ["CC"] = compiler
        # the system's LLVM may be too old for its opaque pointers; the one of a Rust toolchain is not
        found = glob.glob(os.path.expanduser("~/.rustup/toolchains/*/lib/libLLVM*"))
        found = [path for path in found if os.path.getsize(path) > 1 << 20]
        if found and "DEV" not in os.environ:
            os.environ.setdefault("LLVM_PATH", found[0])
            os.environ["DEV"] = "CPU:LLVM"
        import importlib.metadata

        import tinygrad

        self.tg = tinygrad
        device = os.environ.setdefault("DEV", "CPU")
        self.version = f"tinygrad {importlib.metadata.version('tinygrad')} ({device})"
        self.program = (
            "from tinygrad import Tensor; print((Tensor([1., 2., 3.]) + Tensor([4., 5., 6.])).tolist())"
        )

    def tensor(self, x, dtype=None):
        t = self.tg.Tensor(np.ascontiguousarray(x))
        return (t if dtype is None else t.cast(getattr(self.tg.dtypes, dtype))).realize()

    def numpy(self, t):
        return t.float().numpy() if t.dtype == self.tg.dtypes.bfloat16 else t.numpy()

    def run(self, f, *args):
        return self.jitted(lambda: f(*args).realize())

    def jitted(self, f):
        jit, device = self.tg.TinyJit(f), self.tg.Device[self.tg.Device.DEFAULT]

        def call():
            out = jit()
            device.synchronize()
            return out

        return call

    def gelu(self, x):
        return x.gelu()

    def gelu_erf(self, x):
        return x * 0.5 * ((x / 2**0.5).erf() + 1)

    def valid(self, x, w):
        return x.conv2d(w)

    def depthwise(self, x, w):
        return x.conv2d(w, padding=w.shape[-1] // 2, groups=w.shape[0])

    def layernorm(self, x):
        return x.layernorm()

    def rmsnorm(self, x):
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()

    def softmax(self, x):
        return x.softmax(-1)

    def conv(self, x, w):
        return x.conv2d(w, padding=1)

    def convolution(self, way, x, w, slope, stride):
        def of(x, w):
            return x.conv2d(w, stride=stride, padding=w.shape[-1] // 2)

        if way == "forward":
            return self.run(of, x, w)
        x, w = x.requires_grad_(), w.requires_grad_()
        target = x if way == "image" else w
        return self.run(lambda x, w, slope: (of(x, w) * slope).sum().gradient(target)[0], x, w, slope)

    def attention(self, q, k, v, causal):
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    def cross_entropy(self, x, y):
        return x.sparse_categorical_crossentropy(y)

    def convnet(self, x, y):
        tg = self.tg
        from tinygrad import nn

        w = [tg.Tensor(p).realize() for p in convnet_parameters()]
        norms = [nn.BatchNorm(32), nn.BatchNorm(64)]
        for norm, at in zip(norms, (4, 10)):
            norm.weight, norm.bias = w[at], w[at + 1]
        adam = nn.optim.Adam(w, 1e-3)

        def forward(x):
            x = x.conv2d(w[0], w[1]).relu().conv2d(w[2], w[3]).relu()
            x = norms[0](x).max_pool2d(2)
            x = x.conv2d(w[6], w[7]).relu().conv2d(w[8], w[9]).relu()
            x = norms[1](x).max_pool2d(2)
            return x.reshape(-1, 576).linear(w[12].T, w[13])

        def step():
            adam.zero_grad()
            loss = forward(x).sparse_categorical_crossentropy(y).backward()
            return loss.realize(*adam.schedule_step())

        return self.training(step)

    def resnet(self, batch):
        raise RuntimeError("written for PyTorch only")

    def resnet_training(self, batch):
        raise RuntimeError("written for PyTorch only")

    def model(self, name):
        raise RuntimeError("written for PyTorch only")

    def model_training(self, name, batch):
        raise RuntimeError("written for PyTorch only")

    def optimizer(self, parameters, slopes):
        from tinygrad import nn

        adam = nn.optim.AdamW(parameters, 1e-3)

        def step():
            adam.zero_grad()
            sum((p * s).sum() for p, s in zip(parameters, slopes)).backward()
            parameters[0].realize(*adam.schedule_step())

        call = self.training(step)

        def run():
            call()
            return parameters[0]

        return run

    def training(self, step):
        call = self.jitted(step)

        def training():
            with self.tg.Context(TRAINING=1):
                return call()

        return training


def golden(name):
    """A module of testdata/golden, which has networks and their numbers."""
    folder = str(pathlib.Path(__file__).parent.parent / "testdata/golden")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


def models():
    return golden("models")


def resnet_of(width, classes):
    return golden("resnet").ResNet(width, classes)


def images(batch, size):
    return golden("resnet").images(batch, size)


def image_labels(batch, classes):
    return golden("resnet").labels(batch, classes)


def started(lib):
    """A process that adds two small tensors."""
    command = [sys.executable, "-c", lib.program]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def matmul(lib, m, k, n, dtype=None):
    a, b = lib.tensor(floats(1, (m, k)), dtype), lib.tensor(floats(2, (k, n)), dtype)
    return lib.run(lambda a, b: a @ b, a, b)


def squares(lib, f):
    return lib.run(f, lib.tensor(floats(1, (1024, 1024))), lib.tensor(floats(2, (1024, 1024))))


def one(lib, f, shape=(ROWS, ROWS)):
    return lib.run(f, lib.tensor(floats(1, shape)))


def two(lib, f, shape=(ROWS, ROWS)):
    return lib.run(f, lib.tensor(floats(1, shape)), lib.tensor(floats(2, shape)))


def convolution(lib, batch):
    x, w = lib.tensor(floats(1, (batch, 64, 56, 56))), lib.tensor(floats(2, (64, 64, 3, 3)))
    return lib.run(lib.conv, x, w)


def layer(lib, name):
    """A convolution whose name says its shapes, as src/workloads/convolutions.rs explains."""
    way, batch, channels, size, outputs, window, stride = re.fullmatch(
        r"cnn-(\w+)-(\d+)x(\d+)x(\d+)-to-(\d+)-(\d+)/(\d+)", name
    ).groups()
    batch, channels, size, outputs, window, stride = map(
        int, (batch, channels, size, outputs, window, stride)
    )
    after = -(-size // stride)
    x, w = floats(1, (batch, channels, size, size)), floats(2, (outputs, channels, window, window))
    slope = floats(3, (batch, outputs, after, after))
    return lib.convolution(way, *(lib.tensor(t) for t in (x, w, slope)), stride)


def attention(lib, causal=False):
    q, k, v = (lib.tensor(floats(seed, (1, 12, 512, 64))) for seed in (1, 2, 3))
    return lib.run(lambda q, k, v: lib.attention(q, k, v, causal), q, k, v)


def linear_gelu(lib):
    x, w = lib.tensor(floats(1, (1024, 1024))), lib.tensor(floats(2, (1024, 1024), 1 / 32))
    return lib.run(lambda x, w, b: lib.gelu(x @ w + b), x, w, lib.tensor(floats(3, (1024,))))


def launches(x, w):
    for _ in range(100):
        x = x @ w
    return x


def values(result):
    """PyTorch gives positions with values for some methods."""
    return result[0] if isinstance(result, tuple) else result


def mixed(lib):
    start = labels(3, 4096, 4096).reshape(4096, 1)
    return lib.tensor((np.arange(4096, dtype=np.int64) * 2731 + start) % 4096)


def gather(lib):
    return lib.run(lambda x, at: x.gather(1, at), lib.tensor(floats(1, (ROWS, ROWS))), mixed(lib))


def scatter(lib):
    x, y = lib.tensor(floats(1, (ROWS, ROWS))), lib.tensor(floats(2, (ROWS, ROWS)))
    return lib.run(lambda x, y, at: x.scatter(1, at, y), x, y, mixed(lib))


def channel(lib):
    x, w = lib.tensor(floats(1, (64, 1, 28, 28))), lib.tensor(floats(2, (32, 1, 5, 5)))
    return lib.run(lib.valid, x, w)


def depthwise(lib):
    shapes = (1, 96, 56, 56), (96, 96, 1, 1), (96, 1, 7, 7), (96, 96, 1, 1)
    tensors = [lib.tensor(floats(1 + i, shape)) for i, shape in enumerate(shapes)]
    return lib.run(lambda x, a, w, b: lib.valid(lib.depthwise(lib.valid(x, a), w), b), *tensors)


def optimizer(lib):
    parameters = [lib.tensor(floats(i, (256,))) for i in range(200)]
    return lib.optimizer(parameters, [lib.tensor(floats(1000 + i, (256,), 0.1)) for i in range(200)])


WORKLOADS = {
    "matmul-512": lambda lib: matmul(lib, 512, 512, 512),
    "matmul-1024": lambda lib: matmul(lib, 1024, 1024, 1024),
    "matmul-2048": lambda lib: matmul(lib, 2048, 2048, 2048),
    "matmul-bf16": lambda lib: matmul(lib, 1024, 1024, 1024, "bfloat16"),
    "matvec": lambda lib: lib.run(
        lambda a, x: a @ x, lib.tensor(floats(1, (50257, 768))), lib.tensor(floats(2, (768,)))
    ),
    "add": lambda lib: two(lib, lambda a, b: a + b),
    "sum": lambda lib: one(lib, lambda x: x.sum()),
    "exp": lambda lib: one(lib, lambda x: x.exp()),
    "softmax": lambda lib: one(lib, lib.softmax),
    "layernorm": lambda lib: one(lib, lib.layernorm),
    "gelu": lambda lib: one(lib, lambda x: lib.gelu(x) * x + x),
    "conv": lambda lib: convolution(lib, 8),
    "attention": attention,
    "train": lambda lib: lib.convnet(
        lib.tensor(floats(1, (128, 1, 28, 28))), lib.tensor(labels(2, 128, 10))
    ),
    "matmul-1000": lambda lib: matmul(lib, 1000, 1000, 1000),
    "matmul-1023": lambda lib: matmul(lib, 1023, 1023, 1023),
    "matmul-1025": lambda lib: matmul(lib, 1025, 1025, 1025),
    "matmul-long": lambda lib: matmul(lib, 64, 100000, 64),
    "matmul-tn": lambda lib: squares(lib, lambda a, b: a.T @ b),
    "matmul-nt": lambda lib: squares(lib, lambda a, b: a @ b.T),
    "linear-gelu": linear_gelu,
    "matmul-row": lambda lib: matmul(lib, 1, 4096, 4096),
    "matmul-few": lambda lib: matmul(lib, 8, 768, 3072),
    "attention-causal": lambda lib: attention(lib, causal=True),
    "conv-one": lambda lib: convolution(lib, 1),
    "add-odd": lambda lib: two(lib, lambda a, b: a + b, ODD),
    "softmax-odd": lambda lib: one(lib, lib.softmax, ODD),
    "layernorm-odd": lambda lib: one(lib, lib.layernorm, ODD),
    "rmsnorm": lambda lib: one(lib, lib.rmsnorm),
    "sum-rows": lambda lib: one(lib, lambda x: x.sum(1)),
    "sum-columns": lambda lib: one(lib, lambda x: x.sum(0)),
    "transpose": lambda lib: one(lib, lambda x: x.T.contiguous()),
    "transpose-odd": lambda lib: one(lib, lambda x: x.T.contiguous(), ODD),
    "add-turned": lambda lib: two(lib, lambda a, b: a + b.T),
    "cross-entropy": lambda lib: lib.run(
        lib.cross_entropy, lib.tensor(floats(1, (ROWS, ROWS))), lib.tensor(labels(2, ROWS, ROWS))
    ),
    "matmul-f64": lambda lib: matmul(lib, 512, 512, 512, "float64"),
    "exp-f64": lambda lib: lib.run(
        lambda x: x.exp(), lib.tensor(floats(1, (2048, 4096)), "float64")
    ),
    "sort": lambda lib: one(lib, lambda x: values(x.sort(0)), (1 << 20,)),
    "topk": lambda lib: one(lib, lambda x: values(x.topk(64, -1)), (1024, 50257)),
    "cumsum-last": lambda lib: one(lib, lambda x: x.cumsum(-1)),
    "cumsum-first": lambda lib: one(lib, lambda x: x.cumsum(0)),
    "gather": gather,
    "scatter": scatter,
    "roll": lambda lib: one(lib, lambda x: x.roll(1000, 1)),
    "max-last": lambda lib: one(lib, lambda x: values(x.max(-1))),
    "sine": lambda lib: one(lib, lambda x: x.sin()),
    "gelu-erf": lambda lib: one(lib, lambda x: lib.gelu_erf(x)),
    "conv-channel": channel,
    "conv-depthwise": depthwise,
    "matmul-32": lambda lib: matmul(lib, 32, 32, 32),
    "softmax-64": lambda lib: one(lib, lib.softmax, (64, 64)),
    "sum-64": lambda lib: one(lib, lambda x: x.sum(-1), (64, 64)),
    "launch": lambda lib: lib.run(
        launches, lib.tensor(floats(1, (16, 16))), lib.tensor(floats(2, (16, 16), 0.25))
    ),
    "host": started,
    "optimizer": optimizer,
    "start": started,
    "resnet18-1": lambda lib: lib.resnet(1),
    "resnet18-8": lambda lib: lib.resnet(8),
    "resnet18-train": lambda lib: lib.resnet_training(8),
}


def made(lib, name):
    """What a workload's call is. Some names say what they are."""
    if name.startswith("cnn-"):
        return layer(lib, name)
    if name.startswith("model-"):
        model = name.removeprefix("model-")
        if not model.endswith("-train"):
            return lib.model(model)
        model = model.removesuffix("-train")
        return lib.model_training(model, 16 if model == "lstm" else 2)
    return WORKLOADS[name](lib)


def load(lib, name):
    """Three calls: the first compiles, and the JIT of tinygrad captures the second."""
    if name == "start" and getattr(lib, "compiled", False):
        raise RuntimeError("the same as torch")
    if name == "host":
        raise RuntimeError("kernels cannot be left out")
    call = made(lib, name)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    numbers = [] if name == "start" else samples(lib.numpy(result))
    return call, " ".join(["ready", repr(seconds[0]), repr(seconds[2])] + [repr(x) for x in numbers])


def turn(call, calls):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return f"took {(time.perf_counter() - start) / calls!r}"


def kilobytes(key):
    """A line of this process's status; src/memory.rs has the same."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key))


def peak(call, idle):
    """The most memory during a call, beyond what the process took before it had a workload."""
    with open("/proc/self/clear_refs", "w") as marks:
        marks.write("5")
    call()
    return f"peak {(kilobytes('VmHWM:') - idle) * 1024}"


def main():
    peer = sys.argv[1]
    libs = {"tinygrad": Tinygrad, "ort": Ort}
    lib = libs[peer]() if peer in libs else Torch(compiled=peer == "compile")
    print("hello", lib.version, flush=True)
    call = None
    idle = kilobytes("VmRSS:") if os.path.exists("/proc/self/status") else 0
    for request in sys.stdin:
        verb, _, argument = request.strip().partition(" ")
        try:
            if verb == "load":
                call = None
                call, said = load(lib, argument)
            elif verb == "turn":
                said = turn(call, int(argument))
            elif verb == "peak":
                said = peak(call, idle)
            else:
                call, said = None, "gone"
        except Exception as error:  # whatever a library throws is this workload's answer
            said = "lacks " + " ".join(f"{type(error).__name__}: {error}".split())
        print(said, flush=True)


main()
