"""Data types: a `DType` is a string in TVM's spelling ("float32", "int8x16", "handle") that has properties."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

SCALARS = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64",
)  # fmt: skip
HALVES = ("float16", "bfloat16")  # floats of 16 bits: arithmetic on them is done in float32 and rounded
_PATTERN = re.compile(r"^(bool|int|uint|float|bfloat|handle)(\d+)?(?:x(\d+))?$")
_NUMPY = {"bfloat16": np.dtype(ml_dtypes.bfloat16)}  # dtypes that another package gives NumPy


class DType(str):
    """A dtype, spelled as in TVM. It is a `str`, so `x.dtype == "float32"` works.

    `kind` is one of bool, int, uint, float and handle. `bits` is the width of one lane (1 for bool), and `lanes` is the
    number of lanes (1 for a scalar).
    """

    __slots__ = ("bits", "is_bool", "is_float", "is_int", "kind", "lanes")
    kind: str
    bits: int
    lanes: int
    is_float: bool
    is_int: bool  # signed or unsigned, bool not included
    is_bool: bool

    def __new__(cls, text: Any) -> DType:
        return text if type(text) is DType else _make(_spelling(text))

    def __reduce__(self) -> tuple[Any, ...]:
        return (DType, (str(self),))

    @property
    def scalar(self) -> DType:
        """The dtype of one lane."""
        return self if self.lanes == 1 else DType(str(self).rsplit("x", 1)[0])

    def with_lanes(self, lanes: int) -> DType:
        """Return the vector dtype that has `lanes` lanes of this dtype's scalar type."""
        return self.scalar if lanes == 1 else _vector(self, lanes)

    @property
    def is_half(self) -> bool:
        """Return whether one lane is a 16-bit float."""
        return self.scalar in HALVES

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of one lane."""
        return _NUMPY.get(self.scalar) or np.dtype(str(self.scalar))

    @property
    def bytes(self) -> int:
        """The number of bytes that one element takes in memory, counting all its lanes. A bool takes one byte."""
        return max(1, self.bits // 8) * self.lanes

    @property
    def min(self) -> int | float:
        """The smallest finite value of one lane."""
        if self.is_float:
            return float(limits(self.numpy).min)
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def max(self) -> int | float:
        """The largest finite value of one lane."""
        if self.is_float:
            return float(limits(self.numpy).max)
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1


def limits(dtype: Any) -> Any:
    """Return NumPy's `finfo` for a float dtype; bfloat16 is accepted too."""
    return ml_dtypes.finfo(dtype) if np.dtype(dtype) == _NUMPY["bfloat16"] else np.finfo(dtype)


def is_floating(dtype: Any) -> bool:
    """Return whether a NumPy dtype holds floats. It also accepts bfloat16, which is not one of NumPy's own dtypes."""
    return np.issubdtype(dtype, np.floating) or np.dtype(dtype) == _NUMPY["bfloat16"]


def _spelling(text: Any) -> str:
    if isinstance(text, str):
        return text
    return np.dtype(text).name


@cache
def _make(text: str) -> DType:
    match = _PATTERN.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a dtype; known: {', '.join(SCALARS)}, and vectors such as float32x8")
    kind, bits, lanes = match.groups()
    default = {"bool": 1, "handle": 64, "int": 32, "uint": 32, "float": 32, "bfloat": 16}[kind]
    width = int(bits) if bits else default
    canonical = kind if kind in ("bool", "handle") else f"{kind}{width}"
    if kind not in ("bool", "handle") and canonical not in SCALARS:
        raise ValueError(f"{text!r} is not a dtype; known: {', '.join(SCALARS)}, and vectors such as float32x8")
    count = int(lanes) if lanes else 1
    dtype = str.__new__(DType, canonical if count == 1 else f"{canonical}x{count}")
    dtype.kind, dtype.bits, dtype.lanes = kind.removeprefix("b") if kind == "bfloat" else kind, width, count
    dtype.is_float, dtype.is_int, dtype.is_bool = dtype.kind == "float", kind in ("int", "uint"), kind == "bool"
    return dtype


@cache
def _vector(dtype: DType, lanes: int) -> DType:
    return DType(f"{dtype.scalar}x{lanes}")


def dtype_of_value(value: Any) -> DType:
    """Return the dtype that a Python or NumPy scalar has in an expression. Raises `TypeError` if it is not a scalar.

    For example, 1 is int32, 1.0 is float32 and True is bool.
    """
    if isinstance(value, bool | np.bool_):
        return DType("bool")
    if isinstance(value, np.generic):
        return DType(value.dtype.name)
    if isinstance(value, int):
        return DType("int32" if -(2**31) <= value < 2**31 else "int64")
    if isinstance(value, float | Fraction):
        return DType("float32")
    raise TypeError(f"{value!r} of type {type(value).__name__} is not a scalar constant")


def promote(a: DType, b: DType) -> DType:
    """Return the common dtype of two operands, as in TVM: a float dtype if either is a float, otherwise the wider
    dtype; it is a vector if either is a vector.

    An int and a uint of the same width become uint (TVM's rule), and a bool takes the dtype of the other operand.
    Raises `TypeError` if both are vectors with different numbers of lanes.
    """
    if a.lanes != b.lanes and 1 not in (a.lanes, b.lanes):
        raise TypeError(f"lanes differ: {a} and {b}")
    lanes = max(a.lanes, b.lanes)
    x, y = a.scalar, b.scalar
    if x == y:
        return x.with_lanes(lanes)
    rank = {"bool": 0, "int": 1, "uint": 2, "float": 3}
    if x.kind not in rank or y.kind not in rank:
        raise TypeError(f"no common dtype of {a} and {b}")
    if "float" in (x.kind, y.kind) and x.kind != y.kind:
        wider = x if x.kind == "float" else y
    elif x.is_half and y.is_half:
        wider = DType("float32")  # neither dtype contains all values of the other
    elif x.bits != y.bits:
        wider = x if x.bits > y.bits else y
    else:
        wider = x if rank[x.kind] > rank[y.kind] else y
    return wider.with_lanes(lanes)
