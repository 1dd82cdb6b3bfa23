"""Convert layers of int8 to tensors of elements, for machines with a matrix array (`machines.scratchpad.topi`).

    cast(clip(right_shift(qnn.conv2d(x, w) + offset, k), low, high))
        ->  unpacked(requantize_elements(conv2d_elements(packed(x), packed(w)) + packed(offset), k, low, high))

Depthwise convolutions, sums of two tensors, and pools of int8 are converted too, if the machine's options allow it
(`scratchpad.memory.AluOptions`). Channels are padded with zeros to whole blocks. Filters are zero for the added
channels, so if nothing comes between two layers, the second one reads the packed result of the first. A layer of
another form or with other dtypes stays as it is and runs on the host (`lowering.placement`). So does a layer whose
channels would leave more than half of a block empty, such as those of a picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...graph.builder import GraphBuilder
from ...graph.nodes import Graph, OpNode, Value
from ...graph.passes.dead_code import dead_code
from ...graph.passes.shifted_scales import shifted_scales
from ...graph.pattern import Match, op
from ...graph.rewrite import Rewriter, RewriteRule, rewrite
from ...target import Target

Pass = tuple[str, Callable[[Graph], Graph]]


def products(target: Target, accuracy: str) -> list[Pass]:
    """Return the passes that choose the dtypes of products. This is the part "products" of the accelerator's back
    end.
    """
    from ...graph.passes.pipeline import product_passes

    return [("shifted_scales", shifted_scales), *product_passes(target.own_host, accuracy)]


def layouts(target: Target, accuracy: str) -> list[Pass]:
    """Return the accelerator's layout pass, followed by those of the host. This is the part "layouts" of its back
    end.
    """
    from ...graph.passes.pipeline import layout_passes

    own = ("element_layout", lambda graph: element_layout(graph, target.config))
    return [own, *layout_passes(target.own_host, accuracy)]


@dataclass(frozen=True, slots=True)
class _Layer:
    """A product, a sum or a pool with the operators after it, up to the operator `last`, whose result is int8.

    `offset` has one number per channel, or one for all. `data` holds the int8 inputs, and `lefts` how far each of them
    is first shifted left.
    """

    head: OpNode
    data: tuple[Value, ...]
    lefts: tuple[int, ...]
    offset: np.ndarray
    shift: int
    least: int
    most: int


def element_layout(graph: Graph, config: Any) -> Graph:
    """Return the graph with all layers that a machine with this `accel.AccelConfig` supports converted to its
    layout.
    """
    layers = _layers(graph, config)
    packing = _Packing(config, graph.arrays())

    def packed(b: Rewriter, match: Match) -> Value:
        return packing.layer(b, layers[match.root], match.root.output)

    return dead_code(rewrite(graph, [RewriteRule(op((), ..., when=layers.__contains__), packed)]))


def refusals(graph: Graph, config: Any) -> dict[OpNode, str]:
    """Return, for each product in program order, why it stays on the host, or "" if the machine computes it."""
    arrays = graph.arrays()
    return {
        item: layer if isinstance(layer, str) else ""
        for item in graph.nodes
        if _is_head(item, arrays)
        for layer, _ in [_layer_of(item, graph, arrays, config)]
    }


_PRODUCTS = ("nn.conv2d", "nn.dense", "nn.matmul", "qnn.conv2d", "qnn.dense")


def _is_head(item: OpNode, arrays: Mapping[Value, np.ndarray]) -> bool:
    """Return whether an operator is a product, a sum of two integer tensors, or a pool of int8."""
    if item.op == "add":
        return item.output.dtype == "int32" and not any(value in arrays for value in item.inputs)
    return item.op in _PRODUCTS or (item.op == "nn.max_pool2d" and item.output.dtype == "int8")


def _is_depthwise(item: OpNode) -> bool:
    """Return whether a convolution has a separate filter for each channel."""
    shape = item.inputs[1].shape
    groups = item.attrs.get("groups", 1)
    return item.op == "qnn.conv2d" and 1 < groups == shape[0] == item.inputs[0].shape[1]


def _layers(graph: Graph, config: Any) -> dict[OpNode, _Layer]:
    """Return the layers that the machine supports, keyed by their last operators."""
    arrays = graph.arrays()
    layers = {}
    for item in graph.nodes:
        if _is_head(item, arrays):
            layer, last = _layer_of(item, graph, arrays, config)
            if isinstance(layer, _Layer):
                layers[last] = layer
    return layers


def _layer_of(
    head: OpNode, graph: Graph, arrays: Mapping[Value, np.ndarray], config: Any
) -> tuple[_Layer | str, OpNode]:
    """Return a product, a sum or a pool as a layer, or why it is not one; and the last operator of the layer."""
    data, lefts = head.inputs[:1], (0,)
    if head.op == "nn.max_pool2d":
        misfit = _no_pool(head, config)
        layer = _Layer(head, tuple(data), lefts, np.zeros((), np.int32), 0, -128, 127)
        return misfit or layer, head
    if head.op == "add":
        parts = [_shifted_bytes(value, graph.producers(), arrays, config) for value in head.inputs]
        if None in parts:
            return f"its terms are no {config.out_dtype}", head
        data, lefts = zip(*parts, strict=True)
        misfit = _no_sum(head, data, config)
    else:
        misfit = _misfit(head, arrays, config)
    if misfit:
        return misfit, head
    consumers, outputs = graph.consumers(), set(graph.outputs)
    chain, value = [head], head.output
    while len(readers := consumers.get(value, [])) == 1 and value not in outputs:
        chain.append(readers[0])
        value = readers[0].outputs[0]
        if value.dtype != "int32":
            break
    return _layer(chain, tuple(data), lefts, arrays), chain[-1]


def _shifted_bytes(
    value: Value, producers: Mapping[Value, OpNode], arrays: Mapping[Value, np.ndarray], config: Any
) -> tuple[Value, int] | None:
    """Return a term as (int8 tensor, distance of its left shift), or None if it does not have this form."""
    item, left = producers.get(value), 0
    if item is not None and item.op == "left_shift" and item.inputs[1] in arrays:
        steps = arrays[item.inputs[1]]
        if steps.size != 1 or item.inputs[0].shape != item.output.shape:
            return None
        left = int(steps.reshape(()))
        item = producers.get(item.inputs[0])
    if item is None or item.op != "cast" or item.inputs[0].dtype != config.out_dtype:
        return None
    return item.inputs[0], left


def _no_sum(item: OpNode, data: Sequence[Value], config: Any) -> str:
    """Return why the sum of two int8 tensors is not computed in registers, or "" if it is."""
    if not config.options.widen:
        return f"the machine loads no {config.out_dtype} into registers (its option widen)"
    if data[0].shape != data[1].shape:
        return "its terms have different shapes"
    return _no_blocks(item, config)


def _no_pool(item: OpNode, config: Any) -> str:
    """Return why a pool of int8 is not computed in registers, or "" if it is."""
    if not config.options.widen:
        return f"the machine loads no {config.out_dtype} into registers (its option widen)"
    padding = _one(item.attrs["padding"])
    if padding and not config.options.pad_value:
        return "the machine pads with zeros only (its option pad_value)"
    stated = {name: _one(item.attrs[name]) for name in ("pool_size", "strides", "padding", "dilation")}
    for name, number in stated.items():
        if number is None or (name == "dilation" and number != 1):
            return f"{name} {item.attrs[name]} is beyond the schedule"
    if item.attrs["layout"] != "NCHW":
        return f"its layout is {item.attrs['layout']}"
    if item.attrs["ceil_mode"]:
        return "its last windows reach beyond the frame"
    return _no_blocks(item, config)


def _no_blocks(item: OpNode, config: Any) -> str:
    """Return why a tensor of pixels is not stored in blocks of channels, or "" if it is."""
    shape = item.output.shape
    if len(shape) not in (2, 4) or not all(isinstance(d, int) and d > 0 for d in (*item.inputs[0].shape, *shape)):
        return "its sizes are open" if len(shape) in (2, 4) else f"it has {len(shape)} dimensions, not 2 or 4"
    if config.block_in != config.block_out:
        return f"the array is not square: {config.block_in} x {config.block_out}"
    if shape[0] % config.batch:
        return f"the batch of {shape[0]} is no multiple of {config.batch}"
    if 2 * shape[1] < config.block_out:
        return f"{shape[1]} channels leave more than half of a block of {config.block_out} empty"
    return ""


def _misfit(item: OpNode, arrays: Mapping[Value, np.ndarray], config: Any) -> str:
    """Return why an operator is not a product of supported dtypes and known sizes, or "" if it is."""
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
    if _is_depthwise(item):
        missing = _no_depthwise(config)
        if missing:
            return missing
    stated = {
        "groups": item.attrs["groups"] == 1 or _is_depthwise(item), "dilation": _one(item.attrs["dilation"]) == 1,
        "strides": _square(item)[0] is not None, "padding": _square(item)[1] is not None,
    }  # fmt: skip
    return next(
        (f"{name} {item.attrs[name]} is beyond the schedule" for name, holds in stated.items() if not holds), ""
    )


def _no_depthwise(config: Any) -> str:
    """Return the option that a machine's ALU lacks for depthwise convolutions, as a sentence, or ""."""
    bits = int(config.inp_dtype[3:])
    if config.options.multiply_bits != bits:
        return f"its channels have a filter each, and the ALU multiplies no {bits} bits (its option multiply_bits)"
    if not config.options.widen:
        return f"the machine loads no {config.out_dtype} into registers (its option widen)"
    return ""


def _one(value: Any) -> int | None:
    """Return the common value of some numbers, or None if they differ."""
    numbers = set(value) if isinstance(value, Sequence) else {value}
    return numbers.pop() if len(numbers) == 1 else None


def _square(item: OpNode) -> tuple[int | None, int | None]:
    """Return the stride and the padding; each is None if it differs between the axes."""
    return _one(item.attrs["strides"]), _one(item.attrs["padding"])


_ORDER = ("add", "right_shift", "clip", "cast")


def _layer(
    chain: Sequence[OpNode], data: tuple[Value, ...], lefts: tuple[int, ...], arrays: Mapping[Value, np.ndarray]
) -> _Layer | str:
    """Return a product or a sum with the operators after it as a layer, or why they do not form a requantisation."""
    head, *rest = chain
    channels = head.output.shape[1]
    assert isinstance(channels, int)
    offset, shift, least, most = np.zeros((), np.int32), 0, -128, 127
    before = -1
    for item in rest:
        stage = _ORDER.index(item.op) if item.op in _ORDER else -1
        if stage <= before:
            return f"{item.op} follows its sums, where the ALU adds, shifts, limits and stores, in this order"
        before = stage
        if item.output.shape != head.output.shape:
            return f"{item.op} stretches its sums from {head.output.shape} to {item.output.shape}"
        if item.op == "add":
            other = next((arrays[v] for v in item.inputs if v in arrays), None)
            along = None if other is None else _per_channel(other, channels, head)
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
    return _Layer(head, data, lefts, offset, shift, least, most)


def _per_channel(offset: np.ndarray, channels: int, product: OpNode) -> np.ndarray | None:
    """Return an addend as one number per channel, or one for all; None if it varies within a channel."""
    if offset.size == 1:
        return offset.reshape(()).astype(np.int32)
    axis = product.output.ndim - (3 if product.output.ndim == 4 else 1)
    full = offset.reshape(*[1] * (product.output.ndim - offset.ndim), *offset.shape)
    if any(size != 1 for k, size in enumerate(full.shape) if k != axis):
        return None
    return np.broadcast_to(full.reshape(-1), channels).astype(np.int32)


@dataclass(slots=True)
class _Packing:
    """Packs tensors into blocks of channels. `packed` holds the packed results of layers."""

    config: Any
    arrays: Mapping[Value, np.ndarray]
    packed: dict[Value, Value] = field(default_factory=dict)

    def layer(self, b: GraphBuilder, layer: _Layer, result: Value) -> Value:
        """Add a layer on elements, and return its result in the original layout."""
        out = self._sums(b, layer, [self.packed.get(value) or self.pack(b, value) for value in layer.data])
        if layer.head.op != "nn.max_pool2d":
            offset = layer.offset
            alike = int(offset) if offset.ndim == 0 and self._is_added(int(offset)) else 0
            if offset.any() and not alike:
                channels = int(layer.head.output.shape[1])  # type: ignore[arg-type]
                out = b.op("add", out, b.constant(self._offset(np.broadcast_to(offset, (channels,))), "offset"))
            limits: dict[str, Any] = {"least": layer.least, "most": layer.most, "dtype": "int8"}
            out = b.op("nn.contrib_requantize_elements", out, shift=layer.shift, offset=alike, **limits)
        self.packed[result] = out
        return self.unpack(b, out, result)

    def _is_added(self, constant: int) -> bool:
        """Return whether a single instruction can add this constant to all sums."""
        if not self.config.adds_constants:
            return False
        limit = 1 << self.config.widths.immediate - 1
        return bool(-limit <= constant < limit)

    def _sums(self, b: GraphBuilder, layer: _Layer, data: Sequence[Value]) -> Value:
        """Return the result of a layer before its requantisation. A pool stays int8 throughout."""
        item, dtype = layer.head, self.config.acc_dtype
        result: Value
        if item.op == "add":
            left_a, left_b = layer.lefts
            result = b.op("nn.contrib_add_elements", *data, left_a=left_a, left_b=left_b, out_dtype=dtype)
            return result
        stride, padding = _square(item) if len(item.output.shape) == 4 else (1, 0)
        if item.op == "nn.max_pool2d":
            size = _one(item.attrs["pool_size"])
            result = b.op("nn.contrib_max_pool2d_elements", *data, size=size, stride=stride, padding=padding)
            return result
        weight, attrs = self.arrays[item.inputs[1]], {"stride": stride, "padding": padding, "out_dtype": dtype}
        if _is_depthwise(item):
            filters = b.constant(self._own_filters(weight), "filters")
            result = b.op("nn.contrib_depthwise_conv2d_elements", *data, filters, **attrs)
        else:
            result = b.op("nn.contrib_conv2d_elements", *data, b.constant(self._filters(weight), "filters"), **attrs)
        return result

    def pack(self, b: GraphBuilder, data: Value) -> Value:
        """Pack NCHW data, or a matrix, as [n/b, c/i, rows, columns, b, i]."""
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
        """Undo `pack`, and remove the channels that were added as padding."""
        outer, blocks, height, width, batch, block = data.shape
        turned = b.op("transpose", data, axes=(0, 4, 1, 5, 2, 3))
        rest = (height, width) if like.ndim == 4 else ()
        plain: Value = b.op("reshape", turned, newshape=(outer * batch, blocks * block, *rest))
        if plain.shape[1] != like.shape[1]:
            plain = b.op("strided_slice", plain, begin=(0,), end=(like.shape[1],), axes=(1,))
        return plain

    def _filters(self, weight: np.ndarray) -> np.ndarray:
        """Pack OIHW filters, or the rows of a matrix, as [o/k, c/i, rows, columns, k, i]."""
        out, ins, kh, kw = _four(weight.shape)
        k, i = self.config.block_out, self.config.block_in
        filled = np.pad(weight.reshape(out, ins, kh, kw), ((0, -out % k), (0, -ins % i), (0, 0), (0, 0)))
        parted = filled.reshape(filled.shape[0] // k, k, filled.shape[1] // i, i, kh, kw)
        return np.ascontiguousarray(parted.transpose(0, 2, 4, 5, 1, 3))

    def _own_filters(self, weight: np.ndarray) -> np.ndarray:
        """Pack depthwise filters [o, 1, rows, columns] as [1, o/k, rows, columns, b, k]."""
        k, batch = self.config.block_out, self.config.batch
        filled = np.pad(weight[:, 0], ((0, -len(weight) % k), (0, 0), (0, 0)))
        parted = filled.reshape(1, -1, 1, k, *weight.shape[2:]).transpose(0, 1, 4, 5, 2, 3)
        return np.ascontiguousarray(np.broadcast_to(parted, (*parted.shape[:4], batch, k)))

    def _offset(self, offset: np.ndarray) -> np.ndarray:
        """Pack one number per channel as [1, o/k, 1, 1, b, k]."""
        k, batch = self.config.block_out, self.config.batch
        filled = np.pad(offset, (0, -offset.size % k)).reshape(1, -1, 1, 1, 1, k)
        return np.ascontiguousarray(np.broadcast_to(filled, (1, filled.shape[1], 1, 1, batch, k)))


def _four(shape: Sequence[Any]) -> list[int]:
    """Return the four sizes of an image or of filters. A matrix has one row and one column of pixels."""
    return [int(size) for size in [*shape, 1, 1][:4]]
