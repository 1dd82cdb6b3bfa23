"""TFLite's element types, and the contents of buffers."""

from __future__ import annotations

import numpy as np

from ...expr import DType

# TensorType by number. Missing ones are refused by name: string, complex, resource, variant.
DTYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 9: "int8", 10: "float64",
    12: "uint64", 15: "uint32", 16: "uint16", 17: "int8", 18: "bfloat16",
}  # fmt: skip
_REFUSED = {5: "string", 8: "complex64", 11: "complex128", 13: "resource", 14: "variant"}
RESOURCE, INT4 = 13, 17


def name_of(number: int) -> str:
    """Return the name of an element type."""
    return "int4" if number == INT4 else DTYPES.get(number) or _REFUSED.get(number) or f"number {number}"


def elements(raw: np.ndarray, number: int, count: int | None) -> np.ndarray:
    """Return the first `count` elements of a buffer, or all. Integers of 4 bits are stored in int8.

    Raises `ValueError` if the buffer has fewer bytes.
    """
    if number == INT4:
        # The lower half of a byte is the first of its two elements.
        pairs = np.stack([raw << 4, raw], axis=-1).reshape(-1).view(np.int8) >> 4
        array: np.ndarray = pairs if count is None else pairs[:count]
    else:
        dtype = DType(DTYPES[number]).numpy
        array = np.frombuffer(raw.tobytes(), dtype, -1 if count is None else count)
    if count is not None and array.size != count:
        raise ValueError(f"a buffer of {raw.size} bytes for {count} elements of {name_of(number)}")
    return array
