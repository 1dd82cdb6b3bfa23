"""The two orders of the axes of a tensor: TFLite's, with the channels last, and ours, with the channels first.

A convolution leaves its result with the channels first. The operators after it (sums, activations, pads, pools,
concatenations, slices, reductions, resizes) work in either order, and keep the one that they receive. Only an operator
that depends on TFLite's order, such as RESHAPE, needs a transpose. So a network of images has transposes only where it
begins and where it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.nodes import Dim
from ..common.operand import Operand

Order = tuple[int, ...]  # for each axis in memory, the axis of TFLite's tensor

_RANKS = (4, 5)  # of tensors that may be images or volumes


def channels_last(rank: int) -> Order:
    """Return TFLite's own order."""
    return tuple(range(rank))


def channels_first(rank: int) -> Order:
    """Return our order of images and volumes: (0, 3, 1, 2) for rank 4."""
    return (0, rank - 1, *range(1, rank - 1))


def inverse(order: Sequence[int]) -> Order:
    """Return the order that undoes another one."""
    return tuple(order.index(axis) for axis in range(len(order)))


class Laid:
    """A tensor of the model, as an operand with the channels last, first, or both. Its shape is TFLite's."""

    __slots__ = ("first", "last")

    def __init__(self, last: Operand | None = None, first: Operand | None = None) -> None:
        self.last, self.first = last, first

    @staticmethod
    def of(operand: Operand, order: Order) -> Laid:
        """Return the tensor for an operand in this order."""
        return Laid(operand) if order == channels_last(operand.ndim) else Laid(first=operand)

    @property
    def operand(self) -> Operand:
        """The operand in one of the two orders."""
        operand = self.last if self.last is not None else self.first
        assert operand is not None
        return operand

    @property
    def order(self) -> Order:
        """The order of `operand`."""
        return channels_last(self.operand.ndim) if self.last is not None else channels_first(self.operand.ndim)

    @property
    def ndim(self) -> int:
        return self.operand.ndim

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape in TFLite's order."""
        operand = self.operand
        return tuple(operand.shape[place] for place in inverse(self.order))

    @property
    def is_image(self) -> bool:
        """Whether the tensor exists only with the channels first."""
        return self.last is None

    def copy(self) -> Laid:
        """Return the same tensor, without the operand that is a transpose of the other."""
        return Laid(self.last) if self.last is not None else Laid(first=self.first)
