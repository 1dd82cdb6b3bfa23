"""Convert ONNX's element types and tensors to dtypes and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ModelError, UnsupportedOperator
from ...expr import DType
from ..common.operand import Narrow, Operand

# TensorProto.DataType by number. Missing ones are refused by name: string, complex, ...
_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip

# Types that are stored in a wider dtype: integers of fewer bits than a byte, and floats of a byte or less.
_NARROW = {
    17: Narrow("float16", "float8_e4m3fn"), 18: Narrow("float16", "float8_e4m3fnuz"),
    19: Narrow("float16", "float8_e5m2"), 20: Narrow("float16", "float8_e5m2fnuz"),
    21: Narrow("uint8", "uint4", 4), 22: Narrow("int8", "int4", 4), 23: Narrow("float16", "float4_e2m1fn"),
    25: Narrow("uint8", "uint2", 2), 26: Narrow("int8", "int2", 2),
}  # fmt: skip


def narrow_type(elem_type: int) -> Narrow | None:
    """Return the narrow type for elements that are stored in a wider dtype, or None for all other types."""
    return _NARROW.get(elem_type)


def narrow_results(proto: Any, inputs: Sequence[Operand | None], version: int) -> list[Narrow | None]:
    """Return the narrow type of each output of a node whose type is that of an input, as for Reshape."""
    import onnx

    if all(i is None or i.narrow is None for i in inputs) or not onnx.defs.has(proto.op_type, version, proto.domain):
        return [None] * len(proto.output)
    schema = onnx.defs.get_schema(proto.op_type, version, proto.domain)
    last_input, last_output = len(schema.inputs) - 1, len(schema.outputs) - 1
    types = {schema.inputs[min(k, last_input)].type_str: i.narrow for k, i in enumerate(inputs) if i is not None}
    return [types.get(schema.outputs[min(k, last_output)].type_str) for k in range(len(proto.output))]


def stored_dtype(elem_type: int, where: str) -> DType:
    """Return the dtype that stores the elements: a wider one for 4-bit integers and 8-bit floats, else the dtype
    itself.
    """
    return DType(_NARROW[elem_type].dtype) if elem_type in _NARROW else dtype_of(elem_type, where)


def dtype_of(elem_type: int, where: str) -> DType:
    """Return the dtype of an element type. Raises `UnsupportedOperator`, which names the type and the place `where`."""
    if elem_type in _DTYPES:
        return DType(_DTYPES[elem_type])
    import onnx

    names = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
    raise UnsupportedOperator(f"{where}: dtype {names.get(elem_type, elem_type)} is not supported")


def array_of(tensor: Any, where: str) -> np.ndarray:
    """Return the contents of a TensorProto. Types with fewer bits than any dtype are converted to a wider one.

    Raises `ModelError` if the contents are in an external file that was not loaded, or do not fit the shape.
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
    """Return the dtype and the dimensions of a ValueInfoProto. The dimensions are None if the rank is unknown.

    A dimension is an integer, a name, or "" if it is not given.
    """
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        kind_name = {"sequence_type": "sequence", "map_type": "map", "optional_type": "optional"}.get(
            str(kind), str(kind)
        )
        raise UnsupportedOperator(f"{where}: dtype {kind_name.removesuffix('_type')} is not supported")
    tensor = info.type.tensor_type
    dtype = stored_dtype(tensor.elem_type, where)
    if not tensor.HasField("shape"):
        return dtype, None
    dims: list[int | str] = []
    for dim in tensor.shape.dim:
        dims.append(int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else str(dim.dim_param))
    return dtype, dims
