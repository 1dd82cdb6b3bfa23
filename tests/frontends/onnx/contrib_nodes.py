"""Nodes of the domain com.microsoft, as ONNX Runtime's optimizer writes them, with arrays for their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

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
