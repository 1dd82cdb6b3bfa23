"""How types and constants are spelled in C.

A scalar is a type of C. A vector is a type of GCC's and Clang's vector extensions, with the name that it has in kernels
for Numba: `f32x16` has 16 lanes of float32. Compilers accept powers of two only, so that `f32x12` has four surplus
lanes, whose contents are arbitrary. A mask (`b1x16`) has lanes of int32, 0 or -1. A 16-bit float is its bits, because
compilers differ in the precision in which they compute with such types.
"""

from __future__ import annotations

import math

import numpy as np

from ...codegen.spelling import rounded
from ...errors import Unsupported
from ...expr import DType, FloatImm, IntImm
from ...machines.simd.vectors.lanes import B1, BF16, ELEMENTS, F16, F32, F64, Element

MASK_BITS = 32  # the width of a lane of a mask
_OF_DTYPE = {e.dtype: e for e in ELEMENTS.values()}
_SUFFIXES = {"i64": "LL", "u32": "u", "u64": "ULL"}


def element_of(dtype: DType) -> Element:
    """Return the element type of a dtype. Raises `Unsupported` for handles and other dtypes without values."""
    element = _OF_DTYPE.get(str(dtype.scalar))
    if element is None:
        raise Unsupported(f"a value of dtype {dtype} in a C kernel")
    return element


def shape_of(dtype: DType) -> tuple[Element, int]:
    """Return (element, lanes) of a dtype. A scalar has 0 lanes."""
    return element_of(dtype), 0 if dtype.lanes == 1 else dtype.lanes


def is_half(element: Element) -> bool:
    """Return whether an element is a 16-bit float, which C code keeps as its bits."""
    return element in (F16, BF16)


def scalar_type(element: Element) -> str:
    """Return the C type of a scalar value."""
    if element is B1:
        return "_Bool"
    return memory_type(element)


def memory_type(element: Element) -> str:
    """Return the C type of an element in memory: a bool is a byte."""
    if element is B1:
        return "uint8_t"
    if is_half(element):
        return "uint16_t"
    if element.kind == "f":
        return "float" if element is F32 else "double"
    return f"{'u' if element.kind == 'u' else ''}int{element.bits}_t"


def short_name(element: Element, lanes: int) -> str:
    """Return the name of a type in the names of functions: `f32` or `f32x16`."""
    return f"{element.name}x{lanes}" if lanes else element.name


def value_type(element: Element, lanes: int) -> str:
    """Return the C type of a value."""
    return short_name(element, lanes) if lanes else scalar_type(element)


def physical(lanes: int) -> int:
    """Return the number of lanes of the C type for a vector: a power of two, at least 2."""
    return max(2, 1 << (lanes - 1).bit_length())


def lane_type(element: Element) -> str:
    """Return the C type of one lane of a vector."""
    return f"int{MASK_BITS}_t" if element is B1 else scalar_type(element)


def lane_bytes(element: Element) -> int:
    """Return the number of bytes of one lane of a vector."""
    return MASK_BITS // 8 if element is B1 else element.itemsize


def typedef(element: Element, lanes: int) -> str:
    """Return the definition of a vector type."""
    size = physical(lanes) * lane_bytes(element)
    name = short_name(element, lanes)
    return f"typedef {lane_type(element)} {name} __attribute__((vector_size({size})));"


def literal(number: float, element: Element) -> str:
    """Return a constant of an element type. `number` is a bool, an integer, or a float."""
    if element is B1:
        return str(int(bool(number)))
    if is_half(element):
        return f"{int(np.array(number, np.float32).astype(element.dtype).view(np.uint16)):#06x}"
    if element.kind != "f":
        return _integer(int(number), element)
    number = float(number) if element is F64 else float(np.float32(number))
    long = element is F64
    if math.isnan(number):
        return f'__builtin_nan{"" if long else "f"}("")'
    if math.isinf(number):
        text = f"__builtin_inf{'' if long else 'f'}()"
        return text if number > 0 else f"(-{text})"
    text = repr(number) if long else str(np.float32(number))
    text = text if any(c in text for c in ".e") else f"{text}.0"
    text = text if long else f"{text}f"
    return f"({text})" if text.startswith("-") else text


def _integer(number: int, element: Element) -> str:
    low = -(1 << (element.bits - 1))
    modulus = 1 << element.bits
    number = (number - low) % modulus + low if element.kind == "i" else number % modulus
    suffix = _SUFFIXES.get(element.name, "")
    if element.kind == "i" and element.bits >= 32 and number == low:
        return f"({number + 1}{suffix} - 1)"
    return f"({number}{suffix})" if number < 0 else f"{number}{suffix}"


def constant(x: IntImm | FloatImm) -> str:
    """Return the constant of an expression, rounded once to its dtype."""
    return literal(x.value if isinstance(x, IntImm) else rounded(x), element_of(x.dtype))
