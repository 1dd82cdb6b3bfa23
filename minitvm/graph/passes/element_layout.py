"""Convolutions and dense layers of int8 on tensors of elements, for machines with a matrix array (`topi.elements`).

    cast(clip(right_shift(qnn.conv2d(x, w) + offset, k), low, high))
        ->  unpacked(requantize_elements(conv2d_elements(packed(x), packed(w)) + packed(offset), k, low, high))

Channels are filled up with zeros to whole blocks; what a layer leaves in such channels is zero again, so the next one
reads the packed result of the one before where nothing else comes between. A layer that is not of this form, or not of
the machine's numbers, stays as it is, and runs on the host (`lowering.placement`); so does one whose channels would
leave more than half of a block empty, such as those of a picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...target import Target
from ..builder import GraphBuilder
from ..nodes import Graph, OpNode, Value
from .dead_code import dead_code
from .rebuild import with_replaced
from .shifted_scales import shifted_scales

Pass = tuple[str, Callable[[Graph], Graph]]


def products(target: Target, accuracy: str) -> list[Pass]:
    """The part "products" of the accelerator's back end."""
    from .pipeline import product_passes

    return [("shifted_scales", shifted_scales), *product_passes(target.own_host, accuracy)]


def layouts(target: Target, accuracy: str) -> list[Pass]:
    """The part "layouts" of the accelerator's back end: its own, then those of the host."""
    from .pipeline import layout_passes

    own = ("element_layout", lambda graph: element_layout(graph, target.config))
    return [own, *layout_passes(target.own_host, accuracy)]


@dataclass(frozen=True, slots=True)
class _Layer:
    """A product with what follows it, up to the int8 result of the operator `last`."""

    product: OpNode
    offset: np.ndarray
    shift: int
    least: int
    most: int

    @property
    def is_conv(self) -> bool:
        return self.product.op == "qnn.conv2d"


def element_layout(graph: Graph, config: Any) -> Graph:
    """The graph with the layers that a machine of `accel.AccelConfig` takes in its layout."""
    layers = _layers(graph, config)
    packing = _Packing(config, graph.arrays())
    new: dict[Value, Value] = {}

    def make(b: GraphBuilder, item: OpNode, _: list[Value]) -> Value:
        return packing.layer(b, layers[item], item.output, new)

    return dead_code(with_replaced(graph, layers.__contains__, make, new))


def refusals(graph: Graph, config: Any) -> dict[OpNode, str]:
    """Why products stay on the host, by product, in program order; "" for one that the machine takes."""
    arrays = graph.arrays()
    return {
        item: layer if isinstance(layer, str) else ""
        for item in graph.nodes
        if item.op in _PRODUCTS
        for layer, _ in [_layer_of(item, graph, arrays, config)]
    }


_PRODUCTS = ("nn.conv2d", "nn.dense", "nn.matmul", "qnn.conv2d", "qnn.dense")


def _layers(graph: Graph, config: Any) -> dict[OpNode, _Layer]:
    """The layers that the machine takes, by their last operators."""
    arrays = graph.arrays()
    layers = {}
    for item in graph.nodes:
        if item.op in _PRODUCTS:
            layer, last = _layer_of(item, graph, arrays, config)
            if isinstance(layer, _Layer):
                layers[last] = layer
    return layers


def _layer_of(
    product: OpNode, graph: Graph, arrays: Mapping[Value, np.ndarray], config: Any
) -> tuple[_Layer | str, OpNode]:
    """A product as a layer, or why it is none; and the last operator of the layer."""
    misfit = _misfit(product, arrays, config)
    if misfit:
        return misfit, product
    consumers, outputs = graph.consumers(), set(graph.outputs)
    chain, value = [product], product.output
    while len(readers := consumers.get(value, [])) == 1 and value not in outputs:
        chain.append(readers[0])
        value = readers[0].outputs[0]
        if value.dtype != "int32":
            break
    return _layer(chain, arrays), chain[-1]


def _misfit(item: OpNode, arrays: Mapping[Value, np.ndarray], config: Any) -> str:
    """Why an operator is no product of the machine's numbers, of sizes that are known; "" if it is one."""
    data, weight = item.inputs[:2]
    if not item.op.startswith("qnn."):
        return f"it multiplies {data.dtype}: quantise the network with dtype='int8'"
    if weight not in arrays:
        return "its weights are no constants"
    if data.dtype != config.inp_dtype or weight.dtype != config.wgt_dtype:
        return f"it multiplies {data.dtype} by {weight.dtype}, not {config.inp_dtype} by {config.wgt_dtype}"
    if item.attrs["zero_point"]:
        return f"its data have the zero point {item.attrs['zero_point']}"
    if not all(isinstance(d, int) and d > 0 for v in (data, item.output) for d in v.shape):
        return "its sizes are open"
    if config.block_in != config.block_out:
        return f"the array is not square: {config.block_in} x {config.block_out}"
    if data.shape[0] % config.batch:
        return f"the batch of {data.shape[0]} is no multiple of {config.batch}"
    if 2 * data.shape[1] < config.block_in:
        return f"{data.shape[1]} channels leave more than half of a block of {config.block_in} empty"
    if item.op == "qnn.dense":
        return "" if data.ndim == 2 else f"its data have {data.ndim} dimensions, not 2"
    stated = {
        "groups": item.attrs["groups"] == 1, "dilation": _one(item.attrs["dilation"]) == 1,
        "strides": _square(item)[0] is not None, "padding": _square(item)[1] is not None,
    }  # fmt: skip
    return next(
        (f"{name} {item.attrs[name]} is beyond the schedule" for name, holds in stated.items() if not holds), ""
    )


def _one(value: Any) -> int | None:
    """The number that all of some numbers are; None where they differ."""
    numbers = set(value) if isinstance(value, Sequence) else {value}
    return numbers.pop() if len(numbers) == 1 else None


def _square(item: OpNode) -> tuple[int | None, int | None]:
    """The stride and the padding, each the same along both axes."""
    return _one(item.attrs["strides"]), _one(item.attrs["padding"])


_ORDER = ("add", "right_shift", "clip", "cast")


def _layer(chain: Sequence[OpNode], arrays: Mapping[Value, np.ndarray]) -> _Layer | str:
    """A product with the operators behind it, or why they are no requantisation."""
    product, *rest = chain
    channels = product.inputs[1].shape[0]
    assert isinstance(channels, int)
    offset, shift, least, most = np.zeros(channels, np.int32), 0, -128, 127
    before = -1
    for item in rest:
        stage = _ORDER.index(item.op) if item.op in _ORDER else -1
        if stage <= before:
            return f"{item.op} follows its sums, where the ALU adds, shifts, limits and stores, in this order"
        before = stage
        if item.op == "add":
            other = next((arrays[v] for v in item.inputs if v in arrays), None)
            along = None if other is None else _per_channel(other, channels, product)
            if along is None:
                return "what is added to its sums is not one number for each channel"
            offset = along
        elif item.op == "right_shift":
            places = arrays.get(item.inputs[1])
            if places is None or places.size != 1:
                return "its sums are shifted by more than one number"
            shift = int(places.reshape(()))
        elif item.op == "clip":
            least, most = int(item.attrs["a_min"]), int(item.attrs["a_max"])
    if not rest or rest[-1].op != "cast" or rest[-1].output.dtype != "int8" or not any(n.op == "clip" for n in rest):
        return "its sums are read before they are int8 again"
    if not least <= 0 <= most:
        return f"its results are kept between {least} and {most}, and channels that fill a block up are 0"
    return _Layer(product, offset, shift, least, most)


def _per_channel(offset: np.ndarray, channels: int, product: OpNode) -> np.ndarray | None:
    """An addend as one number for each channel; None where it differs within a channel."""
    axis = product.output.ndim - (3 if product.op == "qnn.conv2d" else 1)
    full = offset.reshape(*[1] * (product.output.ndim - offset.ndim), *offset.shape)
    if any(size != 1 for k, size in enumerate(full.shape) if k != axis):
        return None
    return np.broadcast_to(full.reshape(-1), channels).astype(np.int32)


@dataclass(slots=True)
class _Packing:
    """Tensors in blocks of channels; `packed` are those that a layer left so."""

    config: Any
    arrays: Mapping[Value, np.ndarray]
    packed: dict[Value, Value] = field(default_factory=dict)

    def layer(self, b: GraphBuilder, layer: _Layer, result: Value, new: Mapping[Value, Value]) -> Value:
        """A layer on elements, its result as it was."""
        item, config = layer.product, self.config
        stride, padding = _square(item) if layer.is_conv else (1, 0)
        image = self.packed.get(item.inputs[0]) or self.pack(b, new[item.inputs[0]])
        filters = b.constant(self._filters(self.arrays[item.inputs[1]]), "filters")
        dtype = config.acc_dtype
        sums = b.op(
            "nn.contrib_conv2d_elements", image, filters, stride=stride, padding=padding, out_dtype=dtype,
        )  # fmt: skip
        if layer.offset.any():
            sums = b.op("add", sums, b.constant(self._offset(layer.offset), "offset"))
        out = b.op(
            "nn.contrib_requantize_elements", sums, shift=layer.shift, least=layer.least, most=layer.most, dtype="int8"
        )
        self.packed[result] = out
        return self.unpack(b, out, result)

    def pack(self, b: GraphBuilder, data: Value) -> Value:
        """NCHW, or a matrix, as [n/b, c/i, rows, columns, b, i]."""
        n, channels, height, width = _four(data.shape)
        batch, block = self.config.batch, self.config.block_in
        missing = -channels % block
        if missing:
            pads = [0] * 2 * data.ndim
            pads[3] = missing
            data = b.op("nn.pad", data, pad_width=tuple(zip(pads[::2], pads[1::2], strict=True)))
        parted = b.op(
            "reshape", data, newshape=(n // batch, batch, (channels + missing) // block, block, height, width)
        )
        turned: Value = b.op("transpose", parted, axes=(0, 2, 4, 5, 1, 3))
        return turned

    def unpack(self, b: GraphBuilder, data: Value, like: Value) -> Value:
        """The inverse, without the channels that fill a block up."""
        outer, blocks, height, width, batch, block = data.shape
        turned = b.op("transpose", data, axes=(0, 4, 1, 5, 2, 3))
        rest = (height, width) if like.ndim == 4 else ()
        plain: Value = b.op("reshape", turned, newshape=(outer * batch, blocks * block, *rest))
        if plain.shape[1] != like.shape[1]:
            plain = b.op("strided_slice", plain, begin=(0,), end=(like.shape[1],), axes=(1,))
        return plain

    def _filters(self, weight: np.ndarray) -> np.ndarray:
        """OIHW, or a matrix of rows, as [o/k, c/i, rows, columns, k, i]."""
        out, ins, kh, kw = _four(weight.shape)
        k, i = self.config.block_out, self.config.block_in
        filled = np.pad(weight.reshape(out, ins, kh, kw), ((0, -out % k), (0, -ins % i), (0, 0), (0, 0)))
        parted = filled.reshape(filled.shape[0] // k, k, filled.shape[1] // i, i, kh, kw)
        return np.ascontiguousarray(parted.transpose(0, 2, 4, 5, 1, 3))

    def _offset(self, offset: np.ndarray) -> np.ndarray:
        """One number for each channel as [1, o/k, 1, 1, b, k]."""
        k, batch = self.config.block_out, self.config.batch
        filled = np.pad(offset, (0, -offset.size % k)).reshape(1, -1, 1, 1, 1, k)
        return np.ascontiguousarray(np.broadcast_to(filled, (1, filled.shape[1], 1, 1, batch, k)))


def _four(shape: Sequence[Any]) -> list[int]:
    """The sizes of an image or of filters; a matrix has one row and one column of pixels."""
    return [int(size) for size in [*shape, 1, 1][:4]]
