"""Walk an ONNX graph: names become operands, nodes become operators, and known values are computed on the way."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import InputError, MinitvmError, ModelError, TypeMismatch, UnsupportedOperator, nearest
from ...expr import Not, SizeVar
from ...graph.nodes import Dim, Graph, Value, as_dim
from ..common.operand import Operand
from ..common.operand_builder import OperandBuilder
from .branching import DEEPEST, Parted, selectable
from .context import NodeContext, label, require_flags
from .dtypes import array_of, narrow_results, narrow_type, tensor_type
from .functions import body_of
from .grown import Grown, extends, length_with_new
from .loading import OLDEST
from .names import require_single_definitions
from .registry import REFUSED, find
from .states import state_names, state_shape
from .unsupported import Known, before, left_open, live, with_others


class OnnxImporter:
    """One import of one model."""

    def __init__(
        self,
        model: Any,
        shapes: dict[str, Sequence[Dim | str | None]],
        values: dict[str, np.ndarray],
        stop_before: str | None = None,
        states: Mapping[str, str] | bool | None = None,
        max_length: int | None = None,
    ) -> None:
        self.model, self.shapes, self.values, self.stop_before = model, shapes, values, stop_before
        graph = model.graph
        given = {t.name for t in graph.initializer}
        self.states = state_names(
            states, [i.name for i in graph.input if i.name not in given], [o.name for o in graph.output]
        )
        if max_length is not None and max_length < 1:
            raise InputError(f"max_length={max_length} is the size of states, or of a loop: wanted a number from 1")
        self.max_length = max_length
        self._grown: dict[Value, Grown] = {}  # of the values that are the past
        self._extended: dict[Value, Operand] = {}  # whole caches, of the values that are the past and the new tokens
        self.builder = OperandBuilder(re.sub(r"\W", "_", model.graph.name) or "main")
        self.versions = _versions(model.opset_import)
        self.local_functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self.symbols: dict[str, Dim] = {}
        self.calls: list[str] = []  # the node whose function body is being converted, if any
        self._apart_now = 0  # how many nodes around part what is being converted
        self._parted: dict[str, UnsupportedOperator] = {}  # names of which each branch has another type

    def run(self) -> Graph:
        """Import the model and return its graph."""
        graph = self.model.graph
        require_single_definitions(self.model)
        scope = self._initializers(graph)
        self._inputs(graph, scope)
        nodes, names = live(graph), [o.name for o in graph.output]
        known = Known(self.local_functions, self.versions)
        if self.stop_before is not None:
            first = before(self.stop_before, nodes, known)
            names = left_open(first, nodes[len(first) :], names, self.stop_before)
            nodes = first
        try:
            self.nodes(nodes, scope, self.versions)
        except UnsupportedOperator as error:
            longer = with_others(error, known, nodes)
            if longer is error:
                raise
            raise longer from error
        left = {name: self._lookup(scope, output, "the graph's outputs") for name, output in self.states.items()}
        names = [name for name in names if name not in self.states.values()]
        outputs = [(name, self._lookup(scope, name, "the graph's outputs")) for name in names]
        if not outputs:
            raise ModelError(f"the model {graph.name} has no outputs" + (" beside its states" if left else ""))
        for name, new in left.items():
            old = scope[name]
            if old.value in self._grown:
                old, new = self._grown[old.value].cache, self._extended.get(new.value, new)  # type: ignore[arg-type]
            scope[name], left[name] = old, new
            if new.dtype != old.dtype or new.shape != old.shape:
                raise UnsupportedOperator(
                    f"the state {name}: a run that begins with {old.dtype}{list(old.shape)} leaves "
                    f"{new.dtype}{list(new.shape)} in {self.states[name]}\n"
                    "  try:    a model that updates its caches where they lie: GroupQueryAttention, TensorScatter"
                )
        return self.builder.build(outputs, [(scope[name], new) for name, new in left.items()])

    def bound_of_iterations(self) -> int | None:
        """The largest number of iterations of a loop with a data-dependent end, or None if the caller gave none."""
        return self.max_length

    # --- states ---

    def grown_past(self, operand: Operand) -> Grown | None:
        """Return the cache for an operand that is the past at the start of a run, or None."""
        return None if operand.value is None else self._grown.get(operand.value)

    def extended(self, n: NodeContext, past: Grown, new: Operand) -> Operand:
        """Write the new tokens into the cache, and return the past followed by the new tokens."""
        cache, seen = past.extended(n, new)
        self._extended[seen.value] = cache  # type: ignore[index]
        return seen

    def _lengths(
        self, graph: Any, declared: Mapping[str, Sequence[int | str] | None]
    ) -> dict[str, tuple[int, Dim, int]]:
        """Return, for each state that grows by Concat: the axis, the length including the new tokens, and their
        number.
        """
        lengths = {}
        for name in self.states:
            dims = declared[name] or ()
            unknown = [dim for dim in dims if isinstance(dim, str) and not isinstance(self.symbols.get(dim), int)]
            if len(unknown) == 1 and extends(graph, name):
                others = {other: d for other, d in declared.items() if other not in self.states}
                text, added = length_with_new(unknown[0], others, self.symbols, name)
                whole = self.symbols.setdefault(text, SizeVar(_identifier(text)))
                lengths[name] = (list(dims).index(unknown[0]), whole, added)
        return lengths

    # --- inputs and initializers ---

    def _initializers(self, graph: Any) -> dict[str, Operand]:
        if graph.sparse_initializer:
            raise UnsupportedOperator("sparse initializers are not supported")
        return {
            t.name: Operand.known(array_of(t, f"initializer {t.name}"), narrow=narrow_type(t.data_type))
            for t in graph.initializer
        }

    def _inputs(self, graph: Any, scope: dict[str, Operand]) -> None:
        # An input that also has an initializer is a constant, unless the caller declares it as an input.
        for name in (i.name for i in graph.input if i.name in self.shapes or i.name in self.values):
            scope.pop(name, None)
        inputs = [i for i in graph.input if i.name not in scope]
        names = [i.name for i in inputs]
        for option, options in (("shapes", self.shapes), ("params", self.values)):
            for name in options:
                if name not in names:
                    raise InputError(f"{option}: the model has no input {name}; {nearest(name, names)}")
        types = {i.name: tensor_type(i, f"input {i.name}") for i in inputs}
        narrow = {i.name: narrow_type(i.type.tensor_type.elem_type) for i in inputs}
        fixed = {n: self._fixed(n, types[n][1]) for n in names}
        for name in names:
            self._bind_symbols(name, types[name][1], fixed[name])
        lengths = self._lengths(graph, {name: dims for name, (_, dims) in types.items()})
        for name in names:
            dtype, declared = types[name]
            if name in self.values:
                data = np.asarray(self.values[name])
                if data.dtype != dtype.numpy:
                    raise InputError(f"params: {name} wanted {dtype}, found {data.dtype}")
                scope[name] = Operand.known(data)
                continue
            shape = fixed[name]
            if name in self.states:
                shape = state_shape(name, declared if shape is None else shape, self.symbols, self.max_length)  # type: ignore[arg-type]
            if shape is None:
                if declared is None:
                    raise UnsupportedOperator(f"input {name} has no rank\n  try:    shapes={{{name!r}: (...)}}")
                shape = tuple(self._dim(name, axis, dim) for axis, dim in enumerate(declared))
            scope[name] = self.builder.input(name, shape, dtype)
            scope[name].narrow = narrow[name]
            if name in lengths:
                past = Grown(scope[name], *lengths[name])
                cut = past.cut(past.cache, past.past)
                scope[name] = self.builder.op("strided_slice", [past.cache], cut, f"{name}_past", f"input {name}")
                self._grown[scope[name].value] = past  # type: ignore[index]

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
        if dim is None or dim in ("", "?"):
            return SizeVar(f"{_identifier(name)}_{axis}")
        if isinstance(dim, str):
            return self.symbols.setdefault(dim, SizeVar(_identifier(dim)))
        try:
            return as_dim(dim)
        except (TypeError, ValueError, InputError):
            found = f"wanted a size, a name or None, found {dim!r}"
            raise InputError(f"shapes: input {name}, dimension {axis}: {found}") from None

    def _dim(self, name: str, axis: int, dim: int | str) -> Dim:
        if isinstance(dim, int):
            return dim
        if dim in ("", "?"):
            return SizeVar(f"{_identifier(name)}_{axis}")
        return self.symbols.setdefault(dim, SizeVar(_identifier(dim)))

    # --- nodes ---

    def nodes(self, protos: Iterable[Any], scope: dict[str, Operand], versions: Mapping[str, int]) -> None:
        """Convert nodes in order; `scope` maps names to operands, and receives the nodes' outputs."""
        listed = list(protos)
        for position, proto in enumerate(listed):
            inputs = [self._lookup(scope, name, self.place(proto)) if name else None for name in proto.input]
            try:
                outputs = self._convert(proto, inputs, scope, versions)
            except Parted as parted:
                return self._apart(parted, listed[position:], scope, versions)
            narrow = narrow_results(proto, inputs, versions.get("" if proto.domain == "ai.onnx" else proto.domain, 1))
            for name, operand, kind in zip(proto.output, outputs, narrow, strict=False):
                if name and operand is not None:
                    operand.narrow = operand.narrow or kind
                    scope[name] = operand

    def _apart(
        self, parted: Parted, protos: Sequence[Any], scope: dict[str, Operand], versions: Mapping[str, int]
    ) -> None:
        """Convert an If, and the nodes after it, once per branch. Results that fit in a single value are selected.

        Legal, because nodes have no side effects: both versions are computed, and a run uses the results of its branch.
        """
        if self._apart_now == DEEPEST:
            raise parted.refusal
        first, *behind = protos
        sides = []
        self._apart_now += 1
        try:
            for taken, condition in ((True, parted.holds), (False, Not(parted.holds))):
                inner = dict(scope)
                with self.builder.branch(condition):
                    results = self.subgraph(parted.branches[taken], scope)
                    inner.update(zip(first.output, results, strict=False))
                    self.nodes(behind, inner, versions)
                sides.append(inner)
        finally:
            self._apart_now -= 1
        for name in (o for proto in protos for o in proto.output if o):
            a, b = (side.get(name) for side in sides)
            if a is None or b is None or not selectable(a, b):
                self._parted[name] = parted.refusal
            else:
                scope[name] = self.builder.selected(parted.flag, parted.holds, a, b, name, self.place(first))

    def subgraph(self, graph: Any, scope: dict[str, Operand]) -> list[Operand]:
        """Return the outputs of a branch, which may use surrounding names."""
        inner = {**scope, **self._initializers(graph)}
        self.nodes(graph.node, inner, self.versions)
        return [self._lookup(inner, o.name, f"the outputs of the branch {graph.name}") for o in graph.output]

    def _lookup(self, scope: Mapping[str, Operand], name: str, where: str) -> Operand:
        if name not in scope:
            if name in self._parted:
                raise self._parted[name]
            raise ModelError(f"{where}: nothing defines {name}")
        return scope[name]

    def place(self, proto: Any) -> str:
        """Return a node as text for errors. In a function body, the calling node comes first."""
        return ": ".join((*self.calls, label(proto)))

    def _convert(
        self, proto: Any, inputs: Sequence[Operand | None], scope: dict[str, Operand], versions: Mapping[str, int]
    ) -> Sequence[Operand | None]:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        local = self.local_functions.get((proto.domain, proto.op_type, proto.overload))
        if local is not None:
            return self._call(proto, local, inputs)
        if domain not in versions:
            raise ModelError(f"{self.place(proto)}: the model imports no opset of the domain {domain or 'ai.onnx'}")
        require_flags(proto, self.place(proto))
        function = find(domain, proto.op_type, versions[domain])
        if function is not None:
            return self._apply_converter(function, proto, inputs, scope, versions[domain])
        if proto.op_type in REFUSED:
            raise UnsupportedOperator(f"{self.place(proto)} is not supported: {REFUSED[proto.op_type]}")
        return self.by_definition(proto, inputs, versions[domain])

    def by_definition(self, proto: Any, inputs: Sequence[Operand | None], version: int) -> list[Operand | None]:
        """Return the outputs of a node, computed by the function body in its specification for an opset."""
        types = [(i.dtype, i.shape) if i is not None else None for i in inputs]
        body = body_of(proto, types, version)
        if body is None:
            raise UnsupportedOperator(f"{self.place(proto)} of opset {version} is not supported")
        results = self._call(proto, body, inputs)
        for name, result in itertools.zip_longest(proto.output, results[: len(proto.output)]):
            if name and result is None:
                found = ", ".join("nothing" if i is None else repr(i) for i in inputs)
                raise UnsupportedOperator(f"{self.place(proto)}: its definition has no result for {found}")
        return results

    def _apply_converter(
        self, function: Any, proto: Any, inputs: Sequence[Operand | None], scope: dict[str, Operand], version: int
    ) -> Sequence[Operand]:
        context = NodeContext(self, proto, inputs, version)
        context.scope = scope
        try:
            with self.builder.at(context.where):
                results = function(context)
        except (InputError, TypeMismatch) as error:
            raise self._misfit(proto, error) from error
        except MemoryError as error:
            raise ModelError(f"{self.place(proto)}: {error}") from error
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
            wrong = self._contradiction(proto)
            if not wrong:
                raise
            raise ModelError(f"{self.place(proto)}: {wrong}") from error
        context.check_attributes()
        outputs: list[Operand] = list(results) if isinstance(results, list | tuple) else [results]
        for position, name in enumerate(proto.output):
            if name and position >= len(outputs):
                raise UnsupportedOperator(f"{context.where}: output {position} is not supported")
        return outputs

    def _misfit(self, proto: Any, error: MinitvmError) -> MinitvmError:
        """Return the error for an operator's refusal: the model contradicts itself, or needs an unsupported feature."""
        kind = ModelError if self._contradiction() else UnsupportedOperator
        return kind(f"{self.place(proto)}: {error}")

    def _contradiction(self, proto: Any = None) -> str:
        """Return, on one line, how a node or the types of the model violate ONNX's specification, or ""."""
        import onnx.checker
        import onnx.shape_inference

        context = onnx.checker.C.CheckerContext()
        context.ir_version, context.opset_imports = self.model.ir_version, dict(self.versions)
        try:
            if proto is not None:
                onnx.checker.check_node(proto, context)
            onnx.shape_inference.infer_shapes(self.model, check_type=True, strict_mode=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            return str(error).strip().splitlines()[0]
        return ""

    def _call(self, proto: Any, function: Any, inputs: Sequence[Operand | None]) -> list[Operand | None]:
        """Return the outputs of a function body for these inputs, with None for outputs that the body leaves out."""
        scope = {name: operand for name, operand in zip(function.input, inputs, strict=False) if operand is not None}
        if not self.calls:
            self.calls.append(label(proto))
            try:
                return self._call(proto, function, inputs)
            finally:
                self.calls.clear()
        attributes = {a.name: a for a in getattr(function, "attribute_proto", ())}
        attributes.update({a.name: a for a in proto.attribute})
        versions = {
            **self.versions,
            **{("" if o.domain == "ai.onnx" else o.domain): o.version for o in function.opset_import},
        }
        for inner in function.node:
            bound = _with_attributes(inner, attributes)
            # The name of an input that is left out is left out too.
            absent = set(function.input) - set(scope)
            for position, name in enumerate(bound.input):
                if name in absent:
                    bound.input[position] = ""
            self.nodes([bound], scope, versions)
        return [scope.get(name) for name in function.output]


def _versions(imports: Iterable[Any]) -> dict[str, int]:
    """Return the versions by domain. That of the standard domain is at least OLDEST, if its operators have not changed
    since.
    """
    versions = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in imports}
    if "" in versions:
        versions[""] = max(versions[""], OLDEST)
    return versions


def _with_attributes(proto: Any, attributes: Mapping[str, Any]) -> Any:
    """Return a copy of a node in a function body, with references to the function's attributes replaced by their
    values.
    """
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
    """Replace references to attributes in the branches of an If."""
    if attribute.HasField("g"):
        nodes = [_with_attributes(n, attributes) for n in attribute.g.node]
        del attribute.g.node[:]
        attribute.g.node.extend(nodes)
    return attribute


def _identifier(name: str) -> str:
    text = re.sub(r"\W+", "_", name).strip("_") or "n"
    return f"n_{text}" if text[0].isdigit() else text


def _dims(declared: Sequence[int | str] | None) -> str:
    return ", ".join(str(d) or "?" for d in declared or ())
