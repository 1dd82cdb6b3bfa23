"""A decoder in the shape of Llama, which writes token after token: ONNX, weights of 4 bits, caches of the context.

    model = decoder(depth=4)                                   # runs in ONNX Runtime as it is
    step = minitvm.build(model, states=True)                   # one token a run
    prompt = minitvm.build(decoder(depth=4, tokens=32), states=True)
    tokens = greedy(step, [1, 42, 7], 100, prompt)

Operators are those that exporters for ONNX Runtime write: GroupQueryAttention with rotary positions, MatMulNBits with
blocks of 32, SkipSimplifiedLayerNormalization. Weights are random, and the same for every number of tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_BLOCK = 32  # weights that share a scale
_SPREAD = math.sqrt((16**2 - 1) / 12)  # the deviation of sixteen integers, all alike often
_CONTRIB = "com.microsoft"


def decoder(
    seed: int = 0,
    tokens: int = 1,
    context: int = 2048,
    depth: int = 4,
    width: int = 2048,
    heads: int = 32,
    key_heads: int = 4,
    hidden: int = 5632,
    vocabulary: int = 32000,
) -> Any:
    """The model for `tokens` tokens a run, as an `onnx.ModelProto`; its sizes are TinyLlama's, but for the depth.

    Inputs are `input_ids` int64 [1, tokens], `seqlens_k` int32 [1], the place of the last of them, and
    `total_sequence_length` int32 [1], one more. Outputs are the logits [1, tokens, vocabulary]. The states
    `past_key_values.0.key`, ... become `present.0.key`, ..., float32 [1, key_heads, context, width / heads].
    Architecture: Touvron et al. 2023 (Llama 2), Zhang et al. 2024 (TinyLlama).
    """
    import onnx

    net = _DecoderGraph(seed, heads, key_heads, context, width // heads)
    half = width // heads // 2
    angles = np.arange(context)[:, None] * 10000.0 ** -(np.arange(half) / half)
    net.weight("cosines", np.cos(angles).astype(np.float32))
    net.weight("sines", np.sin(angles).astype(np.float32))
    net.weight("table", net.rng.standard_normal((vocabulary, width)).astype(np.float16))
    (x,) = net.node("Cast", net.node("Gather", ["table", "input_ids"]), to=onnx.TensorProto.FLOAT)
    (y,) = net.node("SimplifiedLayerNormalization", [x, net.gains(width)], axis=-1, epsilon=1e-5)
    for layer in range(depth):
        qkv = net.product(y, width, width // heads * (heads + 2 * key_heads))
        x, y = net.added(x, net.product(net.attention(qkv, layer), width, width, 0.5), width)
        gate, up = net.product(y, width, hidden), net.product(y, width, hidden)
        (gate,) = net.node("Mul", [gate, *net.node("Sigmoid", [gate])])
        (gate,) = net.node("Mul", [gate, up])
        x, y = net.added(x, net.product(gate, hidden, width), width)
    net.product(y, width, vocabulary, output="logits")
    return net.model(tokens, vocabulary)


class _DecoderGraph:
    """An ONNX graph in the making."""

    def __init__(self, seed: int, heads: int, key_heads: int, context: int, width: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.heads, self.key_heads = heads, key_heads
        self.cache = (1, key_heads, context, width)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.layers = 0

    def weight(self, name: str, array: np.ndarray) -> str:
        """A new constant; its name."""
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str] = (), domain: str = "", **attrs: Any
    ) -> list[str]:  # fmt: skip
        """A new node; the names of its outputs."""
        from onnx import helper

        names = list(outputs) or [f"{op}_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op, list(inputs), names, f"n{len(self.nodes)}", domain=domain, **attrs))
        return names

    def gains(self, width: int) -> str:
        """What a normalised row is multiplied by."""
        return self.weight(f"gains_{len(self.weights)}", self.rng.uniform(0.6, 1.4, width).astype(np.float32))

    def product(self, x: str, depth: int, columns: int, gain: float = 1.0, output: str = "") -> str:
        """x times weights of 4 bits, so that the result is `gain` times as large."""
        shape, count = (columns, depth // _BLOCK, _BLOCK // 2), len(self.weights)
        stored = self.rng.integers(0, 256, shape, np.uint8)
        scales = self.rng.uniform(0.5, 1.5, shape[:2]) * gain / (_SPREAD * math.sqrt(depth))
        inputs = [x, self.weight(f"w_{count}", stored), self.weight(f"s_{count}", scales.astype(np.float32))]
        attrs = {"K": depth, "N": columns, "bits": 4, "block_size": _BLOCK, "accuracy_level": 4}
        return self.node("MatMulNBits", inputs, [output] if output else (), _CONTRIB, **attrs)[0]

    def attention(self, qkv: str, layer: int) -> str:
        """Attention of packed queries, keys and values to the caches of a layer."""
        self.layers += 1
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        present = [f"present.{layer}.{part}" for part in ("key", "value")]
        return self.node(
            "GroupQueryAttention",
            [qkv, "", "", *past, "seqlens_k", "total_sequence_length", "cosines", "sines"],
            [f"mixed_{layer}", *present], _CONTRIB,
            num_heads=self.heads, kv_num_heads=self.key_heads, do_rotary=1,
        )[0]  # fmt: skip

    def added(self, x: str, y: str, width: int) -> tuple[str, str]:
        """x + y, and that normalised."""
        normal, total = f"normal_{len(self.nodes)}", f"sum_{len(self.nodes)}"
        inputs = [x, y, self.gains(width)]
        self.node("SkipSimplifiedLayerNormalization", inputs, [normal, "", "", total], _CONTRIB, epsilon=1e-5)
        return total, normal

    def model(self, tokens: int, vocabulary: int) -> Any:
        """The whole."""
        from onnx import TensorProto, helper

        def info(name: str, kind: int, shape: Sequence[int]) -> Any:
            return helper.make_tensor_value_info(name, kind, list(shape))

        places = [f"{layer}.{part}" for layer in range(self.layers) for part in ("key", "value")]
        inputs = [
            info("input_ids", TensorProto.INT64, (1, tokens)),
            info("seqlens_k", TensorProto.INT32, (1,)),
            info("total_sequence_length", TensorProto.INT32, (1,)),
            *(info(f"past_key_values.{p}", TensorProto.FLOAT, self.cache) for p in places),
        ]
        outputs = [
            info("logits", TensorProto.FLOAT, (1, tokens, vocabulary)),
            *(info(f"present.{p}", TensorProto.FLOAT, self.cache) for p in places),
        ]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(_CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def greedy(step: Any, prompt: Sequence[int], count: int, many: Any = None) -> list[int]:
    """The `count` tokens that the model finds most likely behind `prompt`, one after the other.

    `step` is a module of one token a run, whose states are lost. `many` is a module of the same model for several
    tokens a run; as much of the prompt as fills such runs goes through it, and its states go on to `step`.
    """
    done = 0
    logits = None
    step.reset()
    if many is not None:
        many.reset()
        size = next(s.shape[1] for s in many.executable.inputs if s.name == "input_ids")
        while done + size <= len(prompt):
            logits = many(**_inputs(prompt[done : done + size], done + size - 1))
            done += size
        step.state.update(many.state)
    tokens = list(prompt)
    for place in range(done, len(prompt) + count - 1):
        if place == len(tokens):
            tokens.append(_best(logits))
        logits = step(**_inputs(tokens[place : place + 1], place))
    return [*tokens[len(prompt) :], _best(logits)] if count else []


def _inputs(tokens: Sequence[int], last: int) -> dict[str, np.ndarray]:
    return {
        "input_ids": np.array([tokens], np.int64), "seqlens_k": np.array([last], np.int32),
        "total_sequence_length": np.array([last + 1], np.int32),
    }  # fmt: skip


def _best(logits: Any) -> int:
    return int(np.argmax(logits[0, -1]))
