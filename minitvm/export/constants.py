"""The constants of a program as one block of bytes."""

from __future__ import annotations

from collections.abc import Iterable

from ..executable import Constant
from ..executable.alignment import ALIGNMENT


def packed(constants: Iterable[Constant]) -> tuple[list[int], bytes]:
    """Return the offset of each constant, and the bytes of all. Each begins at a multiple of the alignment."""
    offsets, data = list[int](), bytearray()
    for constant in constants:
        offsets.append(len(data))
        data += constant.data.tobytes()
        data += bytes(-len(data) % ALIGNMENT)
    return offsets, bytes(data)
