"""Read files .safetensors: a header of JSON, and arrays that stay in the mapped file.

Every offset is checked before it is used. (The package `safetensors` returns no bfloat16 as NumPy arrays.)
"""

from __future__ import annotations

import json
import mmap
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ModelError, UnsupportedOperator
from ...expr import DType

_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_LENGTH = 8  # bytes of the number at the beginning of a file


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name, as views of the file.

    Raises `ModelError` if the file is missing or damaged, and `UnsupportedOperator` for arrays that are not floats.
    """
    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    with path.open("rb") as file:
        size = path.stat().st_size
        if size < _LENGTH:
            raise ModelError(f"{path} is damaged: it has only {size} bytes")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    length = int.from_bytes(data[:_LENGTH], "little")
    if length > size - _LENGTH:
        raise ModelError(f"{path} is damaged: wanted a header of {length} bytes, found {size - _LENGTH}")
    try:
        header = json.loads(data[_LENGTH : _LENGTH + length])
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is damaged: its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise ModelError(f"{path} is damaged: its header is not a table")
    begin = _LENGTH + length
    return {name: _array(path, data, begin, name, about) for name, about in header.items() if name != "__metadata__"}


def _array(path: Path, data: mmap.mmap, begin: int, name: str, about: Any) -> np.ndarray:
    try:
        kind, shape, (first, end) = about["dtype"], tuple(about["shape"]), about["data_offsets"]
        numbers = (*shape, first, end)
    except (TypeError, KeyError, ValueError) as error:
        raise ModelError(f"{path} is damaged: the entry of {name!r} is {about!r}") from error
    if kind not in _DTYPES:
        raise UnsupportedOperator(f"{path}: {name} has the dtype {kind}\n  wanted: one of {', '.join(_DTYPES)}")
    dtype = DType(_DTYPES[kind])
    if any(type(n) is not int or n < 0 for n in numbers) or end - first != prod(shape) * dtype.bytes:
        raise ModelError(f"{path} is damaged: {name!r} has the shape {list(shape)} and the bytes {first} to {end}")
    if end > len(data) - begin:
        raise ModelError(f"{path} is damaged: {name!r} ends at {end}, beyond the {len(data) - begin} bytes of the data")
    array: np.ndarray = np.frombuffer(data, np.uint8, end - first, begin + first).view(dtype.numpy).reshape(shape)
    return array
