"""Values of a program before they have a place in memory, and how large they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..executable import nodes as x
from ..executable.alignment import aligned_copy
from ..expr import DType, Expr, IntImm, Var, substitute
from ..tir.nodes import Buffer


@dataclass(eq=False, slots=True)
class Slot:
    """A value that a program touches: where it lives once that is decided, or how many bytes it needs.

    With a `home` it is the part of that slot that begins at byte `offset`.
    """

    name: str
    nbytes: x.Dim
    location: x.Location | None = None
    home: Slot | None = None
    offset: int = 0

    def storage(self) -> tuple[Slot, int]:
        """The slot that has memory of its own, and where in it this one begins."""
        slot, offset = self, 0
        while slot.home is not None:
            slot, offset = slot.home, offset + slot.offset
        return slot, offset


def buffer_bytes(buffer: Buffer, dims: Mapping[Var, Expr]) -> x.Dim:
    """The bytes of a row-major buffer; an expression where its shape is symbolic."""
    return tensor_bytes([substitute(d, dims) for d in buffer.shape], buffer.dtype)


def tensor_bytes(shape: Sequence[Any], dtype: DType) -> x.Dim:
    """The bytes of a dense tensor."""
    count: Any = 1
    for dim in shape:
        count = count * (dim.value if isinstance(dim, IntImm) else dim)
    return count * dtype.bytes


def constant(name: str, data: np.ndarray) -> x.Constant:
    """A copy of an array as a constant of an executable: the caller may change the array.

    The copy is aligned, so that the runtime needs none of its own.
    """
    array = aligned_copy(np.asarray(data))
    array.flags.writeable = False
    return x.Constant(name, DType(array.dtype.name), array.shape, array)
