"""Networks and layers in eight bits beside ONNX Runtime in eight bits, and products of bfloat16 beside our own float32.

    python -m benchmarks.quantized [C2 resnet18 "int4, 1 row" "bfloat16, 1 row" ...]

The layers are ResNet-18's C2 to C12 as QLinearConv, with a scale for each output channel; products of 4096 x 4096 have
weights of 4 or 8 bits in blocks of 32 (MatMulNBits, data rounded to bytes). The networks are quantised
by ONNX Runtime's own tool, to uint8 data and int8 weights in the QDQ form. Products of bfloat16 say which way they
took: the instruction of CPUs that have it, elsewhere a conversion to float32 as operands are read; there the
instruction written out is measured, too.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import minitvm
from minitvm import frontends as frontend
from minitvm.expr import DType
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import Graph, GraphBuilder
from minitvm.target import Target
from minitvm.tools import models

from . import harness, peers, reading
from .layers import CONVOLUTIONS

LAYERS = [name for name in CONVOLUTIONS if name != "C1"]
# Chains of products with weights in blocks of 32: bits, rows. Each weight is read once from memory.
BLOCKS = {"int4, 1 row": (4, 1), "int8, 1 row": (8, 1), "int4, 4 rows": (4, 4)}
_CHAIN, _SIDE = 6, 4096
# Chains of products of bfloat16: rows, side, products. One row waits for the weights, many for the arithmetic.
BRAIN = {"bfloat16, 1 row": (1, 4096, 6), "bfloat16, 512 rows": (512, 512, 1)}
_READ_HALF, _SUMMED = 1.5, 0.75  # how many times as fast as float32, without the instruction: one row, many rows
_PAIRS_SUMMED = 1.3  # with it: 158 GFLOP/s, unblocked, on Zen 4, beside 94 of float32
NETWORKS = ["resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0"]
WANTED = 1.1
OF_READING = 0.9  # of the rate at which memory is read, for one row


def layer(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """A QLinearConv of random bytes."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    image, inner, outer, kernel, stride = CONVOLUTIONS[name]
    constants = {
        "x_scale": np.float32(0.02), "x_zero": np.uint8(120),
        "w": rng.integers(-127, 128, (outer, inner, kernel, kernel)).astype("int8"),
        "w_scale": rng.uniform(0.001, 0.01, outer).astype("float32"), "w_zero": np.zeros(outer, "int8"),
        "y_scale": np.float32(0.2), "y_zero": np.uint8(110), "bias": rng.integers(-999, 999, outer).astype("int32"),
    }  # fmt: skip
    node = helper.make_node("QLinearConv", ["x", *constants], ["y"], strides=[stride] * 2, pads=[kernel // 2] * 4)
    shape = (1, inner, image, image)
    graph = helper.make_graph(
        [node], name, [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(array), key) for key, array in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": rng.integers(0, 256, shape).astype("uint8")}


def blocks(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """MatMulNBits after MatMulNBits, together larger than the caches."""
    from onnx import TensorProto, helper, numpy_helper

    bits, rows = BLOCKS[name]
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for k in range(_CHAIN):
        stored = rng.integers(0, 256, (_SIDE, _SIDE // 32, 4 * bits)).astype("uint8")
        scales = rng.uniform(1e-4, 5e-4, (_SIDE, _SIDE // 32)).astype("float32")
        weights += [numpy_helper.from_array(stored, f"b{k}"), numpy_helper.from_array(scales, f"s{k}")]
        attrs = {"K": _SIDE, "N": _SIDE, "bits": bits, "block_size": 32, "accuracy_level": 4}
        inputs = [f"y{k}" if k else "x", f"b{k}", f"s{k}"]
        nodes.append(helper.make_node("MatMulNBits", inputs, [f"y{k + 1}"], domain="com.microsoft", **attrs))
    graph = helper.make_graph(
        nodes, "blocks", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (rows, _SIDE))],
        [helper.make_tensor_value_info(f"y{_CHAIN}", TensorProto.FLOAT, None)], weights,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model, {"x": rng.standard_normal((rows, _SIDE)).astype("float32")}


def brain(name: str, dtype: str) -> Graph:
    """Products of random weights, operands rounded to the dtype, sums in float32."""
    rows, side, products = BRAIN[name]
    rng = np.random.default_rng(0)
    b = GraphBuilder("brain")
    x = b.input("x", (rows, side), "float32")
    for k in range(products):
        weight = rng.standard_normal((side, side)).astype("float32") / np.float32(side**0.5)
        x = b.op("cast", x, dtype=dtype) if dtype != "float32" else x
        x = b.op("nn.dense", x, b.constant(weight.astype(DType(dtype).numpy), f"w{k}"), out_dtype="float32")
    return b.build(x)


def brain_rows(name: str, threads: int) -> list[harness.Row]:
    """Products of bfloat16 beside those of float32, the way that this CPU takes and, where it is another, pairs."""
    rows, side, _ = BRAIN[name]
    x = np.random.default_rng(1).standard_normal((rows, side)).astype("float32")
    host = Target("cpu")
    native = host.multiplies_pairs
    halves, floats = brain(name, "bfloat16"), brain(name, "float32")
    built = {"the instruction" if native else "widened": minitvm.build(halves, host, threads=threads)}
    if not native:
        with_pairs = {**host.export(), "features": (*host.features, "avx512_bf16")}
        built["pairs written out"] = minitvm.build(halves, with_pairs, threads=threads)
    plain = minitvm.build(floats, host, threads=threads)
    wanted = np.asarray(plain(x))
    for way, module in built.items():
        error = np.abs(np.asarray(module(x)) - wanted).max() / np.abs(wanted).max()
        if not error < 0.05:
            raise AssertionError(f"{name}, {way}: {error:.3f} of the largest element away from float32")
    runs = {way: (lambda module=module: module(x)) for way, module in built.items()}
    medians = harness.interleaved({**runs, "float32": lambda: plain(x)}, 15, at_least=0.005, threads=threads)
    least = _READ_HALF if rows == 1 else _PAIRS_SUMMED if native else _SUMMED
    return [
        harness.Row(
            f"{name}, {way}", threads, medians[way], medians["float32"], "minitvm, float32",
            0.0 if way == "pairs written out" else least,
        )
        for way in built
    ]  # fmt: skip


def network(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """A network in the QDQ form, calibrated on random pictures."""
    import onnx
    from onnxruntime import quantization as q

    graph = models.get(name)
    inputs = models.example_inputs(graph)
    samples = [{k: np.random.default_rng(n).standard_normal(v.shape).astype("float32") for k, v in inputs.items()}
               for n in range(3)]  # fmt: skip

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> Any:
            return samples.pop() if samples else None

    with tempfile.TemporaryDirectory() as folder:
        floats, prepared, bytes_ = (Path(folder) / f"{part}.onnx" for part in ("floats", "prepared", "bytes"))
        onnx.save(to_onnx(graph), floats)
        q.shape_inference.quant_pre_process(floats, prepared, skip_symbolic_shape=True)
        q.quantize_static(
            prepared, bytes_, Reader(), quant_format=q.QuantFormat.QDQ, per_channel=True,
            activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8,
        )  # fmt: skip
        return onnx.load(bytes_), inputs


def measured(name: str, threads: int) -> list[harness.Row]:
    """A layer or a network beside ONNX Runtime; a network also beside ours in float32, as a row of its own."""
    if name in BRAIN:
        return brain_rows(name, threads)
    model, inputs = (layer if name in CONVOLUTIONS else blocks if name in BLOCKS else network)(name)
    module = minitvm.build(frontend.from_onnx(model), threads=threads)
    others = {"ONNX Runtime, 8 bits": peers.onnx_runtime(model, inputs, threads)}
    if name in CONVOLUTIONS:
        steps = peers.output_of(others["ONNX Runtime, 8 bits"]()).astype(int) - np.asarray(module(**inputs)).astype(int)
        if np.abs(steps).max() > 1:
            raise AssertionError(f"{name}: an output is {np.abs(steps).max()} steps away from ONNX Runtime's")
    elif name not in BLOCKS:
        ours = minitvm.build(models.get(name), threads=threads)
        others["minitvm, float32"] = lambda: ours(**inputs)
    runs = {"ours": lambda: module(**inputs), **others}
    if name in BLOCKS:
        runs["reading"] = reading.reader(threads)
    medians = harness.interleaved(runs, 15, at_least=0.005, threads=threads)
    rows = [harness.Row(name, threads, medians["ours"], medians[who], who, WANTED) for who in others]
    if name in BLOCKS:
        nbytes = sum(len(weights.raw_data) for weights in model.graph.initializer)
        seconds = medians["reading"] * nbytes / reading.NBYTES
        share = OF_READING if BLOCKS[name][1] == 1 else 0.0
        rows.append(harness.Row(name, threads, medians["ours"], seconds, "reading the weights", share))
    return rows


def main(names: list[str] | None = None) -> None:
    """Measure what is named, or everything, at one thread and at two."""
    chosen = names or [*LAYERS, *BLOCKS, *BRAIN, *NETWORKS]
    rows = [row for threads in (1, 2) for name in chosen for row in measured(name, threads)]
    harness.table("eight bits, and sixteen", rows)
    means = {}
    for threads in (1, 2):
        ratios = [row.ratio for row in rows if row.name in CONVOLUTIONS and row.threads == threads]
        if ratios:
            means[f"layers, {threads} threads"] = harness.geometric_mean(ratios)
            print(f"  geometric mean of the layers, {threads} threads: {harness.geometric_mean(ratios):.2f}")
    harness.save("quantized", rows, geometric_means=means)


if __name__ == "__main__":
    main(sys.argv[1:])
