"""Put convolutions into NCHW[x]c and weights into packed form, and keep the operators between them in that layout.

A value may exist plain, blocked or both. A `layout.block_axis` or `layout.unblock_axis` is added only if an operator
needs a form that does not exist yet. Weights are constants, so constant folding packs them at build time. TVM calls
this AlterOpLayout; the idea is from Liu et al., "Optimizing CNN model inference on CPUs" (ATC'19).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ....backend import lookup
from ....graph.forms import Forms
from ....graph.nodes import Graph, OpNode, Value
from ....strategy import algorithms as strategy_algorithms
from ....strategy.candidate import Option, records
from ....target import GPU, Target
from ....topi.factors import TF32
from ....topi.registry import MAPS, get
from ..topi.winograd import transformed_weights
from . import blocked_brain, blocked_bytes, blocked_moves, blocked_sums, plain_rows
from .channel_use import channel_uses, convolution_of, is_depthwise


def layouts(target: Target, accuracy: str) -> list[tuple[str, Callable[[Graph], Graph]]]:
    """Return the layout passes of machines with vectors. This is the part "layouts" of their back ends.

    A scalar CPU has none: its kernels read single elements, so blocks and words would only have to be packed.
    """
    if target.is_scalar:
        return []
    return [("blocked_layout", lambda graph: blocked_layout(graph, target, accuracy))]


def blocked_layout(graph: Graph, target: Target, accuracy: str = "fast") -> Graph:
    """Return the graph with blocked convolutions. Each uses the algorithm with the lowest predicted cost.

    Blocks are as wide as the target's vectors of float32, or of the 16-bit floats that its tensor cores multiply, where
    the graph has such convolutions. `accuracy="strict"` leaves out Winograd's algorithm.

    before:
        x = b.input("x", (1, 16, 8, 8))
        w = b.constant(np.ones((16, 16, 1, 1), "float32"))
        y = b.op("nn.conv2d", x, w)
        return b.op("nn.relu", y)
    after:
        def main(x: float32[1, 16, 8, 8]):
            pack_weights = constant(float32[2, 2, 1, 1, 8, 8])
            block_axis: float32[1, 2, 8, 8, 8] = layout.block_axis(x, axis=1, block=8)
            conv2d: float32[1, 2, 8, 8, 8] = nn.contrib_conv2d_NCHWc(
                block_axis, pack_weights, strides=1, padding=0, dilation=1
            )
            relu: float32[1, 2, 8, 8, 8] = nn.relu(conv2d)
            relu_1: float32[1, 16, 8, 8] = layout.unblock_axis(relu, axis=1, extent=16)
            return relu_1
    """
    return Blocking(graph, target, accuracy).result()


# A block has the same number of channels in every dtype, so that casts keep the layout: one vector of float32 or of
# sums.
_BLOCKED = frozenset(("float32", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "bool"))

# With this many vectors of channels, filling the last one costs less than narrower vectors for all of them.
WORTH_PADDING = 4

FEW_ROWS = 8  # of a product: fewer are as many sums of a matrix times a vector


def _channels_behind_convolutions(graph: Graph) -> set[int]:
    """Return the channel counts of all values that a convolution reads, directly or through other operators."""
    makers = {value: item for item in graph.nodes for value in item.outputs}
    todo = [item.inputs[0] for item in graph.nodes if item.op.startswith("nn.conv")]
    seen: set[Value] = set()
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        maker = makers.get(value)
        if maker is not None and not maker.op.startswith("nn.conv"):
            todo.extend(maker.inputs)
    return {int(v.shape[1]) for v in seen if v.ndim > 1 and isinstance(v.shape[1], int)}


class Blocking(Forms):
    """The state of the pass: the plain and blocked forms of each value, and the operators that are still to be
    visited.
    """

    def __init__(self, graph: Graph, target: Target, accuracy: str) -> None:
        super().__init__(graph)
        self.target = target
        self.accuracy = accuracy
        wide = getattr(target.description, "channel_block", 0)
        self.lanes = wide or max(map(target.vector_lanes, _vectors_of(graph, target)))
        self.blocked: dict[Value, Value] = {}
        self.packed: dict[tuple[Value, tuple[Any, ...]], Value] = {}
        self.whole = _channels_behind_convolutions(graph)
        self.blocks: dict[int, int | None] = {}
        self.on_groups: dict[OpNode, bool] = {}

    def op(self, op: str, *inputs: Value, name: str | None = None, **attrs: Any) -> Any:
        return self.b.op(op, *inputs, name=name, **attrs)

    def block(self, value: Value) -> int | None:
        """Return the block size for a value's channels, or None if it cannot be blocked."""
        if value.ndim not in (4, 5) or value.dtype not in _BLOCKED or 0 in value.shape:
            return None
        channels = value.shape[1]
        if not isinstance(channels, int):
            return None
        if channels not in self.blocks:
            self.blocks[channels] = self._chosen(channels)
        return self.blocks[channels]

    @functools.cached_property
    def uses(self) -> dict[int, strategy_algorithms.ChannelUse]:
        """Return how the graph uses its values, by their number of channels."""
        return channel_uses(self.graph, lambda conv: self.on_blocks(conv) or blocked_brain.on_words(self, conv))

    def _chosen(self, channels: int) -> int | None:
        """Return the block size for a number of channels: the back end's choice, or else the largest block that divides
        them.

        If the last block is incomplete, sums do not read its padding, which may hold any values. Without a choice by
        the back end, an incomplete block is used only for many channels that no convolution reads.
        """
        choose = lookup(self.target, "channel_block")
        if choose is not None:
            use = self.uses.get(channels, strategy_algorithms.ChannelUse(channels))
            found: int | None = choose(use, self.lanes, self.target, self.accuracy)
            return found
        if channels % self.lanes and channels >= WORTH_PADDING * self.lanes and channels not in self.whole:
            return self.lanes
        return strategy_algorithms.whole_block(channels, self.lanes)

    def filling(self, value: Value) -> dict[str, int]:
        """Return the attribute `channels` for a sum over a value's channels if its last block is incomplete, else
        {}.
        """
        channels, block = int(value.shape[1]), self.block(value)  # type: ignore[arg-type]
        return {"channels": channels} if block and channels % block else {}

    def split_channels(self, array: np.ndarray, width: int) -> np.ndarray:
        """Return a constant [b, channels, ...] as [b, channels / width, ..., width], with zeros in an incomplete
        block.
        """
        missing = -array.shape[1] % width
        full = np.pad(array, [(0, 0), (0, missing), *[(0, 0)] * (array.ndim - 2)]) if missing else array
        split = full.reshape(full.shape[0], full.shape[1] // width, width, *full.shape[2:])
        return np.ascontiguousarray(np.moveaxis(split, 2, -1))

    def made_plain(self, value: Value) -> Value:
        blocked = self.blocked[value]
        plain: Value = self.op("layout.unblock_axis", blocked, name=value.name, axis=1, extent=value.shape[1])
        return plain

    def as_blocked(self, value: Value) -> Value:
        if value not in self.blocked:
            blocked = self.op("layout.block_axis", self.as_plain(value), axis=1, block=self.block(value))
            self.blocked[value] = blocked
        return self.blocked[value]

    def rewrite(self, item: OpNode) -> bool:
        """Add `item` in blocked form if that is possible and worthwhile. Return False to leave it to `keep`."""
        rule = _RULES.get(item.op)
        if rule is not None:
            return rule(self, item)
        operator = get(item.op)
        return operator.is_map and self.elementwise(item)

    def elementwise(self, item: OpNode) -> bool:
        """Rewrite an element-wise operator in the layout of its operands. Return whether it was done."""
        if len(item.outputs) != 1 or not any(v in self.blocked for v in item.inputs) or not self.block(item.output):
            return False
        inputs = [self.operand(v, item.output) for v in item.inputs]
        if any(v is None for v in inputs):
            return False
        self.blocked[item.output] = self.op(item.op, *inputs, name=item.output.name, **item.attrs)  # type: ignore[arg-type]
        return True

    def operand(self, value: Value, output: Value) -> Value | None:
        """Return an operand in a form that broadcasts to the blocked form of `output`, or None if there is no such
        form.
        """
        rank = output.ndim
        if value.ndim == rank and value.shape[1] == output.shape[1] and value.dtype in _BLOCKED:
            if value not in self.arrays:
                return self.as_blocked(value)
        elif value not in self.arrays and value.ndim == rank and value.shape[1] == 1:  # of each pixel, for all channels
            pixels: Value = self.op("reshape", self.as_plain(value), newshape=(*value.shape, 1), allowzero=True)
            return pixels
        elif value not in self.arrays and value.ndim:
            return None
        if value not in self.arrays:
            return self.as_plain(value)
        array = self.arrays[value]
        if array.ndim > rank:
            return None
        full = array.reshape((1,) * (rank - array.ndim) + array.shape) if array.ndim else array
        if not full.ndim or full.size == 1:
            return self.b.constant(full.reshape(()))
        channels = output.shape[1]
        if full.shape[1] not in (1, channels):
            return None
        width = self.block(output) if full.shape[1] == channels else 1
        assert width is not None
        return self.b.constant(self.split_channels(full, width))

    def conv(self, item: OpNode) -> bool:
        """Rewrite a convolution with two or three spatial axes. Its groups must have whole blocks; only 2-d ones may be
        depthwise. Return whether it was done.
        """
        if item.op == "nn.conv2d" and blocked_brain.conv2d(self, item):
            return True
        data, weight = item.inputs[:2]
        if not self.on_blocks(item) or blocked_moves.turned_phases(self, item, data):
            return False
        in_block, out_block = self.block(data), self.block(item.output)
        if in_block is None or out_block is None:
            return False
        attrs = {k: v for k, v in item.attrs.items() if k not in ("groups", "data_layout", "kernel_layout")}
        depthwise, name = is_depthwise(item), item.output.name
        if depthwise and data not in self.blocked and plain_rows.depthwise(self, item):
            return True
        if depthwise:
            packed = self.pack(weight, ("depthwise", in_block))
            convolved = self.op("nn.contrib_depthwise_conv2d_NCHWc", self.as_blocked(data), packed, name=name, **attrs)
        elif item.attrs["groups"] > 1:
            return self.grouped(item, in_block, out_block, attrs)
        else:
            convolved = self.convolution(item, in_block, out_block, attrs)
        self.blocked[item.output] = convolved
        return True

    def grouped(self, item: OpNode, in_block: int, out_block: int, attrs: dict[str, Any]) -> bool:
        """Rewrite a convolution with groups. Groups that share a block are merged, with zeros between their weights.
        Return whether it was done.
        """
        data, weight = item.inputs
        alone = data not in self.blocked and not self.goes_into_blocks(item.output)
        what = replace(convolution_of(item), alone=alone)
        together = strategy_algorithms.groups_together(
            what.groups, (what.in_channels, what.out_channels), (in_block, out_block)
        )
        algorithms = self.algorithms(what, out_block, self.accuracy)
        if together is None or not algorithms or (together > 1 and self.accuracy == "strict"):
            return False
        packed = self.pack(weight, ("grouped", in_block, out_block, what.groups, together))
        groups = {"groups": what.groups // together} if what.groups > together else {}
        self.blocked[item.output] = self.op(
            f"nn.contrib_conv{weight.ndim - 2}d_NCHWc", self.as_blocked(data), packed, name=item.output.name,
            algorithm=records(algorithms), **attrs, **groups,
        )  # fmt: skip
        return True

    def on_blocks(self, item: OpNode) -> bool:
        """Return whether a convolution can be computed on blocks, provided that its data and result have blocks."""
        data, weight = item.inputs[:2]
        if len(item.inputs) != 2 or weight not in self.arrays or not _summed_in_vectors(item, self.target):
            return False
        layouts = (item.attrs.get("data_layout", "NCHW"), item.attrs.get("kernel_layout", "OIHW"))
        if layouts != ("NCHW", "OIHW") or item.output.shape[1] == 1:
            return False  # the user's own choice, or nothing to put into vectors
        if not isinstance(data.shape[1], int) or any(0 in v.shape for v in (data, weight, item.output)):
            return False
        if item.attrs["groups"] == 1:
            return True
        if is_depthwise(item):
            return item.op != "nn.conv3d" and item.attrs.get("out_dtype") != TF32
        return self.groups_on_blocks(item)

    def groups_on_blocks(self, item: OpNode) -> bool:
        """Return whether a convolution with groups is computed on blocks: the back end must have an algorithm for
        it.
        """
        if item not in self.on_groups:
            what = convolution_of(item)
            blocks = {strategy_algorithms.whole_block(n, self.lanes) for n in (what.in_channels, what.out_channels)}
            block = blocks.pop()
            fits = not blocks and block is not None and item.output.dtype == item.inputs[0].dtype == "float32"
            self.on_groups[item] = fits and bool(self.algorithms(what, block, self.accuracy))  # type: ignore[arg-type]
        return self.on_groups[item]

    def algorithms(self, what: strategy_algorithms.Convolution, block: int, accuracy: str) -> list[Option]:
        """Return the back end's algorithms for a convolution, cheapest first."""
        found: list[Option] = (lookup(self.target, "algorithms") or strategy_algorithms.direct_alone)(
            what, block, self.target, accuracy
        )
        return found

    def goes_into_blocks(self, value: Value, through: Collection[str] = ()) -> bool:
        """Return whether a convolution on blocks reads the value, directly or through element-wise operators.

        Operators named in `through` keep blocks as well.
        """
        todo, seen = [value], {value}
        while todo:
            for reader in self.consumers.get(todo.pop(), ()):
                if reader.op in ("nn.conv2d", "nn.conv3d", "qnn.conv2d"):
                    if self.on_blocks(reader):
                        return True
                    continue
                if reader.op in through or get(reader.op).pattern in MAPS:
                    new = [v for v in reader.outputs if v not in seen]
                    todo += new
                    seen.update(new)
        return False

    def convolution(self, item: OpNode, in_block: int, out_block: int, attrs: dict[str, Any]) -> Value:
        """Add a convolution without groups, using the cheapest algorithm or the one that a measurement selected."""
        data, weight = item.inputs[:2]
        rank, what = weight.ndim - 2, convolution_of(item)
        exact = not item.output.dtype.is_float  # Winograd's transforms contain fractions, which integers cannot hold
        # The numbers of the image and the weights are rounded, not those of their transforms.
        rounds = item.attrs["out_dtype"] == TF32 or data.dtype.is_half
        accuracy = "strict" if exact or rounds else self.accuracy
        name = item.output.name
        algorithms = strategy_algorithms.decided_first(
            what, out_block, self.algorithms(what, out_block, accuracy), name
        )
        best, weighed = algorithms[0], records(algorithms)
        if best.rule == strategy_algorithms.WINOGRAD:
            tile, panel = best.knobs["tile"], best.knobs["panel"]
            packed = self.pack(weight, ("winograd", tile, in_block, out_block, panel))
            return self.op(
                "nn.contrib_winograd_conv2d_NCHWc", self.as_blocked(data), packed, name=name, tile=tile,
                padding=attrs["padding"], dilation=what.dilation, algorithm=weighed, **self.filling(data),
            )  # fmt: skip
        packed = self.pack(weight, ("conv2d", in_block, out_block))
        op = f"nn.contrib_conv{rank}d_NCHWc"
        return self.op(op, self.as_blocked(data), packed, name=name, algorithm=weighed, **attrs, **self.filling(data))

    def pack(self, weight: Value, form: tuple[Any, ...]) -> Value:
        """Return `weight` packed in the given form. All operators that need this form share one packed copy."""
        if (weight, form) not in self.packed:
            kind, *blocks = form
            if kind == "depthwise":
                packed = self.b.constant(_pack_depthwise(self.arrays[weight], *blocks), f"{weight.name}_packed")
            elif kind == "winograd":
                packed = self.b.constant(_pack_winograd(self.arrays[weight], *blocks), f"{weight.name}_transformed")
            elif kind == "dense":
                packed = self.b.constant(_pack_dense(self.arrays[weight], *blocks), f"{weight.name}_packed")
            else:
                in_block, out_block, *groups = blocks
                filters = self.as_plain(weight)
                if groups:
                    filters = self.b.constant(_of_groups_together(self.arrays[weight], *groups), weight.name)
                packed = self.op("layout.pack_weights", filters, in_block=in_block, out_block=out_block)
            self.packed[weight, form] = packed
        return self.packed[weight, form]

    def bias_add(self, item: OpNode) -> bool:
        data, bias = item.inputs
        if data not in self.blocked or bias not in self.arrays or item.attrs["axis"] != 1 or not self.block(data):
            return False
        width = self.block(data) or 1
        array = self.split_channels(self.arrays[bias].reshape(1, -1, *[1] * (data.ndim - 2)), width)
        self.blocked[item.output] = self.op("add", self.blocked[data], self.b.constant(array), name=item.output.name)
        return True

    def prelu(self, item: OpNode) -> bool:
        """Rewrite a PReLU with one slope per channel as an element-wise selection. Return whether it was done."""
        data, slope = item.inputs
        if data not in self.blocked or slope not in self.arrays or item.attrs["axis"] != 1 or not self.block(data):
            return False
        blocked, width = self.blocked[data], self.block(data) or 1
        slopes = self.split_channels(self.arrays[slope].reshape(1, -1, *[1] * (data.ndim - 2)), width)
        positive = self.op("greater", blocked, self.b.constant(np.zeros((), data.dtype.numpy)))
        scaled = self.op("multiply", blocked, self.b.constant(slopes))
        self.blocked[item.output] = self.op("where", positive, blocked, scaled, name=item.output.name)
        return True

    def quantize(self, item: OpNode) -> bool:
        """Rewrite a quantisation on blocks if it has a single scale and zero point, because its axis then has no
        effect. Return whether it was done.
        """
        return all(p.shape in ((), (1,)) for p in item.inputs[1:]) and self.of_data(item)

    def of_data(self, item: OpNode) -> bool:
        """Rewrite an operator that maps its first input element by element, and whose other inputs have no axis of it.
        Return whether it was done.
        """
        data, *parameters = item.inputs
        if data not in self.blocked or not self.block(item.output):
            return False
        inputs = [self.blocked[data], *map(self.as_plain, parameters)]
        self.blocked[item.output] = self.op(item.op, *inputs, name=item.output.name, **item.attrs)
        return True

    def dense(self, item: OpNode) -> bool:
        """Rewrite a product with a constant matrix: the columns are packed into panels as wide as a vector. Return
        whether it was done.
        """
        if blocked_brain.dense(self, item):
            return True
        data, weight = item.inputs[:2]
        if len(item.inputs) != 2 or weight not in self.arrays or weight.ndim != 2 or data.ndim < 2:
            return False
        if item.output.dtype != "float32" or data.dtype != weight.dtype or item.attrs.get("transpose_a"):
            return False
        if data.dtype != "float32" and not data.dtype.is_half:
            return False
        if self.target.multiplies_matrices(str(data.dtype)) or item.attrs.get("out_dtype") == TF32:
            return False  # tensor cores read matrices as they are
        turned = item.op == "nn.dense" or bool(item.attrs.get("transpose_b"))
        if isinstance(self.target.description, GPU) and self.target.processor is None:
            return self._rows_of_weights(item, data, weight, turned)
        depth, columns = (int(d) for d in (weight.shape[::-1] if turned else weight.shape))  # type: ignore[arg-type]
        if columns < self.lanes or depth == 0:
            return False
        packed = self.pack(weight, ("dense", self.lanes, turned))
        rows, options = self.as_plain(data), {}
        if data.dtype.is_half:  # weights are many, and stay as they are; an element of the data is read for each panel
            rows, options = self.op("cast", rows, dtype="float32"), {"out_dtype": "float32"}
        self.plain[item.output] = self.op(
            "nn.contrib_dense_packed", rows, packed, name=item.output.name, units=columns, **options
        )
        return True

    def _rows_of_weights(self, item: OpNode, data: Value, weight: Value, turned: bool) -> bool:
        """On GPUs, rewrite a product with few rows so that the weights are contiguous along the sum. Return whether it
        was done.

        The threads of a block compute each sum together and read neighbouring weights. With more rows, blocks fetch
        tiles of the matrices as they are.
        """
        rows = [int(d) if isinstance(d, int) else FEW_ROWS for d in data.shape[:-1]]
        if turned or math.prod(rows) >= FEW_ROWS or data.dtype != "float32":
            return False
        weights = self.op("transpose", self.as_plain(weight), axes=(1, 0))
        self.plain[item.output] = self.op("nn.dense", self.as_plain(data), weights, name=item.output.name)
        return True


def _vectors_of(graph: Graph, target: Target) -> set[str]:
    """Return the dtypes whose vectors determine the block size. A cast between them keeps the block size."""
    halves = {str(item.inputs[0].dtype) for item in graph.nodes if _on_tensor_cores(item, target)}
    return {"float32", *halves}


def _on_tensor_cores(item: OpNode, target: Target) -> bool:
    """Return whether an operator is a convolution of 16-bit floats that tensor cores compute."""
    if item.op != "nn.conv2d" or item.attrs["groups"] != 1 or item.output.dtype != "float32":
        return False
    data, weight = (value.dtype for value in item.inputs[:2])
    return data == weight and data.is_half and target.multiplies_matrices(str(data))


def _summed_in_vectors(item: OpNode, target: Target) -> bool:
    """Return whether a convolution sums float32 products (of float32 or dtypes of the tensor cores), or int32 products
    of integers.
    """
    data, weight = (v.dtype for v in item.inputs)
    if item.output.dtype == "float32":
        return data == weight == "float32" or _on_tensor_cores(item, target)
    return item.output.dtype == "int32" and data.is_int and weight.is_int


def _of_groups_together(weight: np.ndarray, groups: int, together: int) -> np.ndarray:
    """Merge every `together` groups of weights [O, I, ..] into one, giving [O, I * together, ..] with zeros between
    groups.
    """
    out, each, *kernel = weight.shape
    whole = np.zeros((groups // together, together, out // groups, together, each, *kernel), weight.dtype)
    parts = weight.reshape(groups // together, together, out // groups, each, *kernel)
    for place in range(together):
        whole[:, place, :, place] = parts[:, place]
    return whole.reshape(out, together * each, *kernel)


def _pack_depthwise(weight: np.ndarray, block: int) -> np.ndarray:
    """Pack [C, 1, kh, kw] as [C/x, kh, kw, x], with zeros in an incomplete block."""
    full = np.pad(weight, [(0, -weight.shape[0] % block), *[(0, 0)] * 3])
    return np.ascontiguousarray(np.moveaxis(full.reshape(-1, block, *full.shape[2:]), 1, -1))


def _pack_dense(weight: np.ndarray, block: int, turned: bool) -> np.ndarray:
    """Pack [N, K] (if `turned`) or [K, N] as [N/x, K, x], with zeros in an incomplete panel."""
    columns = weight if turned else weight.T
    full = np.pad(columns, [(0, -columns.shape[0] % block), (0, 0)])
    return np.ascontiguousarray(full.reshape(-1, block, full.shape[1]).transpose(0, 2, 1))


def _pack_winograd(weight: np.ndarray, tile: int, in_block: int, out_block: int, panel: int) -> np.ndarray:
    """Transform weights [O, I, 3, 3] and pack them as [O/(k y), t, t, I/x, x, k, y], in panels of k blocks of y
    channels.
    """
    missing = [(0, -channels % block) for channels, block in zip(weight.shape, (out_block, in_block), strict=False)]
    transformed = transformed_weights(np.pad(weight, [*missing, (0, 0), (0, 0)]), tile)
    places, _, out, inner = transformed.shape
    width = panel * out_block
    split = transformed.reshape(places, places, out // width, panel, out_block, inner // in_block, in_block)
    return np.ascontiguousarray(split.transpose(2, 0, 1, 5, 6, 3, 4))


_RULES: Mapping[str, Callable[[Blocking, OpNode], bool]] = {
    "nn.conv2d": Blocking.conv,
    "nn.conv3d": Blocking.conv,
    "nn.max_pool1d": plain_rows.pool,
    "nn.max_pool2d": blocked_sums.pool2d,
    "nn.max_pool3d": plain_rows.pool,
    "nn.avg_pool1d": plain_rows.pool,
    "nn.avg_pool2d": blocked_sums.pool2d,
    "nn.avg_pool3d": plain_rows.pool,
    "qnn.quantize": Blocking.quantize,
    "qnn.dequantize": Blocking.quantize,
    "qnn.lookup": Blocking.of_data,
    "nn.global_avg_pool": blocked_sums.global_pool,
    "nn.global_max_pool": blocked_sums.global_pool,
    "nn.bias_add": Blocking.bias_add,
    "nn.prelu": Blocking.prelu,
    "nn.instance_norm": blocked_sums.channel_norm,
    "nn.group_norm": blocked_sums.channel_norm,
    "nn.interleave": blocked_moves.interleave,
    "concatenate": blocked_moves.concatenate,
    "strided_slice": blocked_moves.strided_slice,
    **dict.fromkeys(
        ("l1", "l2", "log_sum", "logsumexp", "max", "mean", "min", "prod", "sum", "sum_square"), blocked_sums.reduction
    ),
    "split": blocked_moves.split,
    "nn.dense": Blocking.dense,
    "qnn.conv2d": blocked_bytes.conv2d,
    "qnn.dense": blocked_bytes.dense,
    "nn.matmul": Blocking.dense,
    "nn.batch_matmul": blocked_brain.dense,
}
