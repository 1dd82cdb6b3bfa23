"""Random graphs for the passes, and running a graph by the te of its operators instead of by the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder, Value
from minitvm.graph.lower import to_te
from minitvm.reference.te import evaluate


def by_te(graph: Graph, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a graph, each node (fused ones too) lowered to te and interpreted there."""
    arrays = {value: inputs[value.name] for value in graph.inputs}
    arrays.update(graph.arrays())
    for node in graph.nodes:
        tensors = to_te(node)
        count = len(node.inputs)
        given = {tensor: arrays[v] for tensor, v in zip(tensors[:count], node.inputs, strict=True)}
        results = evaluate(tensors[count:], given)
        arrays.update(zip(node.outputs, results, strict=True))
    return [arrays[v] for v in graph.outputs]


def feed(graph: Graph, seed: int = 0, **sizes: int) -> dict[str, np.ndarray]:
    """Random arrays for the inputs; symbolic dimensions by name."""
    rng = np.random.default_rng(seed)
    shapes = {v.name: tuple(d if isinstance(d, int) else sizes[str(d)] for d in v.shape) for v in graph.inputs}
    return {v.name: rng.standard_normal(shapes[v.name]).astype(v.dtype.numpy) for v in graph.inputs}


class _Drawing:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 999)))
        self.b = GraphBuilder()
        self.values: list[Value] = [self.b.input(f"x{k}", (1, 4, 6, 6)) for k in range(draw(st.integers(1, 2)))]

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype("float32")

    def pick(self, ndim: int | None = None) -> Value:
        fitting = [v for v in self.values if ndim is None or v.ndim == ndim]
        return self.draw(st.sampled_from(fitting or self.values))

    def partner(self, x: Value) -> Value:
        return self.draw(st.sampled_from([v for v in self.values if v.shape == x.shape]))


def _conv(d: _Drawing) -> Any:
    x = d.pick(4)
    if x.ndim != 4:
        return d.b.op("nn.relu", x)
    channels = int(x.shape[1])  # type: ignore[call-overload]
    size = d.draw(st.sampled_from([1, 3]))
    return d.b.op("nn.conv2d", x, d.normal(d.draw(st.sampled_from([4, 8])), channels, size, size), padding=size // 2)


def _batch_norm(d: _Drawing) -> Any:
    x = d.pick(4)
    n = int(x.shape[1])  # type: ignore[call-overload]
    return d.b.op("nn.batch_norm", x, d.normal(n), d.normal(n), d.normal(n), np.abs(d.normal(n)) + 0.5)


def _bias(d: _Drawing) -> Any:
    x = d.pick(4)
    return d.b.op("nn.bias_add", x, d.normal(int(x.shape[1])))  # type: ignore[call-overload]


def _reshape(d: _Drawing) -> Any:
    x = d.pick()
    n = int(np.prod([int(v) for v in x.shape]))  # type: ignore[call-overload]
    return d.b.op("reshape", x, newshape=d.draw(st.sampled_from([(1, n), (n,), (1, 2, -1), tuple(x.shape)])))


def _transpose(d: _Drawing) -> Any:
    x = d.pick()
    return d.b.op("transpose", x, axes=tuple(d.draw(st.permutations(range(x.ndim)))))


def _concatenate(d: _Drawing) -> Any:
    x = d.pick()
    return d.b.op("concatenate", x, d.partner(x), axis=-1)


def _arithmetic(d: _Drawing) -> Any:
    x = d.pick()
    return d.b.op(d.draw(st.sampled_from(["add", "maximum", "subtract"])), x, d.partner(x))


def _scalar(d: _Drawing) -> Any:
    return d.b.op("multiply", d.pick(), d.draw(st.sampled_from([1.0, 0.5])))


def _activation(d: _Drawing) -> Any:
    return d.b.op(d.draw(st.sampled_from(["nn.relu", "tanh", "sigmoid", "nn.dropout", "copy"])), d.pick())


def _shape(d: _Drawing) -> Any:
    x = d.pick()
    dims = d.b.op("cast", d.b.op("shape_of", x), dtype="float32")
    return d.b.op("multiply", d.b.op("take", dims, np.array(0)), x)


def _reduction(d: _Drawing) -> Any:
    x = d.pick()
    return d.b.op(d.draw(st.sampled_from(["sum", "max", "mean"])), x, axis=-1, keepdims=True)


def _pool(d: _Drawing) -> Any:
    x = d.pick(4)
    return d.b.op("nn.max_pool2d", x, pool_size=3, strides=1, padding=1) if x.ndim == 4 else d.b.op("copy", x)


def _split(d: _Drawing) -> Any:
    x = d.pick(4)
    return d.b.op("split", x, indices_or_sections=2, axis=1)[d.draw(st.integers(0, 1))]


def _softmax(d: _Drawing) -> Any:
    return d.b.op("nn.softmax", d.pick())


_NEEDS_CHANNELS = (_batch_norm, _bias, _split)


@st.composite
def graphs(draw: st.DrawFn, largest: int = 10) -> Graph:
    """Small networks: convolutions, normalisations, activations, rearrangements, reductions, shape arithmetic."""
    d = _Drawing(draw)
    moves = [
        _conv, _conv, _batch_norm, _bias, _reshape, _transpose, _concatenate, _arithmetic, _arithmetic, _scalar,
        _activation, _activation, _shape, _reduction, _pool, _split, _softmax,
    ]  # fmt: skip
    for _ in range(draw(st.integers(1, largest))):
        move = draw(st.sampled_from(moves))
        if move in _NEEDS_CHANNELS and not any(v.ndim == 4 and v.shape[1] in (4, 8) for v in d.values):
            continue
        if move in _NEEDS_CHANNELS:
            kept = d.values
            d.values = [v for v in kept if v.ndim == 4 and v.shape[1] in (4, 8)]
            made = move(d)
            d.values = kept
        else:
            made = move(d)
        d.values.append(made)
    outputs = draw(st.lists(st.sampled_from(d.values), min_size=1, max_size=2, unique_by=id))
    return d.b.build([*outputs, d.values[-1]])
