"""Walk a TFLite graph: tensors become operands, operators become ours, and known values are computed on the way."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from ...errors import InputError, MinitvmError, ModelError, TypeMismatch, UnsupportedOperator, nearest
from ...expr import SizeVar
from ...graph.nodes import Dim, Graph, as_dim
from ..common.operand import Operand
from ..common.operand_builder import OperandBuilder
from . import dtypes
from .context import NodeContext, label
from .layouts import Laid
from .loading import OperatorNode, Subgraph, TensorInfo, TFLiteModel, unsupported_type
from .quantized import converted
from .registry import converters
from .unsupported import refuse_unsupported
from .variables import VariableHandle, Variables, tensor_state

Scope = dict[int, "Laid | VariableHandle"]  # the tensors of a subgraph that are known so far, by index

# The Python errors that a converter raises for a model that contradicts itself.
_UNMEANT = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, struct.error)
_DEEPEST = 16  # subgraphs that call each other


class TFLiteImporter:
    """One import of one model."""

    def __init__(
        self,
        model: TFLiteModel,
        shapes: Mapping[str, Sequence[Dim | str | None]],
        values: Mapping[str, np.ndarray],
        signature: str | None = None,
    ) -> None:
        self.model, self.shapes, self.values = model, shapes, values
        self.signature = model.signature(signature)
        self.builder = OperandBuilder(_identifier(model.name) or "main")
        with _reading_options(model):
            self.variables = Variables(self.builder, model)
        self._symbols: dict[str, SizeVar] = {}
        self._depth = 0

    def run(self) -> Graph:
        """Import the model and return its graph."""
        with _reading_options(self.model):
            refuse_unsupported(self.model, self.signature.subgraph)
        graph = self.model.subgraphs[self.signature.subgraph]
        inputs = self.signature.inputs
        for option, options in (("shapes", self.shapes), ("params", self.values)):
            for name in options:
                if name not in inputs:
                    raise InputError(f"{option}: the model has no input {name}; {nearest(name, list(inputs))}")
        arguments = {index: Laid(self._input(name, graph.tensors[index])) for name, index in inputs.items()}
        scope = self._converted(self.signature.subgraph, [arguments.get(index) for index in graph.inputs])
        outputs = []
        for name, index in self.signature.outputs.items():
            where = f"output {name}"
            outputs.append((name, self._plain(self._lookup(graph, scope, index, where), where)))
        if not outputs:
            raise ModelError(f"the model {self.model.name} has no outputs")
        states = []
        for name, state, value in list(self.variables.pairs()):
            left = self._plain(value, f"variable {name}")
            if left.dtype != state.dtype or left.shape != state.shape:
                raise ModelError(f"the variable {name} begins as {state}, and a run leaves {left}")
            states.append((state, left))
        return self.builder.build(outputs, states, self.variables.first())

    def subgraph(self, number: int, arguments: Sequence[Laid]) -> list[Laid]:
        """Return the outputs of a subgraph for these inputs."""
        if not 0 <= number < len(self.model.subgraphs):
            raise ModelError(f"the model has no subgraph {number}")
        graph = self.model.subgraphs[number]
        if len(arguments) != len(graph.inputs):
            raise ModelError(f"the subgraph {graph.name} has {len(graph.inputs)} inputs, found {len(arguments)}")
        if self._depth == _DEEPEST:
            raise ModelError(f"the subgraph {graph.name} is called by itself")
        self._depth += 1
        try:
            scope = self._converted(number, [argument.copy() for argument in arguments])
        finally:
            self._depth -= 1
        results = [self._lookup(graph, scope, index, f"an output of {graph.name}") for index in graph.outputs]
        if not all(isinstance(result, Laid) for result in results):
            raise UnsupportedOperator(f"the subgraph {graph.name} returns a variable instead of its value")
        return [result for result in results if isinstance(result, Laid)]

    # --- inputs ---

    def _input(self, name: str, info: TensorInfo) -> Operand:
        """Return an input of the main graph: a new input of ours, or its contents from `values`."""
        if info.type not in dtypes.DTYPES or info.type == dtypes.INT4:
            raise unsupported_type(info, f"input {name}")
        dtype = dtypes.DTYPES[info.type]
        shape = self._shape(name, info)
        if name not in self.values:
            return self.builder.input(name, shape, dtype)
        data = np.asarray(self.values[name])
        if data.dtype.name != dtype:
            raise InputError(f"params: {name} wanted {dtype}, found {data.dtype}")
        fits = len(data.shape) == len(shape) and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(shape, data.shape, strict=True)
        )
        if not fits:
            raise InputError(f"params: {name} wanted the shape ({', '.join(map(str, shape))}), found {data.shape}")
        return Operand.known(data)

    def _shape(self, name: str, info: TensorInfo) -> tuple[Dim, ...]:
        dims = self.shapes.get(name)
        if dims is None:
            return tuple(self._dim(name, axis, None if d < 0 else d) for axis, d in enumerate(info.signature))
        if not isinstance(dims, list | tuple):
            raise InputError(f"shapes: input {name}: wanted a tuple of dimensions, found {dims!r}")
        if len(dims) != len(info.shape):
            raise InputError(f"input {name} has {len(info.shape)} dimensions ({list(info.shape)}), found {tuple(dims)}")
        return tuple(self._dim(name, axis, dim) for axis, dim in enumerate(dims))

    def _dim(self, name: str, axis: int, dim: Dim | str | None) -> Dim:
        if dim is None or dim in ("", "?"):
            return SizeVar(f"{_identifier(name)}_{axis}")
        if isinstance(dim, str):
            return self._symbols.setdefault(dim, SizeVar(_identifier(dim)))
        try:
            if isinstance(dim, int) and dim < 0:
                raise InputError(f"a negative size, {dim}")
            return as_dim(dim)
        except (TypeError, ValueError, InputError):
            where = f"shapes: input {name}, dimension {axis}"
            raise InputError(f"{where}: wanted a size, a name or None, found {dim!r}") from None

    # --- operators ---

    def _converted(self, number: int, arguments: Sequence[Laid | None]) -> Scope:
        """Convert the operators of a subgraph in order, and return all of its tensors."""
        graph = self.model.subgraphs[number]
        scope: Scope = {i: t for i, t in zip(graph.inputs, arguments, strict=True) if t is not None}
        for node in graph.operators:
            inputs = [
                None if index < 0 else self._lookup(graph, scope, index, label(graph, node)) for index in node.inputs
            ]
            results = self._apply(NodeContext(self, graph, node, inputs))
            for index, result in zip(node.outputs, results, strict=False):
                if result is not None:
                    scope[index] = result
        return scope

    def _lookup(self, graph: Subgraph, scope: Scope, index: int, where: str) -> Laid | VariableHandle:
        """Return a tensor that is computed, constant, or a variable."""
        if index not in scope:
            info = graph.tensors[index]
            if info.data is not None:
                scope[index] = Laid(Operand.known(info.data))
            elif info.variable:
                return self.variables.read(tensor_state(info), info, where)
            elif info.type not in dtypes.DTYPES:
                raise unsupported_type(info, where)
            else:
                raise ModelError(f"{where}: nothing computes the tensor {info.name}")
        return scope[index]

    def _apply(self, n: NodeContext) -> Sequence[Laid | VariableHandle | None]:
        """Return the outputs of an operator."""
        try:
            with self.builder.at(n.where):
                results = converted(n, converters()[n.node.name])
        except (InputError, TypeMismatch) as error:
            raise UnsupportedOperator(f"{n.where}: {error}") from error
        except MemoryError as error:
            raise ModelError(f"{n.where}: {error}") from error
        except _UNMEANT as error:
            found = ", ".join(repr(n.graph.tensors[i]) if i >= 0 else "nothing" for i in n.node.inputs)
            kind = type(error).__name__
            raise ModelError(
                f"{n.where}: its inputs or options contradict each other: {found} ({kind}: {error})"
            ) from error
        return results

    def _plain(self, tensor: Laid | VariableHandle, where: str) -> Operand:
        """Return a tensor in TFLite's order of axes, for an output of the graph."""
        if isinstance(tensor, VariableHandle):
            raise UnsupportedOperator(f"{where} is a variable instead of its value")
        node = OperatorNode(where, False, (), (), None, 0)
        return NodeContext(self, self.model.subgraphs[0], node, []).last(tensor)


@contextmanager
def _reading_options(model: TFLiteModel) -> Iterator[None]:
    """Refuse a model in which the options of an operator cannot be read. They are read when they are needed."""
    try:
        yield
    except MinitvmError:
        raise
    except _UNMEANT as error:
        raise ModelError(
            f"{model.name} is a damaged TFLite model: options of an operator ({type(error).__name__}: {error})"
        ) from error


def _identifier(name: str) -> str:
    text = re.sub(r"\W+", "_", name).strip("_") or "n"
    return f"n_{text}" if text[0].isdigit() else text
