"""Values of a program before they have a place in memory, and how large they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any, cast

import numpy as np

from ..executable import nodes as x
from ..executable.alignment import aligned_copy
from ..expr import DType, Expr, IntImm, Var, substitute
from ..tir.nodes import Buffer


@dataclass(eq=False, slots=True)
class Slot:
    """A value that a program uses: its place once that is decided, or the number of bytes that it needs.

    With a `home` it is the part of that slot that begins at byte `offset`. `memory` is the target in whose memory a
    slot without home or location lies, "" for the program's own.
    """

    name: str
    nbytes: x.Dim
    location: x.Location | None = None
    home: Slot | None = None
    offset: int = 0
    memory: str = ""

    def storage(self) -> tuple[Slot, int]:
        """The slot that has its own memory, and the offset of this slot in it."""
        slot, offset = self, 0
        while slot.home is not None:
            slot, offset = slot.home, offset + slot.offset
        return slot, offset


def buffer_bytes(buffer: Buffer, dims: Mapping[Var, Expr]) -> x.Dim:
    """The bytes of a row-major buffer; an expression where its shape is symbolic."""
    return tensor_bytes([substitute(d, dims) for d in buffer.shape], buffer.dtype)


def tensor_bytes(shape: Sequence[Any], dtype: DType) -> x.Dim:
    """The bytes of a dense tensor."""
    nbytes, symbolic = dtype.bytes, []
    for dim in shape:
        size = dim.value if isinstance(dim, IntImm) else dim
        if isinstance(size, int):
            nbytes *= size
        else:
            symbolic.append(size)
    product: Any = reduce(mul, symbolic) * nbytes if symbolic and nbytes else nbytes
    return cast("x.Dim", product)


def constant(name: str, data: np.ndarray) -> x.Constant:
    """A copy of an array as a constant of an executable: the caller may change the array.

    The copy is aligned, so that the runtime needs none of its own.
    """
    array = aligned_copy(np.asarray(data))
    array.flags.writeable = False
    return x.Constant(name, DType(array.dtype.name), array.shape, array)
