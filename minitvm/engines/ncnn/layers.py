"""The layers of ncnn that compute our operators.

ncnn's tensors have no batch: [1, c, h, w] is its [c, h, w], and [1, n] is its [n]. `LAYERS` maps an operator to a
function that returns its layer, or raises `Refused` with the reason why there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...graph.nodes import OpNode
from ...topi.shapes import paddings, per_axis

Params = dict[int, Any]


class Refused(Exception):
    """An operator has no layer; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: its type, its parameters by number, and whether its second operand is its weight."""

    kind: str
    params: Params = field(default_factory=dict)
    weighted: bool = False


def refusal(item: OpNode) -> str:
    """Return the reason why ncnn does not compute an operator, or ""."""
    if item.op not in LAYERS:
        return f"ncnn has no layer for {item.op}"
    values = (*item.inputs, *item.outputs)
    other = next((v for v in values if v.dtype != "float32"), None)
    if other is not None:
        return f"{other.name} is {other.dtype}, and ncnn computes in float32"
    try:
        LAYERS[item.op](item)
    except Refused as reason:
        return str(reason)
    return ""


def extents(shape: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape of a value in ncnn: without the batch. Raises `Refused` for values that ncnn does not have."""
    if len(shape) not in (2, 3, 4) or shape[0] != 1:
        raise Refused(f"wanted [1, n] or [1, c, h, w], found {list(shape)}")
    return tuple(int(d) for d in shape[1:])


def _window(item: OpNode, kernel: Sequence[int], name: str) -> Params:
    """Return the parameters of a window: kernel, stride, dilation and padding, which all layers number alike."""
    strides, dilation = (per_axis(item.attrs.get(key, 1), 2, key) for key in ("strides", "dilation"))
    (top, left), (bottom, right) = paddings(item.attrs["padding"], 2)
    if name == "Pooling":
        if tuple(dilation) != (1, 1):
            raise Refused("the window of a pool with dilation")
        return {1: kernel[1], 11: kernel[0], 2: strides[1], 12: strides[0], 3: left, 14: right, 13: top, 15: bottom}
    return {
        1: kernel[1], 11: kernel[0], 2: dilation[1], 12: dilation[0], 3: strides[1], 13: strides[0], 4: left, 15: right,
        14: top, 16: bottom,
    }  # fmt: skip


def _conv2d(item: OpNode) -> Layer:
    data, weight = item.inputs[0].shape, [int(d) for d in item.inputs[1].shape if isinstance(d, int)]
    if item.attrs["data_layout"] != "NCHW" or item.attrs["kernel_layout"] != "OIHW" or item.attrs["out_dtype"]:
        raise Refused("another layout or another dtype of the result")
    extents(data)
    groups = item.attrs["groups"]
    params = {0: weight[0], **_window(item, weight[2:], "Convolution"), 6: math.prod(weight)}
    if groups == 1:
        return Layer("Convolution", params, weighted=True)
    return Layer("ConvolutionDepthWise", {**params, 7: groups}, weighted=True)


def _dense(item: OpNode) -> Layer:
    if item.attrs["out_dtype"] or len(item.inputs[0].shape) != 2:
        raise Refused("a product of more than one row")
    extents(item.inputs[0].shape)
    weight = item.inputs[1].shape
    return Layer("InnerProduct", {0: weight[0], 2: math.prod(weight)}, weighted=True)


def _pool(kind: int) -> Callable[[OpNode], Layer]:
    def pool(item: OpNode) -> Layer:
        extents(item.inputs[0].shape)
        attrs = item.attrs
        if attrs.get("layout", "NCHW") != "NCHW":
            raise Refused("a pool with another layout")
        window = _window(item, per_axis(attrs["pool_size"], 2, "pool_size"), "Pooling")
        # Where the size is rounded up, ncnn pads the end, which is the same for maxima without other padding.
        if attrs["ceil_mode"] and (kind == 1 or any(window[key] for key in (3, 14, 13, 15))):
            raise Refused("a pool whose size is rounded up")
        params = {0: kind, **window, 5: 0 if attrs["ceil_mode"] else 1}
        if kind == 1 and attrs.get("divisor_override"):
            raise Refused("a pool with a divisor of its own")
        if kind == 1:
            params[6] = int(bool(attrs.get("count_include_pad")))
        return Layer("Pooling", params)

    return pool


def _global_pool(item: OpNode) -> Layer:
    extents(item.inputs[0].shape)
    return Layer("Pooling", {0: 1, 4: 1})


def _unary(kind: str, params: Callable[[OpNode], Params] = lambda item: {}) -> Callable[[OpNode], Layer]:
    def unary(item: OpNode) -> Layer:
        extents(item.inputs[0].shape)
        return Layer(kind, params(item))

    return unary


def _binary(number: int) -> Callable[[OpNode], Layer]:
    def binary(item: OpNode) -> Layer:
        shapes = [tuple(v.shape) for v in item.inputs]
        extents(item.output.shape)
        if shapes[0] == shapes[1]:
            return Layer("BinaryOp", {0: number})
        raise Refused(f"operands of different shapes: {', '.join(map(str, shapes))}")

    return binary


def _bias_add(item: OpNode) -> Layer:
    if item.attrs["axis"] not in (1, 1 - len(item.inputs[0].shape)):
        raise Refused("a bias along another axis than the channels")
    extents(item.inputs[0].shape)
    return Layer("BinaryOp", {0: 0})


def _add(item: OpNode) -> Layer:
    row = tuple(item.inputs[1].shape)
    if len(item.inputs[0].shape) == 2 and row == tuple(item.inputs[0].shape[1:]):
        extents(item.inputs[0].shape)
        return Layer("BinaryOp", {0: 0})
    return _binary(0)(item)


def _concatenate(item: OpNode) -> Layer:
    axis = item.attrs["axis"] % len(item.output.shape)
    extents(item.output.shape)
    if axis == 0:
        raise Refused("it joins batches")
    return Layer("Concat", {0: axis - 1})


def _softmax(item: OpNode) -> Layer:
    axis = item.attrs["axis"] % len(item.output.shape)
    extents(item.output.shape)
    if axis == 0:
        raise Refused("its axis is the batch")
    return Layer("Softmax", {0: axis - 1, 1: 1})


def reshape(shape: Sequence[int]) -> Layer:
    """Return the layer that gives a tensor of ncnn another shape [w], [h, w] or [c, h, w]."""
    names = {1: (0,), 2: (1, 0), 3: (2, 1, 0)}[len(shape)]
    return Layer("Reshape", dict(zip(names, shape, strict=True)))


def _reshape(item: OpNode) -> Layer:
    extents(item.inputs[0].shape)
    return reshape(extents(item.output.shape))


def _clip(item: OpNode) -> Params:
    return {0: float(item.attrs["a_min"]), 1: float(item.attrs["a_max"])}


LAYERS: dict[str, Callable[[OpNode], Layer]] = {
    "nn.conv2d": _conv2d,
    "nn.dense": _dense,
    "nn.bias_add": _bias_add,
    "nn.max_pool2d": _pool(0),
    "nn.avg_pool2d": _pool(1),
    "nn.global_avg_pool": _global_pool,
    "nn.relu": _unary("ReLU"),
    "nn.leaky_relu": _unary("ReLU", lambda item: {0: float(item.attrs["alpha"])}),
    "clip": _unary("Clip", _clip),
    "sigmoid": _unary("Sigmoid"),
    "tanh": _unary("TanH"),
    "add": _add,
    "subtract": _binary(1),
    "multiply": _binary(2),
    "concatenate": _concatenate,
    "nn.softmax": _softmax,
    "reshape": _reshape,
    "nn.batch_flatten": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
}
