"""Read a .tflite file as plain data: graphs of operators, tensors with their contents, and signatures.

A file is a FlatBuffer (schema.fbs of TensorFlow Lite). Everything is read and checked here, so that a damaged file is
one error, and the converters can rely on indices and sizes.
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, ModelError, UnsupportedOperator, missing_extra, nearest, report
from ...expr import DType
from . import dtypes
from .sparsity import densified

IDENTIFIER = b"TFL3"  # bytes 4 to 8 of each file
_LARGEST_RANK = 32


@dataclass(frozen=True, slots=True)
class Quantization:
    """Real numbers are scale * (stored - zero_point). There is one pair, or one for each index of `axis`."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int

    @property
    def per_channel(self) -> bool:
        return self.scale.size > 1


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as the file declares it. `data` holds its contents if it is constant. -1 in `signature` is open."""

    index: int
    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    type: int
    data: np.ndarray | None = None
    quantization: Quantization | None = None
    variable: bool = False

    def __repr__(self) -> str:
        return f"{self.name}: {dtypes.name_of(self.type)}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """An operator. A left-out input has the index -1. `options` is the FlatBuffer table of its attributes, or None."""

    name: str
    custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any
    position: int


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph of operators, in the order in which they run."""

    name: str
    tensors: tuple[TensorInfo, ...]
    operators: tuple[OperatorNode, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """Names for the inputs and outputs of a subgraph."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TFLiteModel:
    """A model: `subgraphs[0]` is the main one, others are branches, bodies of loops, and what `CALL_ONCE` runs."""

    name: str
    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...] = field(default=())

    def signature(self, key: str | None = None) -> Signature:
        """Return the signature with this key, or the only signature of the main graph, or one of its tensors' names.

        Raises `InputError` if there is no signature with this key.
        """
        if key is not None:
            for signature in self.signatures:
                if signature.key == key:
                    return signature
            keys = [signature.key for signature in self.signatures]
            raise InputError(f"signature={key!r}: the model has no such signature; {nearest(str(key), keys)}")
        graph = self.subgraphs[0]
        for signature in self.signatures:
            if signature.subgraph == 0 and sorted(signature.inputs.values()) == sorted(graph.inputs):
                return signature
        inputs, outputs = ({_name(graph, i, indices): i for i in indices} for indices in (graph.inputs, graph.outputs))
        return Signature("", 0, inputs, outputs)

    def hybrid(self) -> list[str]:
        """Return the names of the operators with weights of 8 bits and data in float32."""
        names = {node.name for graph in self.subgraphs for node in graph.operators if _is_hybrid(graph, node)}
        return sorted(names)


def _name(graph: Subgraph, index: int, others: Sequence[int]) -> str:
    """Return the name of a tensor, with its index if another one has the same name."""
    name = graph.tensors[index].name
    same = [other for other in dict.fromkeys(others) if graph.tensors[other].name == name]
    return name if len(same) == 1 else f"{name}_{index}"


def _is_hybrid(graph: Subgraph, node: OperatorNode) -> bool:
    names = [dtypes.DTYPES.get(graph.tensors[index].type, "") for index in node.inputs if index >= 0]
    return node.name != "QUANTIZE" and names[:1] == ["float32"] and "int8" in names


def load(model: Any) -> TFLiteModel:
    """Return the model of a path or of a file's bytes. Raises `ModelError` if it is missing, damaged, or something
    else.
    """
    if isinstance(model, TFLiteModel):
        return model
    tflite = package()
    if isinstance(model, bytes | bytearray | memoryview):
        return _parsed(tflite, bytes(model), "the TFLite model", "main")
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        return _parsed(tflite, _read(path), str(path), path.stem)
    raise InputError(f"from_tflite takes the path or the bytes of a TFLite model, found {type(model).__name__}")


def package() -> Any:
    """Return the package tflite. Raises `MissingExtra` if it is not installed."""
    try:
        import tflite
    except ImportError:
        raise missing_extra("tflite", "tflite") from None
    return tflite


def _read(path: Path) -> bytes:
    if not path.exists():
        raise ModelError(f"{path}: no such file")
    if path.is_dir():
        raise ModelError(f"{path} is a folder, not a TFLite model")
    return path.read_bytes()


def _parsed(tflite: Any, content: bytes, place: str, name: str) -> TFLiteModel:
    if content[4:8] != IDENTIFIER:
        raise ModelError(
            report(
                f"{place} is not a TFLite model",
                wanted=f"a file with {IDENTIFIER.decode()} in its bytes 4 to 8",
                found=f"{len(content)} bytes that begin with {content[:8]!r}" if content else "an empty file",
                tries=("the file that tf.lite.TFLiteConverter or ai_edge_torch wrote",),
            )
        )
    try:
        return _Reader(tflite, content, name).model()
    except (struct.error, LookupError, TypeError, ValueError, AttributeError, OverflowError, MemoryError) as error:
        raise ModelError(
            report(
                f"{place} is a damaged TFLite model",
                found=f"{len(content)} bytes, in which an offset or a size is wrong ({type(error).__name__}: {error})",
                tries=("the file again from where it comes from: it may be cut off",),
            )
        ) from error


@functools.cache
def builtin_names() -> dict[int, str]:
    """Return the names of TFLite's builtin operators, by number."""
    operators = package().BuiltinOperator
    return {number: name for name, number in vars(operators).items() if name.isupper() and isinstance(number, int)}


class _Reader:
    """Reads one file. Its methods raise Python's own errors for indices and sizes that do not fit."""

    def __init__(self, tflite: Any, content: bytes, name: str) -> None:
        self.tflite, self.content, self.name = tflite, content, name
        self.root = tflite.Model.GetRootAs(content, 0)
        self.unions = [
            {number: option for option, number in vars(getattr(tflite, union)).items() if isinstance(number, int)}
            for union in ("BuiltinOptions", "BuiltinOptions2")
        ]

    def model(self) -> TFLiteModel:
        root = self.root
        self.codes = [self._code(root.OperatorCodes(k)) for k in range(root.OperatorCodesLength())]
        subgraphs = tuple(self._subgraph(root.Subgraphs(k), k) for k in range(root.SubgraphsLength()))
        if not subgraphs:
            raise ValueError("the model has no graph")
        signatures = tuple(self._signature(root.SignatureDefs(k), subgraphs) for k in range(root.SignatureDefsLength()))
        return TFLiteModel(self.name, subgraphs, signatures)

    def _code(self, code: Any) -> tuple[str, bool]:
        """Return the name of an operator, and whether it is a custom one.

        Old files have the number in a byte; new ones have it in an integer, and the byte is at most 127.
        """
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = builtin_names().get(number)
        if name == "CUSTOM":
            return _text(code.CustomCode()) or "(without a name)", True
        return name or f"number {number}", False

    def _subgraph(self, graph: Any, number: int) -> Subgraph:
        tensors = tuple(self._tensor(graph.Tensors(k), k) for k in range(graph.TensorsLength()))
        operators = tuple(self._operator(graph.Operators(k), k, len(tensors)) for k in range(graph.OperatorsLength()))
        inputs, outputs = (_indices(vector, len(tensors)) for vector in (graph.InputsAsNumpy(), graph.OutputsAsNumpy()))
        return Subgraph(_text(graph.Name()) or f"subgraph_{number}", tensors, operators, inputs, outputs)

    def _operator(self, node: Any, position: int, tensors: int) -> OperatorNode:
        name, custom = self.codes[node.OpcodeIndex()]
        inputs = _indices(node.InputsAsNumpy(), tensors, optional=True)
        outputs = _indices(node.OutputsAsNumpy(), tensors)
        return OperatorNode(name, custom, inputs, outputs, self._options(node), position)

    def _options(self, node: Any) -> Any:
        """Return the table of an operator's attributes, or None."""
        places = (
            (node.BuiltinOptionsType(), node.BuiltinOptions()),
            (node.BuiltinOptions2Type(), node.BuiltinOptions2()),
        )
        for names, (kind, table) in zip(self.unions, places, strict=True):
            if kind and table is not None:
                options = getattr(self.tflite, names[kind])()
                options.Init(table.Bytes, table.Pos)
                return options
        return None

    def _tensor(self, tensor: Any, index: int) -> TensorInfo:
        shape = _ints(tensor.ShapeAsNumpy())
        if any(d < 0 for d in shape) or len(shape) > _LARGEST_RANK:
            raise ValueError(f"tensor {index} has the shape {shape}")
        signature = _ints(tensor.ShapeSignatureAsNumpy())
        name = _text(tensor.Name()) or f"tensor_{index}"
        return TensorInfo(
            index, name, shape, signature if len(signature) == len(shape) else shape, tensor.Type(),
            self._contents(tensor, shape, name), self._quantization(tensor, shape), bool(tensor.IsVariable()),
        )  # fmt: skip

    def _contents(self, tensor: Any, shape: tuple[int, ...], name: str) -> np.ndarray | None:
        """Return the contents of a constant tensor, or None. Types without a dtype are refused where they are used.

        A constant without elements has no bytes; neither has a tensor that is computed.
        """
        number, count = tensor.Buffer(), int(np.prod(shape, dtype=np.int64))
        if number >= max(self.root.BuffersLength(), 1):
            raise IndexError(f"tensor {name} has the buffer {number}")
        if tensor.Type() not in dtypes.DTYPES:
            return None
        raw = self._buffer(self.root.Buffers(number)) if number else None
        if raw is None:
            return None if count else np.zeros(shape, DType(dtypes.DTYPES[tensor.Type()]).numpy)
        if tensor.Sparsity() is not None:
            return densified(tensor.Sparsity(), dtypes.elements(raw, tensor.Type(), None), shape)
        return dtypes.elements(raw, tensor.Type(), count).reshape(shape)

    def _buffer(self, buffer: Any) -> np.ndarray | None:
        """Return the bytes of a buffer, which follow the FlatBuffer in files of more than 2 GB; None if it is empty."""
        if buffer.Offset() > 1:
            begin, size = buffer.Offset(), buffer.Size()
            if begin + size > len(self.content):
                raise IndexError(f"a buffer ends at byte {begin + size}")
            return np.frombuffer(self.content, np.uint8, size, begin)
        raw = buffer.DataAsNumpy()
        return raw if isinstance(raw, np.ndarray) and raw.size else None

    def _quantization(self, tensor: Any, shape: tuple[int, ...]) -> Quantization | None:
        q = tensor.Quantization()
        if q is None or q.ScaleLength() == 0:
            return None
        scale = np.array(q.ScaleAsNumpy(), np.float32)
        zero = np.zeros(scale.size, np.int64)
        if q.ZeroPointLength():
            zero = np.broadcast_to(np.array(q.ZeroPointAsNumpy(), np.int64), scale.shape)
        axis = q.QuantizedDimension()
        if scale.size > 1 and (not 0 <= axis < len(shape) or shape[axis] != scale.size):
            raise ValueError(f"{scale.size} scales for axis {axis} of the shape {shape}")
        return Quantization(scale, zero, axis)

    def _signature(self, signature: Any, subgraphs: tuple[Subgraph, ...]) -> Signature:
        number = signature.SubgraphIndex()
        count = len(subgraphs[number].tensors)
        sides = []
        for length, entry in (
            (signature.InputsLength(), signature.Inputs), (signature.OutputsLength(), signature.Outputs),
        ):  # fmt: skip
            maps = [entry(k) for k in range(length)]
            (indices,) = [_indices(np.array([m.TensorIndex() for m in maps], np.int64), count)]
            sides.append({_text(m.Name()): index for m, index in zip(maps, indices, strict=True)})
        return Signature(_text(signature.SignatureKey()) or "serving_default", number, *sides)


def _text(raw: bytes | None) -> str:
    return "" if raw is None else raw.decode("utf-8", "replace")


def _ints(vector: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in vector) if isinstance(vector, np.ndarray) else ()


def _indices(vector: Any, count: int, optional: bool = False) -> tuple[int, ...]:
    numbers = _ints(vector)
    for number in numbers:
        if not (-1 if optional else 0) <= number < count:
            raise IndexError(f"tensor {number} of {count}")
    return numbers


def unsupported_type(info: TensorInfo, where: str) -> UnsupportedOperator:
    """Return the error for a tensor whose type has no dtype."""
    return UnsupportedOperator(
        f"{where}: the tensor {info.name} has the dtype {dtypes.name_of(info.type)}, which is not supported"
    )
