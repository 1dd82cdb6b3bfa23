"""Convert padding: with a constant, by reflection, and by the edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...common.operand import Operand
from ..context import TorchNodeContext
from ..registry import converter


@converter("constant_pad_nd.default")
def constant_pad(n: TorchNodeContext) -> Any:
    """Pad with a constant. Truth values are padded as numbers."""
    x, widths, value = n["self"], _widths(n), n.attr("value")
    if x.dtype.is_bool:
        return n.cast(n.op("nn.pad", n.cast(x, "int8"), pad_width=widths, pad_value=int(value)), "bool")
    return n.op("nn.pad", x, pad_width=widths, pad_value=value)


def _register(aten: str, mode: str) -> None:
    @converter(*(f"{aten}{rank}d.default" for rank in (1, 2, 3)))
    def _(n: TorchNodeContext) -> Any:
        return n.op("nn.pad", n["self"], pad_width=_widths(n), pad_mode=mode)


for _aten, _mode in {"reflection_pad": "reflect", "replication_pad": "edge"}.items():
    _register(_aten, _mode)


def _widths(n: TorchNodeContext) -> tuple[tuple[int, int], ...]:
    """Return (before, after) of each axis, from a list that begins at the last axis."""
    x: Operand = n["self"]
    name = "pad" if "pad" in n.values else "padding"
    amounts: Sequence[int] = n.attr(name)
    widths = [(0, 0)] * x.ndim
    for k in range(len(amounts) // 2):
        widths[x.ndim - 1 - k] = (amounts[2 * k], amounts[2 * k + 1])
    return tuple(widths)
