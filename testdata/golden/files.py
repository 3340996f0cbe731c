"""Writes ../files: small files of each format by the packages that define it, and files.json: what each holds.

    pip install -r files-requirements.txt && python files.py

In files.json each file has its tensors by name: dtype, shape, and the bytes of the elements, row-major and little-endian.
What blocks of GGUF stand for is in gguf-values.npz, as the gguf package computes it.
"""

import collections
import io
import json
import os
import pickle
import struct
import tarfile

import gguf
import ml_dtypes
import numpy as np
import safetensors.torch
import torch
from gguf import GGMLQuantizationType as Q

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "files")
os.makedirs(OUT, exist_ok=True)
rng = np.random.default_rng(7)
expected = {}


def path(name):
    return os.path.join(OUT, name)


NAMES = {"bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
         "uint32": "u32", "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
         "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "float8_e4m3fnuz": "f8e4m3fnuz",
         "float8_e5m2fnuz": "f8e5m2fnuz"}


def known(x, dtype=None):
    """What a test compares: of an array of NumPy or a tensor of PyTorch."""
    if isinstance(x, torch.Tensor):
        dtype = str(x.dtype).removeprefix("torch.")
        shape = list(x.shape)
        x = x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    else:
        dtype, shape = dtype or x.dtype.name, list(x.shape)
        x = np.ascontiguousarray(x)
        x = x.astype(x.dtype.newbyteorder("<")).tobytes()
    return {"dtype": NAMES[dtype], "shape": shape, "bytes": x.hex()}


def expect(name, tensors):
    expected[name] = {key: known(t) for key, t in tensors.items()}


SPECIAL = {"f": [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), -2.25, 0.1, 1e-7, 3e4, -1.0, 7.0],
           "b": [True, False, True, True, False, False, True, False, False, True, True, False]}


def values(dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low = [info.min, info.max, 0, 1, 2, info.max - 1, info.min + 1]
        return np.array(low + [5, 6, 7, 100, 101], dtype)
    return np.array(SPECIAL[dtype.kind], np.float64 if dtype.kind == "f" else "?").astype(dtype)


# arrays of NumPy
def numpy_files():
    kinds = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
    arrays = {}
    with np.errstate(over="ignore"):
        for kind in kinds:
            x = values(kind)
            name = x.dtype.name
            arrays[name] = x.reshape(3, 4)
            if x.dtype.itemsize > 1:
                arrays[name + "_big"] = x.reshape(2, 3, 2).astype(x.dtype.newbyteorder(">"))
            arrays[name + "_fortran"] = np.asfortranarray(x.reshape(2, 3, 2))
    arrays["big_fortran"] = np.asfortranarray(arrays["float32_big"])
    arrays["scalar"] = np.array(2.5, "f4")
    arrays["none"] = np.zeros((0, 3), "f8")
    np.savez(path("arrays.npz"), **arrays)
    np.savez_compressed(path("packed.npz"), **arrays)
    for name in ["arrays.npz", "packed.npz"]:
        expect(name, arrays)
    bf16 = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    for name, x, version in [("v1.npy", arrays["int32_fortran"], (1, 0)), ("v2.npy", arrays["float64_big"], (2, 0)),
                             ("v3.npy", arrays["float32"], (3, 0)), ("bf16.npy", bf16, (1, 0))]:
        with open(path(name), "wb") as file:
            np.lib.format.write_array(file, x, version=version)
        expect(name, {"": x})
    np.save(path("objects.npy"), np.array([{}, None]), allow_pickle=True)
    np.save(path("complex.npy"), np.zeros(2, "c8"))
    np.save(path("records.npy"), np.zeros(2, [("a", "f4"), ("b", "i4")]))


TORCH = [torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
         torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
FP8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


def torch_values(dtype):
    if dtype in FP8:
        return torch.arange(12, dtype=torch.uint8).mul(21).view(dtype).reshape(3, 4)
    if dtype == torch.bfloat16:
        return torch.tensor(SPECIAL["f"]).to(dtype).reshape(3, 4)
    name = str(dtype).removeprefix("torch.")
    with np.errstate(over="ignore"):
        return torch.from_numpy(values(name)).reshape(3, 4)


def flat(x, prefix=""):
    """Tensors of nested dicts and lists by names that are joined by dots."""
    if isinstance(x, torch.Tensor):
        return {prefix: x}
    pairs = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, (list, tuple)) else []
    out = {}
    for key, value in pairs:
        out.update(flat(value, f"{prefix}.{key}" if prefix else str(key)))
    return out


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))


def torch_files():
    torch.manual_seed(3)
    base = torch.arange(24, dtype=torch.float32)
    cube = base.reshape(2, 3, 4)
    views = {"whole": cube, "part": cube[1, 1:], "turned": cube.permute(2, 0, 1), "every": base[1::3],
             "column": cube[:, :, 1], "same": base[5].expand(2, 3), "gaps": cube[:, ::2, 1:3].permute(1, 2, 0),
             "window": base.as_strided((4, 3), (2, 1), 3), "scalar": torch.tensor(2.5), "none": torch.zeros(0, 3)}
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.5)
    net.layers(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    nested = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "best": 0.5, "name": "x",
              "parts": [torch.tensor([1]), (torch.tensor([2.0]), {"deep": torch.tensor([3], dtype=torch.int16)}), None],
              "parameter": torch.nn.Parameter(torch.tensor([4.0, 5.0])), "flag": True, "size": torch.Size([2, 3]),
              "dtype": torch.float16, 7: torch.tensor(7)}
    kinds = {str(d).removeprefix("torch."): torch_values(d) for d in TORCH}
    fp8 = {str(d).removeprefix("torch."): torch_values(d) for d in FP8}
    for name, value in [("views", views), ("nested", nested), ("kinds", kinds), ("fp8", fp8)]:
        for ending, zip_form in [("pt", True), ("legacy.pt", False)]:
            if name == "fp8" and not zip_form:
                continue
            torch.save(value, path(f"{name}.{ending}"), _use_new_zipfile_serialization=zip_form)
            expect(f"{name}.{ending}", flat(value))
    tar_archive(views, "views.tar.pt")
    types = ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64"]
    tar_archive({"nested": [{d: kinds[d] for d in types}, 3]}, "kinds.tar.pt")
    torch.save(views["part"], path("one.pt"))
    expect("one.pt", {"": views["part"]})
    torch.save({"x": torch.ones(3)}, path("protocol4.pt"), pickle_protocol=4)
    expect("protocol4.pt", {"x": torch.ones(3)})
    torch.save({"x": torch.ones(2), "f": collections.Counter("abc")}, path("counter.pt"))
    torch.save(net, path("module.pt"))


def tar_archive(value, name):
    """The form of PyTorch 0.1.9 and before: a tar archive of storages, tensors and a pickle that names them."""
    tensors, storages, views = {}, {}, []

    class Pickler(pickle.Pickler):
        def persistent_id(self, x):
            if isinstance(x, torch.Tensor):
                tensors[id(x)] = x
                return str(id(x))

    def dumps(x):
        return pickle.dumps(x, protocol=2)

    main = io.BytesIO()
    Pickler(main, protocol=2).dump(value)
    described = dumps(len(tensors))
    for key, x in tensors.items():
        storage = x.untyped_storage()
        # what a view's storage was: elements of another one, from its second on
        whole = storage.data_ptr()
        storages.setdefault(whole, x)
        used = whole
        if x.numel() and x.storage_offset() > 0:
            used = whole * 8 + x.storage_offset()
            views.append((used, whole, 1, storage.nbytes() // x.element_size() - 1))
        tensor_type = x.new(0).type().rsplit(".", 1)[1]
        described += dumps((key, used, getattr(torch, tensor_type)))
        described += struct.pack(f"<ii{2 * x.dim() + 1}q", x.dim(), 0, *x.shape, *x.stride(), x.storage_offset() - (used != whole))
    stored = dumps(len(storages))
    for key, x in storages.items():
        storage = x.untyped_storage()
        stored += dumps((key, "cpu", getattr(torch, x.type().rsplit(".", 1)[1].replace("Tensor", "Storage"))))
        stored += struct.pack("<q", storage.nbytes() // x.element_size())
        stored += torch.empty(0, dtype=torch.uint8).set_(storage).numpy().tobytes()
    stored += dumps(views)
    with tarfile.open(path(name), "w:", format=tarfile.PAX_FORMAT) as tar:
        for member, data in [("sys_info", dumps({"little_endian": True})), ("pickle", main.getvalue()), ("tensors", described), ("storages", stored)]:
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    again = flat(torch.load(path(name), weights_only=False))
    for key, x in flat(value).items():
        assert torch.equal(again[key].nan_to_num(7), x.nan_to_num(7)), key
    expect(name, flat(value))


def safetensors_files():
    tensors = {str(d).removeprefix("torch."): torch_values(d) for d in TORCH}
    safetensors.torch.save_file(tensors, path("kinds.safetensors"), metadata={"by": "files.py"})
    expect("kinds.safetensors", tensors)
    tensors = {str(d).removeprefix("torch."): torch_values(d) for d in FP8}
    safetensors.torch.save_file(tensors, path("fp8.safetensors"))
    expect("fp8.safetensors", tensors)


# blocks of GGUF: where each type has its f16 factors, which must be numbers
FACTORS = {Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q8_0: [0], Q.Q2_K: [80, 82], Q.Q3_K: [108],
           Q.Q4_K: [0, 2], Q.Q5_K: [0, 2], Q.Q6_K: [208], Q.IQ3_XXS: [0], Q.IQ3_S: [0], Q.IQ2_S: [0], Q.IQ4_XS: [0],
           Q.IQ4_NL: [0], Q.IQ2_XXS: [0], Q.IQ2_XS: [0], Q.IQ1_S: [0], Q.IQ1_M: [],
           Q.MXFP4: [], Q.NVFP4: [], Q.Q1_0: [0], Q.TQ1_0: [52], Q.TQ2_0: [64]}


def blocks(kind, rows, per_row):
    _, size = gguf.GGML_QUANT_SIZES[kind]
    data = rng.integers(0, 256, (rows, per_row, size), dtype=np.uint8)
    for at in FACTORS[kind]:
        factors = rng.standard_normal((rows, per_row, 1)).astype(np.float16)
        data[:, :, at:at + 2] = factors.view(np.uint8).reshape(rows, per_row, 2)
    if kind == Q.MXFP4:
        data[:, :, 0] = rng.integers(100, 140, (rows, per_row))
        data[0, 0, 0], data[0, 1, 0] = 0, 1
    if kind == Q.NVFP4:
        data[0, 0, :4] = [0, 127, 7, 126]
    if kind == Q.IQ1_M:
        # the top digit of the last word has the sign and most of the exponent of the factor
        data[:, :, 55] = data[:, :, 55] & 0x8F | 0x30
    return data.reshape(rows, per_row * size)


def one_bit(data):
    """Q1_0, which the gguf package does not compute: a bit of 1 is the factor, a bit of 0 its negative."""
    data = data.reshape(-1, 18)
    d = data[:, :2].copy().view(np.float16).astype(np.float32)
    bits = np.unpackbits(data[:, 2:], axis=-1, bitorder="little").astype(np.float32)
    return d * (2 * bits - 1)


def gguf_files():
    writer, known_values = gguf.GGUFWriter(path("blocks.gguf"), "test"), {}
    for kind in FACTORS:
        per_row = max(2, 256 // gguf.GGML_QUANT_SIZES[kind][0] // 2)
        data = blocks(kind, 2, per_row)
        n = gguf.GGML_QUANT_SIZES[kind][0] * per_row
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        of = one_bit(data) if kind == Q.Q1_0 else gguf.quants.dequantize(data, kind)
        known_values[kind.name] = of.reshape(2, n).astype(np.float32)
    write(writer)
    x = rng.standard_normal((5, 64)).astype(np.float32)
    x[1, :32], x[2, 3], x[2, 7], x[3] = 0, 9, -9, np.round(x[3] * 4) / 4
    known_values["x"] = x
    for kind in [Q.Q8_0, Q.Q4_0]:
        known_values[f"x as {kind.name}"] = gguf.quants.quantize(x, kind)
    np.savez_compressed(path("gguf-values.npz"), **known_values)

    writer, plain = gguf.GGUFWriter(path("plain.gguf"), "test"), {}
    for kind in ["f2", "f4", "f8", "i1", "i2", "i4", "i8"]:
        with np.errstate(over="ignore"):
            plain[np.dtype(kind).name] = values(kind).reshape(2, 3, 2)
    for name, x in plain.items():
        writer.add_tensor(name, x)
    bf16 = torch_values(torch.bfloat16)
    writer.add_tensor("bfloat16", bf16.view(torch.uint8).numpy(), raw_dtype=Q.BF16)
    writer.add_uint8("u8", 200), writer.add_int8("i8", -100), writer.add_uint16("u16", 60000)
    writer.add_int16("i16", -30000), writer.add_uint32("u32", 4000000000), writer.add_int32("i32", -2000000000)
    writer.add_uint64("u64", 2**64 - 1), writer.add_int64("i64", -2**63), writer.add_float32("f32", 0.25)
    writer.add_float64("f64", 0.1), writer.add_bool("yes", True), writer.add_bool("no", False)
    writer.add_string("text", "h\u00e9llo"), writer.add_array("tokens", ["a", "", "bc"])
    writer.add_array("numbers", [1, 2, 300]), writer.add_array("floats", [0.5, -1.5])
    write(writer)
    expect("plain.gguf", {**plain, "bfloat16": bf16})


    # a model in two files
    writer = gguf.GGUFWriter(path("split.gguf"), "test", split_max_tensors=2)
    whole = {name: values("f4").reshape(3, 4) + i for i, name in enumerate(["a", "b", "c"])}
    for name, x in whole.items():
        writer.add_tensor(name, x.astype(np.float32))
    writer.add_string("text", "whole")
    write(writer)
    expect("split", {name: x.astype(np.float32) for name, x in whole.items()})


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


numpy_files()
torch_files()
safetensors_files()
gguf_files()
with open(os.path.join(HERE, "files.json"), "w") as file:
    json.dump(expected, file, indent=0, sort_keys=True)
    file.write("\n")
