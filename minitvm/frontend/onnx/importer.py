"""The walk over an ONNX graph: names to operands, nodes to operators, what is known computed on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import InputError, MinitvmError, ModelError, TypeMismatch, UnsupportedOperator, nearest
from ...expr import DType, Expr, SizeVar, as_expr
from ...graph import registry as operators
from ...graph.builder import GraphBuilder
from ...graph.nodes import Dim, Graph, OpNode, Value
from ...topi.shapes import simple
from .context import NodeContext, label
from .dtypes import array_of, tensor_type
from .functions import body_of, has_body
from .operand import Operand
from .registry import REFUSED, find

# Operators whose NumPy fold also holds for arrays of symbolic dimensions.
_ON_DIMENSIONS = frozenset({
    "add", "broadcast_to", "cast", "concatenate", "copy", "divide", "expand_dims", "floor_divide", "full",
    "multiply", "reshape", "split", "squeeze", "strided_slice", "subtract", "take", "transpose",
})  # fmt: skip

# Operators that add many elements up, which for half floats is done in float32, as ONNX Runtime does.
_SUMS = frozenset({
    "cumsum", "einsum", "l1", "l2", "log_sum", "logsumexp", "mean", "nn.avg_pool1d", "nn.avg_pool2d",
    "nn.avg_pool3d", "nn.conv1d", "nn.conv1d_transpose", "nn.conv2d", "nn.conv2d_transpose", "nn.conv3d",
    "nn.conv3d_transpose", "nn.dense", "nn.global_avg_pool", "nn.group_norm", "nn.instance_norm", "nn.layer_norm",
    "nn.log_softmax", "nn.lrn", "nn.matmul", "nn.rms_norm", "prod", "sum", "sum_square", "variance",
})  # fmt: skip


class Importer:
    """One import of one model."""

    def __init__(
        self, model: Any, shapes: dict[str, Sequence[Dim | str | None]], values: dict[str, np.ndarray]
    ) -> None:
        self.model, self.shapes, self.values = model, shapes, values
        self.builder = GraphBuilder(re.sub(r"\W", "_", model.graph.name) or "main")
        self.versions = _versions(model.opset_import)
        self.local_functions = {(f.domain, f.name): f for f in model.functions}
        self.symbols: dict[str, Dim] = {}

    def run(self) -> Graph:
        """The graph."""
        graph = self.model.graph
        scope = self._initializers(graph)
        self._inputs(graph, scope)
        live = list(_live(graph))
        try:
            self.nodes(live, scope, self.versions)
        except UnsupportedOperator as error:
            others = self._other_unknown(live, str(error))
            if not others:
                raise
            words = "nor is the operator" if len(others) == 1 else "nor are the operators"
            raise UnsupportedOperator(f"{error}; {words} {', '.join(others)}") from error
        outputs = [self.value(self._lookup(scope, o.name, "the graph's outputs"), o.name) for o in graph.output]
        if not outputs:
            raise ModelError(f"the model {graph.name} has no outputs")
        return _named(self.builder.build(outputs), [o.name for o in graph.output])

    # --- what the graph starts from ---

    def _initializers(self, graph: Any) -> dict[str, Operand]:
        if graph.sparse_initializer:
            raise UnsupportedOperator("sparse initializers are not supported")
        return {t.name: Operand.known(array_of(t, f"initializer {t.name}")) for t in graph.initializer}

    def _inputs(self, graph: Any, scope: dict[str, Operand]) -> None:
        inputs = [i for i in graph.input if i.name not in scope]
        names = [i.name for i in inputs]
        for option, options in (("shapes", self.shapes), ("values", self.values)):
            for name in options:
                if name not in names:
                    raise InputError(f"{option}: the model has no input {name}; {nearest(name, names or ['(none)'])}")
        types = {i.name: tensor_type(i, f"input {i.name}") for i in inputs}
        fixed = {n: self._fixed(n, types[n][1]) for n in names}
        for name in names:
            self._bind_symbols(name, types[name][1], fixed[name])
        for name in names:
            dtype, declared = types[name]
            if name in self.values:
                data = np.asarray(self.values[name])
                if data.dtype != dtype.numpy:
                    raise InputError(f"values: {name} wanted {dtype}, found {data.dtype}")
                scope[name] = Operand.known(data)
                continue
            shape = fixed[name]
            if shape is None:
                if declared is None:
                    raise UnsupportedOperator(f"input {name} has no rank\n  try:    shapes={{{name!r}: (...)}}")
                shape = tuple(self._dim(name, axis, dim) for axis, dim in enumerate(declared))
            scope[name] = Operand.of(self.builder.input(name, shape, dtype), frozenset((name,)))

    def _fixed(self, name: str, declared: list[int | str] | None) -> tuple[Dim, ...] | None:
        dims = self.values[name].shape if name in self.values else self.shapes.get(name)
        if dims is None:
            return None
        shape = tuple(self._given(name, axis, d) for axis, d in enumerate(dims))
        if declared is not None and len(shape) != len(declared):
            raise InputError(f"input {name} has {len(declared)} dimensions ({_dims(declared)}), found {shape}")
        for axis, (dim, expected) in enumerate(zip(shape, declared or [], strict=False)):
            if isinstance(expected, int) and isinstance(dim, int) and dim != expected:
                raise InputError(
                    f"input {name}, dimension {axis}: wanted {expected} ({_dims(declared)}), found {shape}"
                )
            if isinstance(dim, int) and dim < 0:
                raise InputError(f"input {name}, dimension {axis}: {dim} is negative")
        return shape

    def _bind_symbols(self, name: str, declared: list[int | str] | None, shape: tuple[Dim, ...] | None) -> None:
        for dim, size in zip(declared or [], shape or (), strict=False):
            if not isinstance(dim, str) or dim in ("", "?"):
                continue
            bound = self.symbols.setdefault(dim, size)
            if isinstance(bound, int) and isinstance(size, int) and bound != size:
                raise InputError(f"input {name}: the dimension {dim} is {bound} elsewhere, found {size}")

    def _given(self, name: str, axis: int, dim: Dim | str | None) -> Dim:
        if dim is None:
            return SizeVar(f"{_identifier(name)}_{axis}")
        return self.symbols.setdefault(dim, SizeVar(_identifier(dim))) if isinstance(dim, str) else dim

    def _dim(self, name: str, axis: int, dim: int | str) -> Dim:
        if isinstance(dim, int):
            return dim
        if dim in ("", "?"):
            return SizeVar(f"{_identifier(name)}_{axis}")
        return self.symbols.setdefault(dim, SizeVar(_identifier(dim)))

    # --- nodes ---

    def nodes(self, protos: Iterable[Any], scope: dict[str, Operand], versions: Mapping[str, int]) -> None:
        """Convert nodes in order; `scope` holds what names stand for, and gets their outputs."""
        for proto in protos:
            inputs = [self._lookup(scope, name, label(proto)) if name else None for name in proto.input]
            outputs = self._convert(proto, inputs, scope, versions)
            for name, operand in zip(proto.output, outputs, strict=False):
                if name and operand is not None:
                    scope[name] = operand

    def _other_unknown(self, protos: Iterable[Any], reported: str) -> list[str]:
        """The operators of a graph, with their number, that nothing converts and that `reported` does not name."""
        counts: dict[str, int] = {}
        for proto in protos:
            local = (proto.domain, proto.op_type) in self.local_functions
            version = self.versions.get("" if proto.domain == "ai.onnx" else proto.domain)
            if local or version is None or find(proto.domain, proto.op_type, version) is not None:
                continue
            if proto.op_type in REFUSED or not has_body(proto, version):
                counts[proto.op_type] = counts.get(proto.op_type, 0) + 1
        return [f"{name} ({n} nodes)" if n > 1 else name for name, n in counts.items() if name not in reported]

    def subgraph(self, graph: Any, scope: dict[str, Operand]) -> list[Operand]:
        """The outputs of a branch, which sees the names around it."""
        inner = {**scope, **self._initializers(graph)}
        self.nodes(graph.node, inner, self.versions)
        return [self._lookup(inner, o.name, f"the outputs of the branch {graph.name}") for o in graph.output]

    def _lookup(self, scope: Mapping[str, Operand], name: str, where: str) -> Operand:
        if name not in scope:
            raise ModelError(f"{where}: nothing defines {name}")
        return scope[name]

    def _convert(
        self, proto: Any, inputs: Sequence[Operand | None], scope: dict[str, Operand], versions: Mapping[str, int]
    ) -> Sequence[Operand | None]:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        local = self.local_functions.get((proto.domain, proto.op_type))
        if local is not None:
            return self._call(proto, local, inputs)
        if domain not in versions:
            raise ModelError(f"{label(proto)}: the model imports no opset of the domain {domain or 'ai.onnx'}")
        function = find(domain, proto.op_type, versions[domain])
        if function is not None:
            return self._apply_converter(function, proto, inputs, scope, versions[domain])
        if proto.op_type in REFUSED:
            raise UnsupportedOperator(f"{label(proto)} is not supported: {REFUSED[proto.op_type]}")
        types = [(i.dtype, i.shape) if i is not None else None for i in inputs]
        body = body_of(proto, types, versions[domain])
        if body is None:
            raise UnsupportedOperator(f"{label(proto)} of opset {versions[domain]} is not supported")
        return self._call(proto, body, inputs)

    def _apply_converter(
        self, function: Any, proto: Any, inputs: Sequence[Operand | None], scope: dict[str, Operand], version: int
    ) -> Sequence[Operand]:
        context = NodeContext(self, proto, inputs, version)
        context.scope = scope
        try:
            results = function(context)
        except (InputError, TypeMismatch) as error:
            raise self._misfit(proto, error) from error
        context.check_attributes()
        outputs: list[Operand] = list(results) if isinstance(results, list | tuple) else [results]
        for position, name in enumerate(proto.output):
            if name and position >= len(outputs):
                raise UnsupportedOperator(f"{context.where}: output {position} is not supported")
        return outputs

    def _misfit(self, proto: Any, error: MinitvmError) -> MinitvmError:
        """What an operator refused: a model that contradicts itself, or one beyond what the operator can do."""
        import onnx.shape_inference

        try:
            onnx.shape_inference.infer_shapes(self.model, check_type=True, strict_mode=True)
        except onnx.shape_inference.InferenceError:
            return ModelError(f"{label(proto)}: {error}")
        return UnsupportedOperator(f"{label(proto)}: {error}")

    def _call(self, proto: Any, function: Any, inputs: Sequence[Operand | None]) -> list[Operand | None]:
        """The outputs of a function body on those inputs; None for one that the body leaves out."""
        scope = {name: operand for name, operand in zip(function.input, inputs, strict=False) if operand is not None}
        attributes = {a.name: a for a in getattr(function, "attribute_proto", ())}
        attributes.update({a.name: a for a in proto.attribute})
        versions = {
            **self.versions,
            **{("" if o.domain == "ai.onnx" else o.domain): o.version for o in function.opset_import},
        }
        for inner in function.node:
            bound = _with_attributes(inner, attributes)
            # A name that stands for an input which is left out is itself left out.
            absent = set(function.input) - set(scope)
            for position, name in enumerate(bound.input):
                if name in absent:
                    bound.input[position] = ""
            self.nodes([bound], scope, versions)
        return [scope.get(name) for name in function.output]

    # --- operators ---

    def apply(self, op: str, operands: Sequence[Operand], attrs: Mapping[str, Any], name: str) -> Any:
        """The outputs of an operator: their contents where all is known and NumPy says how, else graph nodes."""
        depends = frozenset().union(*(o.depends for o in operands)) if operands else frozenset()
        if op in _SUMS and any(o.dtype == "float16" for o in operands):
            return self._in_float32(op, operands, attrs, name)
        operator = operators.get(op)
        if operator.fold is not None and all(o.is_known for o in operands):
            folded = _fold(operator, operands, operator.normalize(attrs))
            if folded is not None:
                return folded
        results = self.builder.op(op, *(self.value(o) for o in operands), name=name, **attrs)
        if isinstance(results, tuple):
            return tuple(Operand.of(v, depends) for v in results)
        return Operand.of(results, depends)

    def _in_float32(self, op: str, operands: Sequence[Operand], attrs: Mapping[str, Any], name: str) -> Any:
        """Half floats as operands of an operator that sums: the sum of many needs more bits than each of them has."""
        wide = [self.apply("cast", [o], {"dtype": "float32"}, name) if o.dtype == "float16" else o for o in operands]
        computed = self.apply(op, wide, attrs, name)
        results = computed if isinstance(computed, tuple) else (computed,)
        half = [self.apply("cast", [r], {"dtype": "float16"}, name) if r.dtype == "float32" else r for r in results]
        return tuple(half) if isinstance(computed, tuple) else half[0]

    def value(self, operand: Operand, name: str | None = None) -> Value:
        """The operand as a value of the graph; a constant is put into the graph on first use."""
        if operand.value is None:
            assert operand.data is not None
            if operand.data.dtype == object:
                shape = ", ".join(map(str, operand.data.reshape(-1).tolist()))
                raise UnsupportedOperator(
                    f"the symbolic dimensions [{shape}] are used as data\n  try:    shapes={{...}}"
                )
            operand.value = self.builder.constant(operand.data, name)
        return operand.value


def _versions(imports: Iterable[Any]) -> dict[str, int]:
    return {("" if o.domain == "ai.onnx" else o.domain): o.version for o in imports}


def _fold(operator: operators.Operator, operands: Sequence[Operand], attrs: dict[str, Any]) -> Any:
    symbolic = any(o.is_symbolic for o in operands)
    if (symbolic and operator.name not in _ON_DIMENSIONS) or _has_symbol(tuple(attrs.values())):
        return None
    types = operator.output_types([(o.shape, o.dtype) for o in operands], attrs)
    assert operator.fold is not None
    with np.errstate(all="ignore"):
        arrays = operator.fold(*(o.data for o in operands), **attrs)
    results = list(arrays) if isinstance(arrays, list | tuple) else [arrays]
    folded = tuple(_known(np.asarray(r), dtype) for r, (_, dtype) in zip(results, types, strict=True))
    return folded[0] if len(folded) == 1 else folded


def _has_symbol(value: Any) -> bool:
    return isinstance(value, Expr) or (isinstance(value, tuple) and any(map(_has_symbol, value)))


def _known(array: np.ndarray, dtype: DType) -> Operand:
    if array.dtype != object:
        return Operand.known(array.astype(dtype.numpy, copy=False))
    reduced = [simple(as_expr(d)) if isinstance(d, Expr) else int(d) for d in array.reshape(-1).tolist()]
    if all(isinstance(d, int) for d in reduced):
        return Operand.known(np.array(reduced, dtype.numpy).reshape(array.shape))
    filled = np.empty(len(reduced), object)
    filled[:] = reduced
    return Operand.known(filled.reshape(array.shape), dtype)


def _with_attributes(proto: Any, attributes: Mapping[str, Any]) -> Any:
    """A copy of a node of a function body whose references to the function's attributes are filled in."""
    copy = type(proto).FromString(proto.SerializeToString())
    kept = []
    for attribute in copy.attribute:
        if not attribute.ref_attr_name:
            kept.append(_inside(attribute, attributes))
        elif attribute.ref_attr_name in attributes:
            filled = type(attribute).FromString(attributes[attribute.ref_attr_name].SerializeToString())
            filled.name = attribute.name
            kept.append(filled)
    copies = [type(a).FromString(a.SerializeToString()) for a in kept]
    del copy.attribute[:]
    copy.attribute.extend(copies)
    return copy


def _inside(attribute: Any, attributes: Mapping[str, Any]) -> Any:
    """The same within the branches of an If."""
    if attribute.HasField("g"):
        nodes = [_with_attributes(n, attributes) for n in attribute.g.node]
        del attribute.g.node[:]
        attribute.g.node.extend(nodes)
    return attribute


def _live(graph: Any) -> list[Any]:
    """The nodes that the outputs need, in order."""
    needed = {o.name for o in graph.output}
    kept = []
    for proto in reversed(graph.node):
        if not proto.output or any(o in needed for o in proto.output):
            needed.update(_reads(proto))
            kept.append(proto)
    return kept[::-1]


def _reads(proto: Any) -> Iterator[str]:
    yield from proto.input
    for attribute in proto.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (o.name for o in graph.output)
            for inner in graph.node:
                yield from _reads(inner)


def _named(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph with its outputs under the model's names, where a node makes them and the name is free."""
    produced = {v for item in graph.nodes for v in item.outputs}
    renamed: dict[Value, Value] = {}
    for value, name in zip(graph.outputs, names, strict=False):
        if value in produced and value.name != name and value not in renamed:
            renamed[value] = Value(name, value.shape, value.dtype)
    if not renamed:
        return graph
    renamed_of = {v.name: v for v in renamed.values()}
    for value in graph.values():
        if value not in renamed and value.name in renamed_of and value in produced:
            renamed[value] = Value(f"{value.name}_inner", value.shape, value.dtype)

    def of(values: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(renamed.get(v, v) for v in values)

    nodes = tuple(OpNode(item.op, of(item.inputs), item.attrs, of(item.outputs)) for item in graph.nodes)
    return Graph(graph.inputs, graph.constants, nodes, of(graph.outputs), graph.name)


def _identifier(name: str) -> str:
    text = re.sub(r"\W+", "_", name).strip("_") or "n"
    return f"n_{text}" if text[0].isdigit() else text


def _dims(declared: Sequence[int | str] | None) -> str:
    return ", ".join(str(d) or "?" for d in declared or ())
