"""Layers written into a graph, with weights from a seed: what every network here is built of."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph import Graph, GraphBuilder, Value

PICTURE = (1, 3, 224, 224)


class Layers:
    """A network in the making.

    Every method adds one layer and gives its output. Weights are centred normal numbers with a variance by fan-in that
    keeps the size of activations through a ReLU (He et al. 2015); each depends on the seed and on its own place in the
    network alone. Convolutions have a bias or a batch norm behind them, as the architecture says.
    """

    def __init__(
        self, name: str, seed: int, shape: Sequence[int] = PICTURE, input_name: str = "data", dtype: str = "float32"
    ) -> None:
        self.builder = GraphBuilder(name)
        self._seed = seed
        self._weights = 0
        self.input = self.another_input(input_name, shape, dtype)

    def build(self, output: Value | Sequence[Value]) -> Graph:
        """The finished graph."""
        return self.builder.build(output)

    def another_input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Value:
        """A new input of the network."""
        return self.builder.input(name, tuple(shape), dtype)

    def op(self, name: str, /, *inputs: Any, **attrs: Any) -> Value:
        """An operator of the graph with one output; arrays and numbers among its inputs are constants."""
        output: Value = self.builder.op(name, *inputs, **attrs)
        return output

    def split(self, x: Value, parts: int, axis: int) -> Sequence[Value]:
        """Equal parts along an axis."""
        values: Sequence[Value] = self.builder.op("split", x, indices_or_sections=parts, axis=axis)
        return values

    def constant(self, array: np.ndarray) -> Value:
        """A constant that several layers read."""
        return self.builder.constant(array)

    # ------------------------------------------------------------------ layers with weights

    def conv(
        self,
        x: Value,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> Value:
        """A convolution of NCHW data; `kernel` and `padding` are one number or (height, width)."""
        size = (kernel, kernel) if isinstance(kernel, int) else kernel
        shape = (channels, extent(x.shape[1]) // groups, *size)
        y = self.op("nn.conv2d", x, self._filters(shape), strides=(stride, stride), padding=padding, groups=groups)
        return self.op("nn.bias_add", y, self._normal((channels,), 0.1)) if bias else y

    def conv1d(self, x: Value, channels: int, kernel: int, stride: int = 1, padding: int = 0) -> Value:
        """A convolution of NCW data, with bias."""
        weight = self._filters((channels, extent(x.shape[1]), kernel))
        y = self.op("nn.conv1d", x, weight, strides=stride, padding=padding)
        return self.op("nn.bias_add", y, self._normal((channels,), 0.1))

    def conv_transpose(self, x: Value, channels: int, kernel: int, stride: int) -> Value:
        """A transposed convolution of NCHW data, with bias: a picture `stride` times as large."""
        # Of the taps that a filter has, kernel^2 / stride^2 meet in one point.
        weight = self._filters((channels, extent(x.shape[1]), kernel, kernel)).swapaxes(0, 1) * np.float32(stride)
        y = self.op("nn.conv2d_transpose", x, np.ascontiguousarray(weight), strides=stride)
        return self.op("nn.bias_add", y, self._normal((channels,), 0.1))

    def batch_norm(self, x: Value, gain: float = 1.0) -> Value:
        """Batch norm with statistics that are constants, as in inference; `gain` scales the result."""
        channels = (extent(x.shape[1]),)
        gamma = self._uniform(channels, 0.6 * gain, 1.4 * gain)
        beta, mean = self._normal(channels, 0.1), self._normal(channels, 0.1)
        return self.op("nn.batch_norm", x, gamma, beta, mean, self._uniform(channels, 0.6, 1.4))

    def conv_norm(self, x: Value, channels: int, kernel: int | tuple[int, int], stride: int = 1,
                  padding: int | tuple[int, int] = 0, groups: int = 1, gain: float = 1.0) -> Value:  # fmt: skip
        """A convolution without bias and its batch norm."""
        return self.batch_norm(self.conv(x, channels, kernel, stride, padding, groups), gain)

    def dense(self, x: Value, units: int, bias: bool = True, gain: float = 1.0) -> Value:
        """A fully connected layer of data [..., features]; `gain` scales its weights."""
        y = self.op("nn.dense", x, self._filters((units, extent(x.shape[-1]))) * np.float32(gain))
        return self.op("add", y, self._normal((units,), 0.1)) if bias else y

    def layer_norm(self, x: Value, epsilon: float = 1e-5) -> Value:
        """Each row, along the last axis, with a mean and a variance that are learnt."""
        width = (extent(x.shape[-1]),)
        gamma, beta = self._uniform(width, 0.6, 1.4), self._normal(width, 0.1)
        return self.op("nn.layer_norm", x, gamma, beta, axis=-1, epsilon=epsilon)

    def rms_norm(self, x: Value, epsilon: float = 1e-5) -> Value:
        """Each row, along the last axis, divided by its root mean square, times weights (Zhang and Sennrich 2019)."""
        return self.op("nn.rms_norm", x, self._uniform((extent(x.shape[-1]),), 0.6, 1.4), axis=-1, epsilon=epsilon)

    def squeeze_excite(self, x: Value, squeezed: int, activation: str = "nn.relu", gate: str = "sigmoid",
                       **settings: float) -> Value:  # fmt: skip
        """x with each channel scaled by a gate, computed from the means of all channels (Hu et al. 2017)."""
        means = self.op("nn.global_avg_pool", x)
        hidden = self.op(activation, self.conv(means, squeezed, 1, bias=True))
        scale = self.op(gate, self.conv(hidden, extent(x.shape[1]), 1, bias=True), **settings)
        return self.op("multiply", x, scale)

    def bidirectional_lstm(self, x: Value, hidden: int) -> Value:
        """An LSTM from each end, of x [steps, batch, features]: [steps, batch, 2 * hidden] (Graves et al. 2005)."""
        steps, batch, features = map(extent, x.shape)
        of_input = self._filters((8 * hidden, features)) / np.float32(math.sqrt(2))
        of_state = np.ascontiguousarray(self._filters((2, 4 * hidden, hidden)).swapaxes(1, 2)) / np.float32(
            math.sqrt(2)
        )
        gates = self.op("add", self.op("nn.dense", x, of_input), self._normal((8 * hidden,), 0.1))
        gates = self.op("reshape", gates, newshape=(steps, batch, 2, 4 * hidden))
        start = np.zeros((2, batch, hidden), np.float32)
        y, *_ = self.builder.op("nn.lstm", gates, of_state, start, start, direction="bidirectional")
        rows = self.op("transpose", y, axes=(0, 2, 1, 3))
        return self.op("reshape", rows, newshape=(steps, batch, 2 * hidden))

    def table(self, shape: Sequence[int], deviation: float = 0.5) -> np.ndarray:
        """Weights that are looked up or added: normal numbers."""
        return self._normal(tuple(shape), deviation)

    # ------------------------------------------------------------------ layers without

    def relu(self, x: Value) -> Value:
        """max(x, 0)"""
        return self.op("nn.relu", x)

    def relu6(self, x: Value) -> Value:
        """min(max(x, 0), 6)"""
        return self.op("clip", x, a_min=0.0, a_max=6.0)

    def gelu(self, x: Value, approximate: str = "none") -> Value:
        """x times the normal distribution function of x; `approximate="tanh"` is its usual approximation."""
        return self.op("nn.gelu", x, approximate=approximate)

    def max_pool(self, x: Value, size: int, stride: int, padding: int = 0, ceil_mode: bool = False) -> Value:
        """The largest of each window; `ceil_mode` keeps a last window that hangs over."""
        return self.op("nn.max_pool2d", x, pool_size=(size, size), strides=(stride, stride),
                        padding=(padding, padding), ceil_mode=ceil_mode)  # fmt: skip

    def avg_pool(self, x: Value, size: int, stride: int, padding: int = 0) -> Value:
        """The mean of each window, padding counted as zeros."""
        return self.op("nn.avg_pool2d", x, pool_size=(size, size), strides=(stride, stride),
                        padding=(padding, padding), count_include_pad=True)  # fmt: skip

    def global_avg_pool(self, x: Value) -> Value:
        """The mean over height and width, as [batch, channels]."""
        return self.flatten(self.op("nn.global_avg_pool", x))

    def flatten(self, x: Value) -> Value:
        """[batch, everything else]"""
        return self.op("reshape", x, newshape=(x.shape[0], math.prod(extent(d) for d in x.shape[1:])))

    def add(self, a: Value, b: Value | np.ndarray) -> Value:
        """a + b; an array is a constant."""
        return self.op("add", a, b)

    def to_channels_last(self, x: Value) -> Value:
        """NCHW as NHWC."""
        return self.op("transpose", x, axes=(0, 2, 3, 1))

    def to_channels_first(self, x: Value) -> Value:
        """NHWC as NCHW."""
        return self.op("transpose", x, axes=(0, 3, 1, 2))

    def concat(self, parts: Sequence[Value]) -> Value:
        """Joined along the channels."""
        return self.op("concatenate", *parts, axis=1)

    # ------------------------------------------------------------------ weights

    def _generator(self) -> np.random.Generator:
        self._weights += 1
        return np.random.default_rng([self._seed, zlib.crc32(self.builder.name.encode()), self._weights])

    def _filters(self, shape: tuple[int, ...]) -> np.ndarray:
        """Filters that sum to zero where they see many values: behind a ReLU a mean would grow with every layer."""
        fan_in = math.prod(shape[1:])
        drawn = self._generator().standard_normal(shape, dtype=np.float32)
        drawn *= np.float32(math.sqrt((2 if fan_in < 16 else 3) / fan_in))
        if fan_in >= 16:
            drawn -= drawn.mean(axis=tuple(range(1, len(shape))), keepdims=True)
        return drawn

    def _normal(self, shape: tuple[int, ...], deviation: float) -> np.ndarray:
        return self._generator().standard_normal(shape, dtype=np.float32) * np.float32(deviation)

    def _uniform(self, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
        return self._generator().uniform(low, high, shape).astype(np.float32)


def extent(dim: Any) -> int:
    """A dimension of a network here: all of them are numbers."""
    return int(dim)


def rounded_to_eight(channels: float) -> int:
    """The nearest multiple of eight, but no less than nine tenths of it: how MobileNets round their widths."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest
