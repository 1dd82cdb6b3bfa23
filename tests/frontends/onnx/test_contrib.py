"""Operators of the domain com.microsoft, as ONNX Runtime's optimizer writes them: what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from minitvm.errors import UnsupportedOperator
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter

from .contrib_nodes import CASES, EXPERTS, INNER, PROJECTED, SECOND, B, D, H, S, f

ort = pytest.importorskip("onnxruntime")


def model(op: str, inputs: list[Any], fed: int, outputs: int, attrs: dict[str, Any], open_sizes: bool) -> Any:
    """The operator alone. All its sizes but the last are open, each by itself, or none is."""
    labels = [f"x{k}" if value is not None else "" for k, value in enumerate(inputs)]
    results = ["y0", *("" for _ in range(outputs - 2)), *(["y1"] if outputs > 1 else [])]
    if op == "MultiHeadAttention" and outputs == 3:
        results = ["y0", "y1", "y2"]
    domain = "" if op == "SimplifiedLayerNormalization" else "com.microsoft"
    node = helper.make_node(op, labels, results, domain=domain, **attrs)
    feeds = []
    for name, value in zip(labels[:fed], inputs[:fed], strict=True):
        whole = list(value.shape)
        dims = [*(f"{name}_{axis}" for axis in range(value.ndim - 1)), whole[-1]] if open_sizes else whole
        feeds.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), dims))
    constants = [numpy_helper.from_array(v, n) for n, v in zip(labels[fed:], inputs[fed:], strict=True) if n]
    graph = helper.make_graph(
        [node], op, feeds, [onnx.ValueInfoProto(name=name) for name in results if name], constants
    )
    versions = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


@pytest.mark.parametrize("open_sizes", [False, True], ids=["fixed", "open"])
@pytest.mark.parametrize("case", CASES, ids=[f"{k} {case[0]}" for k, case in enumerate(CASES)])
def test_what_onnx_runtime_computes(case: tuple[str, list[Any], int, int, dict[str, Any]], open_sizes: bool) -> None:
    op, inputs, fed, outputs, attrs = case
    proto = model(op, inputs, fed, outputs, attrs, open_sizes)
    feed = {f"x{k}": value for k, value in enumerate(inputs[:fed])}
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found = interpreter.run(from_onnx(proto), feed)
    for a, b in zip(found, session.run(None, feed), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_what_is_for_training_or_packed_is_refused() -> None:
    packed = model("MultiHeadAttention", [f(B, S, H, 3, 4)], 1, 1, {"num_heads": H}, False)
    with pytest.raises(UnsupportedOperator, match="packed queries"):
        from_onnx(packed)
    unknown = model("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3)], 1, 1, {"activation": "Swish"}, False)
    with pytest.raises(UnsupportedOperator, match="attribute activation='Swish' is not supported"):
        from_onnx(unknown)


@pytest.mark.parametrize("fusion", [0, 2])
def test_gated_experts_that_onnx_runtime_has_on_gpus_alone(fusion: int) -> None:
    """The gate is a layer of its own, or the first half of one."""
    x, router, (up, gate, down) = f(5, D), f(5, EXPERTS), (f(EXPERTS, INNER, D), f(EXPERTS, INNER, D), SECOND[0])
    layers = [gate, None, down, None, up] if fusion == 0 else [np.concatenate([gate, up], 1), None, down]
    attrs = {"k": 1, "activation_type": "swiglu", "swiglu_fusion": fusion, "normalize_routing_weights": 1}
    (found,) = interpreter.run(from_onnx(model("MoE", [x, router, *layers], 2, 1, attrs, True)), [x, router])
    for token, expert in enumerate(router.argmax(1)):
        g, u = gate[expert] @ x[token], up[expert] @ x[token]
        np.testing.assert_allclose(found[token], down[expert] @ (g / (1 + np.exp(-g)) * u), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", [[5, 4, 1, 0], [3, 4], [1, 0, 1]])
def test_masks_of_numbers(mask: list[int]) -> None:
    """How many keys are seen; or where they end, and then where they begin."""
    case = [PROJECTED[0], *PROJECTED[1:], np.array(mask, np.int32)]
    proto = model("Attention", case, 1, 1, {"num_heads": H}, False)
    if len(mask) == 3:
        with pytest.raises(UnsupportedOperator, match="a mask of 3 numbers .*: wanted one or two for each of 2"):
            from_onnx(proto)
        return
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x0": case[0]})
    np.testing.assert_allclose(interpreter.run(from_onnx(proto), [case[0]])[0], wanted, rtol=2e-4, atol=2e-5)
