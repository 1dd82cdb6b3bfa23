"""Describe how a graph uses its values, by their number of channels, so that a back end can choose block sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, prod

from ....graph.nodes import Graph, OpNode, Value
from ....strategy.algorithms import ChannelUse, Convolution
from ....topi.registry import MAPS, get
from ....topi.shapes import per_axis

OPEN = 32  # what an open side of an image counts as
_CONVOLUTIONS = ("nn.conv2d", "nn.conv3d", "qnn.conv2d")
_WORD = 4  # bytes of which products are one step
_FOLLOWERS = ("nn.max_pool2d", "nn.avg_pool2d", "nn.global_avg_pool", "nn.global_max_pool", "nn.bias_add",
              "qnn.quantize", "qnn.dequantize", "nn.instance_norm", "nn.group_norm",
              "nn.prelu")  # fmt: skip


def convolution_of(item: OpNode) -> Convolution:
    """Return the properties of a convolution. An unknown batch size counts as one image.

    For bytes, a word of channels counts as one channel, because its products take one step.
    """
    out_channels, each, *kernel = (int(d) for d in item.inputs[1].shape)  # type: ignore[arg-type]
    groups = int(item.attrs["groups"])
    if item.op.startswith("qnn."):
        each = ceil(each / _WORD)
    batch, _, *image = (d if isinstance(d, int) else None for d in item.output.shape)
    strides, dilation = (tuple(per_axis(item.attrs[name], len(kernel), name)) for name in ("strides", "dilation"))
    exact = not item.output.dtype.is_float
    words = "u8i8" if item.op.startswith("qnn.") else "bf16" if item.inputs[1].dtype == "bfloat16" else ""
    return Convolution(
        batch or 1, groups * each, out_channels, tuple(image), tuple(kernel), strides, dilation, exact, groups, words
    )


@dataclass
class _Use:
    made: list[Convolution] = field(default_factory=list)
    read: list[Convolution] = field(default_factory=list)
    depthwise: list[tuple[int, int]] = field(default_factory=list)
    passed: int = 0
    turned: int = 0
    parted: int = 0

    def frozen(self, count: int) -> ChannelUse:
        made, read, depthwise = tuple(self.made), tuple(self.read), tuple(self.depthwise)
        return ChannelUse(count, made, read, depthwise, self.passed, self.turned, self.parted)


def channel_uses(graph: Graph, on_blocks: Callable[[OpNode], bool]) -> dict[int, ChannelUse]:
    """Return the uses of each channel count. `on_blocks(conv)` returns whether a convolution can be computed on blocks.

    This assumes that every operator that can keep the layout of a convolution does so.
    """
    uses: defaultdict[int, _Use] = defaultdict(_Use)
    blocked = _blocked(graph, on_blocks)
    arrays, consumers, returned = graph.arrays(), graph.consumers(), set(graph.outputs)
    for item in graph.nodes:
        if item.op in _CONVOLUTIONS and on_blocks(item):
            _convolution(uses, item)
    makers = {value: item for item in graph.nodes for value in item.outputs}
    for value in {**dict.fromkeys(graph.inputs), **makers}:
        if value in arrays or value.ndim not in (4, 5) or not isinstance(value.shape[1], int):
            continue
        readers, use, pixels = consumers.get(value, ()), uses[int(value.shape[1])], _pixels(value)
        joins = [reader for reader in readers if _joins(reader)]
        others = [reader for reader in readers if not _joins(reader)]
        wanting = [reader for reader in others if _works_on_blocks(reader, blocked, on_blocks)]
        here = value in blocked
        use.passed += pixels * (here + len(wanting))
        use.turned += pixels * (bool(wanting) if not here else len(wanting) < len(others) or value in returned)
        maker = makers.get(value)
        use.parted += pixels * (here and (bool(joins) or (maker is not None and _joins(maker))))
    return {count: use.frozen(count) for count, use in uses.items()}


def _convolution(uses: defaultdict[int, _Use], item: OpNode) -> None:
    count = int(item.output.shape[1])  # type: ignore[arg-type]
    if is_depthwise(item):
        taps = prod(int(d) for d in item.inputs[1].shape[2:])  # type: ignore[arg-type,misc]
        uses[count].depthwise.append((_pixels(item.output), taps))
        return
    conv = convolution_of(item)
    uses[count].made.append(conv)
    uses[int(item.inputs[0].shape[1])].read.append(conv)  # type: ignore[arg-type]


def is_depthwise(item: OpNode) -> bool:
    """Return whether each channel of a convolution's result depends on a single channel of its data."""
    groups = item.attrs["groups"]
    return bool(groups != 1 and groups == item.inputs[0].shape[1] == item.output.shape[1])


def _pixels(value: Value) -> int:
    batch, _, *image = value.shape
    return (batch if isinstance(batch, int) else 1) * prod(d if isinstance(d, int) else OPEN for d in image)


def _joins(item: OpNode) -> bool:
    return item.op == "concatenate" and bool(item.output.ndim) and item.attrs["axis"] % item.output.ndim == 1


def _follows(item: OpNode) -> bool:
    return item.op in _FOLLOWERS or get(item.op).pattern in MAPS or _joins(item)


def _blocked(graph: Graph, on_blocks: Callable[[OpNode], bool]) -> set[Value]:
    """Return the values that are computed in blocks: results of convolutions, and of operators that follow them."""
    blocked: set[Value] = set()
    for item in graph.nodes:
        if _works_on_blocks(item, blocked, on_blocks):
            blocked.update(item.outputs)
    return blocked


def _works_on_blocks(item: OpNode, blocked: set[Value], on_blocks: Callable[[OpNode], bool]) -> bool:
    if item.op in _CONVOLUTIONS:
        return on_blocks(item)
    return item.op != "loop" and _follows(item) and any(value in blocked for value in item.inputs)
