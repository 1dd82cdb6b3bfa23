"""Random chains of operators on images, of floats and of bytes: what minitvm computes, and what LiteRT computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minitvm.frontends import from_tflite
from minitvm.reference import graph as interpreter
from minitvm.tools.cli.litert import Peer
from tests.fewer import examples

from .writing import Graph, Node, Tensor, constant, written

TOLERANCE = 1e-4  # of the largest element: sums follow each other


@dataclass
class Chain:
    """A model that grows. `shape` is that of the last tensor; `images` are the tensors so far, by index."""

    data: st.DataObject
    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    @property
    def last(self) -> int:
        return self.nodes[-1].outputs[0] if self.nodes else 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensors[self.last].shape

    def number(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def weights(self, *shape: int, dtype: str = "float32") -> int:
        self.tensors.append(constant(np.random.default_rng(len(self.tensors)).uniform(-1, 1, shape).astype(dtype)))
        return len(self.tensors) - 1

    def integers(self, values: Any) -> int:
        self.tensors.append(constant(np.asarray(values, "int32")))
        return len(self.tensors) - 1

    def add(self, op: str, inputs: list[int], shape: tuple[int, ...], table: str = "", **options: Any) -> None:
        self.tensors.append(Tensor(shape))
        self.nodes.append(Node(op, inputs, [len(self.tensors) - 1], table, options))


def _windows(c: Chain) -> tuple[dict[str, Any], tuple[int, int], tuple[int, int]]:
    """Options of windows over the last image, their extents, and how many there are."""
    kernel, stride, same = c.number(1, 3), c.number(1, 2), c.number(0, 1)
    if not same:
        kernel = min(kernel, *c.shape[1:3])
    counts = [-(-n // stride) if same else (n - kernel) // stride + 1 for n in c.shape[1:3]]
    options = {"padding": 1 - same, "strideH": stride, "strideW": stride, "fusedActivationFunction": c.number(0, 3)}
    return options, (kernel, kernel), (counts[0], counts[1])


def _conv(c: Chain) -> None:
    options, kernel, counts = _windows(c)
    filters = c.number(1, 5)
    inputs = [c.last, c.weights(filters, *kernel, c.shape[3]), c.weights(filters)]
    c.add("CONV_2D", inputs, (c.shape[0], *counts, filters), "Conv2DOptions", **options)


def _depthwise(c: Chain) -> None:
    options, kernel, counts = _windows(c)
    many = c.number(1, 2)
    channels = c.shape[3] * many
    inputs = [c.last, c.weights(1, *kernel, channels), c.weights(channels)]
    shape = (c.shape[0], *counts, channels)
    c.add("DEPTHWISE_CONV_2D", inputs, shape, "DepthwiseConv2DOptions", depthMultiplier=many, **options)


def _pool(c: Chain) -> None:
    options, (height, width), counts = _windows(c)
    op = c.data.draw(st.sampled_from(["MAX_POOL_2D", "AVERAGE_POOL_2D"]))
    shape = (c.shape[0], *counts, c.shape[3])
    c.add(op, [c.last], shape, "Pool2DOptions", filterHeight=height, filterWidth=width, **options)


def _map(c: Chain) -> None:
    c.add(c.data.draw(st.sampled_from(["RELU", "TANH", "LOGISTIC", "ABS", "HARD_SWISH"])), [c.last], c.shape)


def _add_row(c: Chain) -> None:
    shape = c.data.draw(st.sampled_from([c.shape[3:], (1,), (1, 1, 1, 1), (c.shape[1], 1, 1), c.shape]))
    c.add("ADD", [c.last, c.weights(*shape)], c.shape, "AddOptions", fusedActivationFunction=c.number(0, 1))


def _residual(c: Chain) -> None:
    others = [k for node in c.nodes for k in node.outputs if c.tensors[k].shape == c.shape]
    other = c.data.draw(st.sampled_from(others or [c.last]))
    c.add("MUL", [c.last, other], c.shape, "MulOptions")


def _prelu(c: Chain) -> None:
    c.add("PRELU", [c.last, c.weights(1, 1, c.shape[3])], c.shape)


def _pad(c: Chain) -> None:
    pairs = [(c.number(0, 1), c.number(0, 2)) for _ in range(4)]
    shape = tuple(n + a + b for n, (a, b) in zip(c.shape, pairs))
    if c.number(0, 1):
        c.add("PAD", [c.last, c.integers(pairs)], shape, "PadOptions")
    elif all(n > max(pair) for n, pair in zip(c.shape, pairs)):
        c.add("MIRROR_PAD", [c.last, c.integers(pairs)], shape, "MirrorPadOptions", mode=c.number(0, 1))


def _join(c: Chain) -> None:
    axis = c.number(0, 3)
    shape = tuple(n * 2 if a == axis else n for a, n in enumerate(c.shape))
    c.add("CONCATENATION", [c.last, c.last], shape, "ConcatenationOptions", axis=axis - 4 * c.number(0, 1))


def _reduce(c: Chain) -> None:
    axes = sorted(c.data.draw(st.sets(st.integers(0, 3), min_size=1, max_size=2)))
    op = c.data.draw(st.sampled_from(["MEAN", "SUM", "REDUCE_MAX"]))
    kept = tuple(1 if a in axes else n for a, n in enumerate(c.shape))
    if c.number(0, 1):
        c.add(op, [c.last, c.integers(axes)], kept, "ReducerOptions", keepDims=True)
        return
    rest = tuple(n for a, n in enumerate(c.shape) if a not in axes)
    c.add(op, [c.last, c.integers(axes)], rest, "ReducerOptions", keepDims=False)
    c.add("RESHAPE", [c.last, c.integers(kept)], kept, "ReshapeOptions", newShape=list(kept))


def _slice(c: Chain) -> None:
    begin = [c.number(0, n - 1) for n in c.shape]
    size = [c.number(1, n - b) for n, b in zip(c.shape, begin)]
    c.add("SLICE", [c.last, c.integers(begin), c.integers(size)], tuple(size), "SliceOptions")


def _stride(c: Chain) -> None:
    steps = [c.data.draw(st.sampled_from([1, 1, 2, -1])) for _ in c.shape]
    shape = tuple(len(range(n)[::step]) for n, step in zip(c.shape, steps))
    ends = [c.integers(values) for values in ([0] * 4, [0] * 4, steps)]
    c.add("STRIDED_SLICE", [c.last, *ends], shape, "StridedSliceOptions", beginMask=15, endMask=15)


def _transpose(c: Chain) -> None:
    axes = c.data.draw(st.permutations(range(4)))
    c.add("TRANSPOSE", [c.last, c.integers(axes)], tuple(c.shape[a] for a in axes), "TransposeOptions")


def _reverse(c: Chain) -> None:
    c.add("REVERSE_V2", [c.last, c.integers([c.number(0, 3)])], c.shape, "ReverseV2Options")


def _resize(c: Chain) -> None:
    size = (c.number(1, 6), c.number(1, 6))
    op, table = c.data.draw(
        st.sampled_from(
            [("RESIZE_BILINEAR", "ResizeBilinearOptions"), ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")]
        )
    )
    half = bool(c.number(0, 1))
    c.add(op, [c.last, c.integers(size)], (c.shape[0], *size, c.shape[3]), table, halfPixelCenters=half)


def _softmax(c: Chain) -> None:
    c.add("SOFTMAX", [c.last], c.shape, "SoftmaxOptions", beta=1.0)


def _flatten(c: Chain) -> None:
    shape = (c.shape[0], 1, 1, int(np.prod(c.shape[1:])))
    c.add("RESHAPE", [c.last, c.integers(shape)], shape, "ReshapeOptions", newShape=list(shape))


_MOVES: tuple[Callable[[Chain], None], ...] = (
    _conv, _conv, _depthwise, _pool, _map, _add_row, _residual, _prelu, _pad, _join, _reduce, _slice, _stride,
    _transpose, _reverse, _resize, _softmax, _flatten,
)  # fmt: skip
_LARGEST = 4000  # elements of an image


@examples(60, 1500)
@given(st.data())
def test_a_chain(data: st.DataObject) -> None:
    chain = Chain(data, [Tensor((data.draw(st.integers(1, 2)), *(data.draw(st.integers(1, 6)) for _ in range(3))))])
    for move in data.draw(st.lists(st.sampled_from(_MOVES), min_size=1, max_size=8)):
        if np.prod(chain.shape) < _LARGEST:
            move(chain)
    if not chain.nodes:
        return
    model = written(Graph(chain.tensors, chain.nodes, [0], [chain.last]))
    array = np.random.default_rng(7).standard_normal(chain.tensors[0].shape).astype("float32")
    (expected,) = Peer(model)(array)
    (result,) = interpreter.run(from_tflite(model), [array])
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=TOLERANCE, atol=TOLERANCE * np.abs(expected).max(initial=0))


def _quantised(c: Chain, shape: tuple[int, ...]) -> Tensor:
    """A tensor of the chain's dtype with a random scale and zero point."""
    dtype = c.tensors[0].dtype
    low = np.iinfo(dtype).min
    scale = c.data.draw(st.sampled_from([0.02, 0.03125, 0.05, 0.11]))
    return Tensor(shape, dtype, scale=scale, zero=low + c.number(100, 150))


def _bytes_add(c: Chain, op: str, inputs: list[int], result: Tensor, table: str, **options: Any) -> None:
    c.tensors.append(result)
    c.nodes.append(Node(op, inputs, [len(c.tensors) - 1], table, options))


def _bytes_filters(c: Chain, shape: tuple[int, ...], axis: int) -> list[int]:
    """Filters with one scale per channel (int8) or one for all, and a bias."""
    data, generator = c.tensors[c.last], np.random.default_rng(len(c.tensors))
    count = shape[axis]
    whole = generator.integers(-127, 128, shape)
    scales: Any = generator.uniform(0.001, 0.02, count).astype("float32") if data.dtype == "int8" else np.float32(0.01)
    zero = 0 if data.dtype == "int8" else c.number(100, 150)
    weights = whole if data.dtype == "int8" else whole + 128
    c.tensors.append(constant(weights.astype(data.dtype), scale=scales, zero=zero, axis=axis))
    total = np.float32(data.scale) * scales
    c.tensors.append(constant(generator.integers(-2000, 2000, count).astype("int32"), scale=total))
    return [c.last, len(c.tensors) - 2, len(c.tensors) - 1]


def _bytes_conv(c: Chain) -> None:
    options, kernel, counts = _windows(c)
    filters = c.number(1, 5)
    inputs = _bytes_filters(c, (filters, *kernel, c.shape[3]), 0)
    result = _quantised(c, (c.shape[0], *counts, filters))
    _bytes_add(c, "CONV_2D", inputs, result, "Conv2DOptions", **options)


def _bytes_depthwise(c: Chain) -> None:
    options, kernel, counts = _windows(c)
    many = c.number(1, 2)
    inputs = _bytes_filters(c, (1, *kernel, c.shape[3] * many), 3)
    result = _quantised(c, (c.shape[0], *counts, c.shape[3] * many))
    _bytes_add(c, "DEPTHWISE_CONV_2D", inputs, result, "DepthwiseConv2DOptions", depthMultiplier=many, **options)


def _bytes_pool(c: Chain) -> None:
    options, (height, width), counts = _windows(c)
    options["fusedActivationFunction"] = 0
    data, op = c.tensors[c.last], c.data.draw(st.sampled_from(["MAX_POOL_2D", "AVERAGE_POOL_2D"]))
    result = Tensor((c.shape[0], *counts, c.shape[3]), data.dtype, scale=data.scale, zero=data.zero)
    _bytes_add(c, op, [c.last], result, "Pool2DOptions", filterHeight=height, filterWidth=width, **options)


def _bytes_pair(c: Chain) -> None:
    op = c.data.draw(st.sampled_from(["ADD", "SUB", "MUL"]))
    options = {"fusedActivationFunction": c.data.draw(st.sampled_from([0, 1, 3]))}
    others = [k for node in c.nodes for k in node.outputs if c.tensors[k].shape == c.shape]
    inputs = [c.last, c.data.draw(st.sampled_from(others or [c.last]))]
    _bytes_add(c, op, inputs, _quantised(c, c.shape), f"{op.capitalize()}Options", **options)


def _bytes_scale(c: Chain) -> None:
    _bytes_add(c, "QUANTIZE", [c.last], _quantised(c, c.shape), "QuantizeOptions")


def _bytes_pad(c: Chain) -> None:
    pairs = [(c.number(0, 1), c.number(0, 2)) for _ in range(4)]
    data, inputs = c.tensors[c.last], [c.last, c.integers(pairs)]
    shape = tuple(n + a + b for n, (a, b) in zip(c.shape, pairs))
    _bytes_add(c, "PAD", inputs, Tensor(shape, data.dtype, scale=data.scale, zero=data.zero), "PadOptions")


def _bytes_join(c: Chain) -> None:
    axis, data = c.number(0, 3), c.tensors[c.last]
    shape = tuple(n * 2 if a == axis else n for a, n in enumerate(c.shape))
    result = Tensor(shape, data.dtype, scale=data.scale, zero=data.zero)
    _bytes_add(c, "CONCATENATION", [c.last, c.last], result, "ConcatenationOptions", axis=axis)


def _bytes_flatten(c: Chain) -> None:
    shape = (c.shape[0], 1, 1, int(np.prod(c.shape[1:])))
    data, inputs = c.tensors[c.last], [c.last, c.integers(shape)]
    result = Tensor(shape, data.dtype, scale=data.scale, zero=data.zero)
    _bytes_add(c, "RESHAPE", inputs, result, "ReshapeOptions", newShape=list(shape))


_BYTE_MOVES: tuple[Callable[[Chain], None], ...] = (
    _bytes_conv, _bytes_conv, _bytes_depthwise, _bytes_pool, _bytes_pair, _bytes_scale, _bytes_pad, _bytes_join,
    _bytes_flatten,
)  # fmt: skip


@examples(60, 1500)
@given(st.data())
def test_a_chain_of_bytes(data: st.DataObject) -> None:
    """Every operator of these is equal to the bit."""
    shape = (data.draw(st.integers(1, 2)), *(data.draw(st.integers(1, 6)) for _ in range(3)))
    chain = Chain(data, [Tensor(shape, data.draw(st.sampled_from(["int8", "uint8"])))])
    chain.tensors[0] = _quantised(chain, shape)
    for move in data.draw(st.lists(st.sampled_from(_BYTE_MOVES), min_size=1, max_size=6)):
        if np.prod(chain.shape) < _LARGEST:
            move(chain)
    model = written(Graph(chain.tensors, chain.nodes, [0], [chain.last]))
    limits = np.iinfo(chain.tensors[0].dtype)
    array = np.random.default_rng(7).integers(limits.min, limits.max, shape, chain.tensors[0].dtype, endpoint=True)
    (expected,) = Peer(model)(array)
    (result,) = interpreter.run(from_tflite(model), [array])
    np.testing.assert_array_equal(result, expected)
