"""Networks and layers in eight bits beside ONNX Runtime in eight bits, and beside our own in float32.

    python -m benchmarks.quantized [C2 resnet18 "int4, 1 row" ...]

The layers are ResNet-18's C2 to C12 as QLinearConv, with a scale for each output channel; products of 4096 x 4096 have
weights of 4 or 8 bits in blocks of 32 (MatMulNBits, data rounded to bytes). The networks are quantised
by ONNX Runtime's own tool, to uint8 data and int8 weights in the QDQ form.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import minitvm
from minitvm import frontend, models
from minitvm.interop.to_onnx import to_onnx

from . import harness, peers
from .layers import CONVOLUTIONS

LAYERS = [name for name in CONVOLUTIONS if name != "C1"]
# Chains of products with weights in blocks of 32: bits, rows. Each weight is read once from memory.
BLOCKS = {"int4, 1 row": (4, 1), "int8, 1 row": (8, 1), "int4, 4 rows": (4, 4)}
_CHAIN, _SIDE = 6, 4096
NETWORKS = ["resnet18", "resnet50", "mobilenet_v2"]
WANTED = 1.1


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
    medians = harness.interleaved({"ours": lambda: module(**inputs), **others}, 15, at_least=0.005, threads=threads)
    return [harness.Row(name, threads, medians["ours"], medians[who], who, WANTED) for who in others]


def main(names: list[str] | None = None) -> None:
    """Measure what is named, or everything, at one thread and at two."""
    rows = [
        row for threads in (1, 2) for name in names or [*LAYERS, *BLOCKS, *NETWORKS] for row in measured(name, threads)
    ]
    harness.table("eight bits", rows)
    means = {}
    for threads in (1, 2):
        ratios = [row.ratio for row in rows if row.name in CONVOLUTIONS and row.threads == threads]
        if ratios:
            means[f"layers, {threads} threads"] = harness.geometric_mean(ratios)
            print(f"  geometric mean of the layers, {threads} threads: {harness.geometric_mean(ratios):.2f}")
    harness.save("quantized", rows, geometric_means=means)


if __name__ == "__main__":
    main(sys.argv[1:])
