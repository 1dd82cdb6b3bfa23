"""Operators of the domain com.microsoft, as ONNX Runtime's optimizer writes them: what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from minitvm.errors import UnsupportedOperator
from minitvm.frontend import from_onnx
from minitvm.reference import graph as interpreter

ort = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ids(most: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, most, shape).astype(np.int32)


B, S, H, D = 2, 5, 2, 8  # batch, length, heads, width
LENGTHS = np.array([5, 3], np.int32)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
ANGLES = np.outer(np.arange(12), [1.0, 0.1]).astype(np.float32)
PROJECTED: list[Any] = [f(B, S, D), f(D, 3 * D), f(3 * D)]
QKV: list[Any] = [f(B, S, D), f(B, S, D), f(B, S, D)]
QUANTISED: list[Any] = [
    RNG.integers(0, 256, (B, S, D)).astype(np.uint8), RNG.integers(-9, 9, (D, 3 * D)).astype(np.int8), f(3 * D),
    np.float32(0.02),
]  # fmt: skip
EXPERTS, INNER, WIDE = 3, 16, 32
FIRST, SECOND = (f(EXPERTS, INNER, D), f(EXPERTS, INNER)), (f(EXPERTS, D, INNER), f(EXPERTS, D))


def of_bits(bits: int, block: int | None, zeros: bool) -> list[Any]:
    """Weights of experts in `bits` bits with their scales, one or one a block, and zero points: inputs of QMoE."""
    each = 8 // bits
    layers, points = [], []
    for units, depth in ((INNER, WIDE), (WIDE, INNER)):
        blocks = [depth // block] if block else []
        stored = RNG.integers(0, 256, (EXPERTS, units, depth // each)).astype(np.uint8)
        layers.append([stored, np.abs(f(EXPERTS, units, *blocks)) / 50, f(EXPERTS, units)])
        shape = (EXPERTS, units, -(-blocks[0] // each)) if block else (EXPERTS, -(-units // each))
        points.append(RNG.integers(0, 256, shape).astype(np.uint8))
    return [*layers[0], *layers[1], *([None, None, None, *points] if zeros else [])]


MEMORY: list[Any] = [f(B, 3, D), f(B, S, D), f(B, S, D)]

# operator, inputs (None: left out), how many of them are not weights, number of outputs, attributes
CASES: list[tuple[str, list[Any], int, int, dict[str, Any]]] = [
    ("Gelu", [f(2, 9)], 1, 1, {}),
    ("BiasGelu", [f(2, 9), f(9)], 1, 1, {}),
    ("FastGelu", [f(2, 9)], 1, 1, {}),
    ("FastGelu", [f(2, 9), f(9)], 1, 1, {}),
    ("QuickGelu", [f(2, 9)], 1, 1, {"alpha": 1.5}),
    ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)], 1, 1, {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4), f(1, 4, 4, 4)], 1, 1, {"activation": "Relu"}),
    ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3)], 1, 1, {"activation": "LeakyRelu", "activation_params": [0.2]}),
    ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)], 1, 1, {"activation": "Clip", "activation_params": [0.0, 1.0]}),
    ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3)], 1, 1, {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}),
    ("FusedGemm", [f(4, 3), f(5, 3), f(5)], 1, 1, {"activation": "Tanh", "transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("FusedGemm", [f(4, 3), f(3, 5)], 1, 1, {"activation": "LeakyRelu", "activation_alpha": 0.3}),
    ("FusedMatMul", [f(2, 3, 4), f(2, 5, 4)], 2, 1, {"transB": 1, "alpha": 0.25}),
    ("FusedMatMul", [f(2, 4, 3), f(2, 4, 5)], 2, 1, {"transA": 1}),
    ("FusedMatMul", [f(3, 2, 4), f(2, 4, 5)], 2, 1, {"transBatchA": 1}),
    ("FusedMatMul", [f(2, 3, 4), f(5, 2, 4)], 2, 1, {"transBatchB": 1, "transB": 1}),
    ("SkipLayerNormalization", [f(B, S, D), f(B, S, D), f(D), f(D), f(D)], 2, 4, {"epsilon": 1e-5}),
    ("SkipLayerNormalization", [f(B, S, D), f(B, S, D), f(D)], 2, 1, {}),
    ("SkipSimplifiedLayerNormalization", [f(B, S, D), f(B, S, D), f(D), f(D)], 2, 4, {"epsilon": 1e-5}),
    ("SimplifiedLayerNormalization", [f(B, S, D), f(D)], 1, 1, {"axis": -1, "epsilon": 1e-5}),
    ("EmbedLayerNormalization", [ids(9, B, S), ids(2, B, S), f(9, D), f(7, D), f(2, D), f(D), f(D), MASK], 2, 2, {}),
    ("EmbedLayerNormalization", [ids(9, B, S), None, f(9, D), f(7, D), None, f(D), f(D)], 1, 2, {"epsilon": 1e-6}),
    ("Attention", PROJECTED, 1, 1, {"num_heads": H}),
    ("Attention", [*PROJECTED, LENGTHS], 1, 1, {"num_heads": H}),
    ("Attention", [*PROJECTED, MASK], 1, 1, {"num_heads": H}),
    ("Attention", [*PROJECTED, np.tile(MASK[:, None], (1, S, 1))], 1, 1, {"num_heads": H}),
    ("Attention", PROJECTED, 1, 1, {"num_heads": H, "unidirectional": 1}),
    ("Attention", [*PROJECTED, None, f(2, B, H, 3, D // H)], 1, 2, {"num_heads": H, "unidirectional": 1}),
    ("Attention", [*PROJECTED, None, None, f(B, H, S, S)], 1, 1, {"num_heads": H, "scale": 0.3}),
    ("Attention", [f(B, S, D), f(D, 20), f(20)], 1, 1, {"num_heads": H, "qkv_hidden_sizes": [8, 8, 4]}),
    ("MultiHeadAttention", QKV, 3, 1, {"num_heads": H}),
    ("MultiHeadAttention", [*MEMORY, f(3 * D)], 3, 1, {"num_heads": H}),
    ("MultiHeadAttention", [*MEMORY, None, MASK], 3, 1, {"num_heads": H}),
    ("MultiHeadAttention", [*QKV, None, None, f(1, H, S, S)], 3, 1, {"num_heads": H}),
    ("MultiHeadAttention", [*QKV, None, None, None, f(B, H, 3, 4), f(B, H, 3, 4)], 3, 3, {"num_heads": H}),
    ("RotaryEmbedding", [f(B, S, D), np.array([2]), np.cos(ANGLES), np.sin(ANGLES)], 1, 1, {}),
    ("RotaryEmbedding", [f(B, H, S, 4), ids(9, B, S).astype(np.int64), np.cos(ANGLES), np.sin(ANGLES)], 2, 1, {}),
    ("RotaryEmbedding", [f(B, S, D), np.array([0]), np.cos(ANGLES), np.sin(ANGLES)], 1, 1, {"interleaved": 1}),
    (
        "RotaryEmbedding", [f(B, S, 12), np.array([1]), np.cos(ANGLES), np.sin(ANGLES)], 1, 1,
        {"rotary_embedding_dim": 4, "num_heads": 2},
    ),
    ("QAttention", [*QUANTISED, np.float32(0.01), LENGTHS, np.uint8(120), np.int8(1)], 1, 1, {"num_heads": H}),
    (
        "QAttention", [*QUANTISED, np.abs(f(3 * D)) / 99, None, np.uint8(3), np.zeros(3 * D, np.int8),
                       f(2, B, H, 3, D // H)], 1, 2,
        {"num_heads": H, "unidirectional": 1},
    ),
    ("MoE", [f(B, S, D), f(B * S, EXPERTS), *FIRST, *SECOND], 2, 1, {"k": 1}),
    ("MoE", [f(9, D), f(9, EXPERTS), *FIRST, *SECOND], 2, 1, {"k": 2, "activation_type": "gelu"}),
    (
        "MoE", [f(9, D), f(9, EXPERTS), FIRST[0], None, SECOND[0]], 2, 1,
        {"k": 2, "activation_type": "silu", "normalize_routing_weights": 1},
    ),
    (
        "MoE", [f(9, D), f(9, EXPERTS), f(EXPERTS, 2 * INNER, D), f(EXPERTS, 2 * INNER), *SECOND], 2, 1,
        {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "swiglu_limit": 0.7, "activation_alpha": 1.702,
         "activation_beta": 1.0},
    ),
    *(
        ("QMoE", [f(9, WIDE), f(9, EXPERTS), *of_bits(*form)], 2, 1,
         {"k": 2, "activation_type": "silu", "expert_weight_bits": form[0],
          **({"block_size": form[1]} if form[1] else {})})
        for form in ((4, None, False), (4, None, True), (4, 16, True), (8, None, False))
    ),
]  # fmt: skip


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
