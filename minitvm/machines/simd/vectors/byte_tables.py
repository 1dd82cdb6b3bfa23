"""Look up bytes in a table of 256 bytes: `lookup(A, b)` returns A[b] in each lane.

Machines register their instruction in `INSTRUCTIONS`; other machines gather. The whole table may be read, whatever the
lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types

from . import masked
from .lanes import ELEMENTS, I64, Value, VectorType, architecture, shape_of, value_of
from .memory import operation

ENTRIES = 256  # a byte's values
_BYTES = (ELEMENTS["i8"], ELEMENTS["u8"])

# For an architecture: (builder, address, places) -> the bytes at the places, or None for a number of lanes without one.
INSTRUCTIONS: dict[str, Callable[[ir.IRBuilder, ir.Value, Value], Value | None]] = {}


def _lookup_type(pointer: types.Type, places: types.Type) -> types.Type | None:
    element = shape_of(pointer.dtype) if isinstance(pointer, types.CPointer) else None
    if element is None or element[1] or element[0] not in _BYTES:
        return None
    return VectorType(element[0], places.lanes) if getattr(places, "element", None) is ELEMENTS["u8"] else None


@operation("lookup", _lookup_type, "lookup(A, b): A[b[l]] in lane l, of an array of 256 bytes and uint8 places")
def lookup(builder: ir.IRBuilder, sig: Any, pointer: ir.Value, places: ir.Value) -> ir.Value:
    index, element = value_of(builder, sig.args[1], places), sig.return_type.element
    instruction = INSTRUCTIONS.get(architecture(builder))
    found = None if instruction is None else instruction(builder, pointer, index)
    if found is None:
        zeros = Value(builder, element, index.lanes, places).constant(0)
        found = masked.gather(builder, pointer, index.cast(I64), None, zeros)
    return found.llvm
