"""The names of dtypes in OpenCL C: as values, and as elements of memory.

A 16-bit float is a `float` whose value float16 (or bfloat16) can represent, because few devices compute in these
formats. A bool is an `int`, 0 or 1. In a vector, bools are `char`, 0 or -1, as comparisons give them.
"""

from __future__ import annotations

import math

import numpy as np

from ....codegen.spelling import rounded
from ....errors import Unsupported
from ....expr import DType, FloatImm, IntImm

LANES = (2, 4, 8, 16)
_INTEGERS = {"int8": "char", "int16": "short", "int32": "int", "int64": "long"}
_SCALARS = {
    **_INTEGERS, **{f"u{dtype}": f"u{name}" for dtype, name in _INTEGERS.items()}, "bool": "int", "float16": "float",
    "bfloat16": "float", "float32": "float", "float64": "double",
}  # fmt: skip
_STORED = {"bool": "uchar", "float16": "half", "bfloat16": "ushort"}


def value_type(dtype: DType) -> str:
    """Return the type of a value. Raises `Unsupported` for a dtype or number of lanes that OpenCL C does not have."""
    name = _SCALARS.get(dtype.scalar)
    if name is None:
        raise Unsupported(f"a value of dtype {dtype} in an OpenCL kernel")
    if dtype.lanes == 1:
        return name
    if dtype.lanes not in LANES:
        wanted = ", ".join(map(str, LANES))
        raise Unsupported(f"a vector of {dtype.lanes} lanes in an OpenCL kernel: OpenCL C has those of {wanted}")
    return f"{'char' if dtype.is_bool else name}{dtype.lanes}"


def memory_type(dtype: DType) -> str:
    """Return the type of an element in memory."""
    return _STORED.get(dtype.scalar) or value_type(DType(dtype.scalar))


def array_type(dtype: DType) -> str:
    """Return the type of an element in an array that a kernel declares. `half` is allowed only for pointers."""
    return "ushort" if dtype.is_half else memory_type(dtype)


def unsigned(dtype: DType) -> str:
    """Return the unsigned integer type with the width and the lanes of a dtype."""
    return value_type(DType(f"uint{dtype.bits}").with_lanes(dtype.lanes))


def mask_type(dtype: DType) -> str:
    """Return the type of the condition with which `select` chooses between vectors of a dtype."""
    bits = 32 if dtype.is_half else dtype.bits
    return value_type(DType(f"int{8 if dtype.is_bool else bits}").with_lanes(dtype.lanes))


def literal(e: IntImm | FloatImm) -> str:
    """Return the text of a constant in exactly its dtype."""
    dtype = e.dtype
    if isinstance(e, IntImm):
        return str(int(bool(e.value))) if dtype.is_bool else _integer(e.value, dtype)
    number = rounded(e)
    if math.isnan(number):
        return "(double)NAN" if dtype == "float64" else "NAN"
    if math.isinf(number):
        text = "INFINITY" if number > 0 else "(-INFINITY)"
        return f"(double){text}" if dtype == "float64" else text
    if dtype == "float64":
        return repr(number)
    text = str(np.float32(number))
    return f"{text}f" if any(c in text for c in ".e") else f"{text}.0f"


def _integer(value: int, dtype: DType) -> str:
    suffix = {"int64": "L", "uint32": "u", "uint64": "UL"}.get(str(dtype), "")
    if dtype.kind == "int" and value == int(dtype.min) and dtype.bits >= 32:
        return f"({value + 1}{suffix} - 1)"
    text = f"{value}{suffix}"
    return f"({value_type(dtype)}){text}" if dtype.bits < 32 else f"({text})" if value < 0 else text
