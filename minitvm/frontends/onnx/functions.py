"""The function bodies of operators that the ONNX specification defines by other operators, from the onnx package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...expr import DType, Expr
from ...graph.nodes import Dim


def has_body(proto: Any, version: int) -> bool:
    """Return whether the specification defines a node's operator by other operators, at least for inputs of some
    types.
    """
    import onnx.defs

    try:
        schema = onnx.defs.get_schema(proto.op_type, version, "" if proto.domain == "ai.onnx" else proto.domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def body_of(proto: Any, types: Sequence[tuple[DType, tuple[Dim, ...]] | None], version: int) -> Any:
    """Return the FunctionProto that defines a node for inputs of these types in an opset, or None."""
    import onnx
    import onnx.defs

    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        schema = onnx.defs.get_schema(proto.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= version]
        if versions:
            return _complete(onnx, schema, schema.get_function_with_opset_version(max(versions)), proto)
    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        if versions:
            kinds = [_type_proto(onnx, t).SerializeToString() for t in types]
            function = schema.get_context_dependent_function_with_opset_version(
                max(versions), proto.SerializeToString(), kinds
            )
            return _complete(onnx, schema, function, proto)
    return None


def _complete(onnx: Any, schema: Any, serialized: bytes, proto: Any) -> Any:
    """Return the body, with the schema's default for each attribute that the node leaves out."""
    function = onnx.FunctionProto.FromString(serialized)
    present = {a.name for a in proto.attribute}
    declared = {a.name for a in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if name not in present and name not in declared and attribute.default_value.name:
            function.attribute_proto.append(attribute.default_value)
    return function


def _type_proto(onnx: Any, kind: tuple[DType, tuple[Dim, ...]] | None) -> Any:
    if kind is None:
        return onnx.TypeProto()
    dtype, shape = kind
    elem_type = onnx.helper.np_dtype_to_tensor_dtype(dtype.numpy)
    return onnx.helper.make_tensor_type_proto(elem_type, [str(d) if isinstance(d, Expr) else d for d in shape])
