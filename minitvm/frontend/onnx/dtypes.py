"""ONNX's element types as dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import ModelError, UnsupportedOperator
from ...expr import DType

# TensorProto.DataType by number. Missing ones are refused by name: string, complex, float8, ...
_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip

# Integers of fewer bits than a byte, each stored in one: constants, and the results of a quantisation.
_NARROW = {21: ("uint8", 4), 22: ("int8", 4)}


def narrow_bits(elem_type: int) -> int | None:
    """The bits of an integer that takes less than a byte; None for all other types."""
    return _NARROW[elem_type][1] if elem_type in _NARROW else None


def stored_dtype(elem_type: int, where: str) -> DType:
    """The dtype that holds the elements: a byte for integers of 4 bits, else the dtype itself."""
    return DType(_NARROW[elem_type][0]) if elem_type in _NARROW else dtype_of(elem_type, where)


def dtype_of(elem_type: int, where: str) -> DType:
    """The dtype of an element type; raises `UnsupportedOperator` that names the type and the place, `where`."""
    if elem_type in _DTYPES:
        return DType(_DTYPES[elem_type])
    import onnx

    names = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
    raise UnsupportedOperator(f"{where}: dtype {names.get(elem_type, elem_type)} is not supported")


def array_of(tensor: Any, where: str) -> np.ndarray:
    """The contents of a TensorProto; integers of 4 bits come one in a byte.

    Raises `ModelError` if they are in a file beside the model that was not loaded, and if they do not fit the shape.
    """
    import onnx.numpy_helper

    dtype = stored_dtype(tensor.data_type, where)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        place = next((entry.value for entry in tensor.external_data if entry.key == "location"), "?")
        raise ModelError(
            f"{where}: its contents are in the file {place}, which was not loaded\n"
            "  try:    the path of the model instead of a ModelProto, or onnx.load(path)"
        )
    if any(extent < 0 for extent in tensor.dims):
        raise ModelError(f"{where}: its shape {list(tensor.dims)} has a negative extent")
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:  # NumPy's: the contents do not fill the shape
        raise ModelError(f"{where}: its contents do not fit {dtype}{list(tensor.dims)} ({error})") from error
    return np.asarray(array).astype(dtype.numpy, copy=False)


def tensor_type(info: Any, where: str) -> tuple[DType, list[int | str] | None]:
    """Dtype and dimensions of a ValueInfoProto: an integer, a name, or "" if it is not given; None: rank unknown."""
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        kind_name = {"sequence_type": "sequence", "map_type": "map", "optional_type": "optional"}.get(
            str(kind), str(kind)
        )
        raise UnsupportedOperator(f"{where}: dtype {kind_name.removesuffix('_type')} is not supported")
    tensor = info.type.tensor_type
    dtype = dtype_of(tensor.elem_type, where)
    if not tensor.HasField("shape"):
        return dtype, None
    dims: list[int | str] = []
    for dim in tensor.shape.dim:
        dims.append(int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else str(dim.dim_param))
    return dtype, dims
