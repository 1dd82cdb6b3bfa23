"""The verifier of graphs: a table of named rules, each with the theorem it checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..errors import MinitvmError, VerificationError
from ..expr import Expr, free_vars, structural_equal
from ..topi import registry
from .loop_bodies import misfits
from .nodes import FUSED, LOOP, Dim, Graph, Node, OpNode, Value
from .printer import script

Finding = tuple[Node, str]
Rule = Callable[[Graph], Iterator[Finding]]


def defined_once(graph: Graph) -> Iterator[Finding]:
    """Every value is defined exactly once: as an input, by a constant, or by one node."""
    seen: set[Value] = set()
    for value in graph.values():
        if value in seen:
            yield value, f"{value.name} is defined twice"
        seen.add(value)


def defined_before_use(graph: Graph) -> Iterator[Finding]:
    """A node reads only values that are defined before it, and each output of the graph is one of its values."""
    defined: set[Value] = {*graph.inputs, *(c.value for c in graph.constants)}
    for item in graph.nodes:
        for value in item.inputs:
            if value not in defined:
                yield item, f"{value.name} is read before it is defined"
        defined.update(item.outputs)
    for value in graph.outputs:
        if value not in defined:
            yield value, f"the output {value.name} is never defined"


def input_names_differ(graph: Graph) -> Iterator[Finding]:
    """No two inputs have the same name."""
    seen: set[str] = set()
    for value in graph.inputs:
        if value.name in seen:
            yield value, f"two inputs are named {value.name}"
        seen.add(value.name)


def states_fit(graph: Graph) -> Iterator[Finding]:
    """The input, the output and the first value of a state have the same constant type. No input or output belongs to
    two states.
    """
    seen: set[tuple[str, int]] = set()
    for state in graph.states:
        number, result = state.input, state.output
        if not (0 <= number < len(graph.inputs) and 0 <= result < len(graph.outputs)):
            yield graph, f"the state ({number}, {result}) of {len(graph.inputs)} inputs, {len(graph.outputs)} outputs"
            continue
        old, new = graph.inputs[number], graph.outputs[result]
        if old.dtype != new.dtype or old.shape != new.shape or not old.is_static:
            yield old, f"the state {old.name} begins as {old.type}, and a run leaves {new.type}"
        elif state.first is not None and (state.first.dtype, state.first.shape) != (old.dtype.numpy, old.shape):
            type_text = f"{state.first.dtype.name}{list(state.first.shape)}"
            yield old, f"the state {old.name} is {old.type}, and its first value {type_text}"
        for end in (("input", number), ("output", result)):
            if end in seen:
                yield old, f"{end[0]} {end[1]} belongs to two states"
            seen.add(end)


def constants_fit(graph: Graph) -> Iterator[Finding]:
    """The array of a constant has its value's shape and dtype."""
    for constant in graph.constants:
        array_type = f"{constant.data.dtype.name}{list(constant.data.shape)}"
        if constant.data.dtype != constant.value.dtype.numpy or constant.data.shape != constant.value.shape:
            yield constant.value, f"{constant.value.name} is declared {constant.value.type}, its array is {array_type}"


def sizes_bound_once(graph: Graph) -> Iterator[Finding]:
    """A data-dependent size is bound once, before it is used, and is not a dimension of an input."""
    later = {size for item in graph.nodes for size in item.bound_sizes()}
    for value in graph.inputs if later else ():
        for size in later.intersection(v for d in value.shape if isinstance(d, Expr) for v in free_vars(d)):
            yield value, f"{size.name} is a size of an input, and bound to data"
    for item in graph.nodes if later else ():
        own = item.bound_sizes()
        for size in own:
            if size not in later:
                yield item, f"{size.name} is bound twice"
        early = [v for v in item.mentioned() if v in later and v not in own]
        if early:
            yield item, f"{early[0].name} is used before it is bound"
        later.difference_update(own)


def operators_known(graph: Graph) -> Iterator[Finding]:
    """Every operator is registered, and has all of its attributes, in order."""
    for item in graph.nodes:
        if item.op == FUSED:
            if not isinstance(item.attrs.get("graph"), Graph):
                yield item, "a fused group has an attribute graph"
            continue
        try:
            complete = registry.get(item.op).normalize(item.attrs)
        except MinitvmError as error:
            yield item, str(error)
            continue
        if list(complete) != list(item.attrs):
            yield item, f"attributes are complete and in declared order: {', '.join(complete)}"


def types_follow(graph: Graph) -> Iterator[Finding]:
    """The outputs of a node have the shapes and dtypes that its operator gives for its inputs."""
    for item in graph.nodes:
        if item.op == FUSED:
            yield from _group_fits(item)
            continue
        try:
            types = registry.get(item.op).output_types([(v.shape, v.dtype) for v in item.inputs], item.attrs)
        except MinitvmError as error:
            yield item, str(error)
            continue
        yield from _compare(item, types)
        if item.op == LOOP:
            yield from _loop_fits(item)


def _loop_fits(item: OpNode) -> Iterator[Finding]:
    if not isinstance(item.attrs["body"], Graph):
        yield item, "a loop has an attribute body, a graph"
        return
    found = misfits(item, lambda a, b: _same_type(a, b.shape, b.dtype))
    yield from ((item, text) for text in found)
    if not found:
        yield from ((item, f"in the body: {text}") for _, text in _findings(item.body))


def _group_fits(item: OpNode) -> Iterator[Finding]:
    inner = item.graph
    if len(inner.inputs) != len(item.inputs):
        yield item, f"the group takes {len(inner.inputs)} inputs, it is given {len(item.inputs)}"
        return
    for outer, own in zip(item.inputs, inner.inputs, strict=True):
        if not _same_type(outer, own.shape, own.dtype):
            yield item, f"the group takes {own.type}, it is given {outer.type}"
    yield from _compare(item, [(v.shape, v.dtype) for v in inner.outputs])
    yield from ((item, f"in the group: {text}") for _, text in _findings(inner))


def _compare(item: OpNode, types: list[registry.TensorType]) -> Iterator[Finding]:
    if len(types) != len(item.outputs):
        yield item, f"{item.op} has {len(types)} outputs, found {len(item.outputs)}"
        return
    for value, (shape, dtype) in zip(item.outputs, types, strict=True):
        if not _same_type(value, shape, dtype):
            yield item, f"{value.name} is declared {value.type}, {item.op} gives {Value('', shape, dtype).type}"


def _same_type(value: Value, shape: tuple[Dim, ...], dtype: str) -> bool:
    return value.dtype == dtype and len(shape) == value.ndim and all(map(_same_dim, value.shape, shape))


def _same_dim(a: Dim, b: Dim) -> bool:
    from ..topi.shapes import same

    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return structural_equal(a, b) or same(a, b)


RULES: list[Rule] = [
    defined_once, defined_before_use, input_names_differ, states_fit, constants_fit, sizes_bound_once, operators_known,
    types_follow,
]  # fmt: skip


def _findings(graph: Graph) -> Iterator[tuple[str, str]]:
    for rule in RULES:
        for _, text in rule(graph):
            yield rule.__name__, text


def verify_graph(graph: Graph) -> None:
    """Raise `VerificationError` for the first broken rule, with the rule's name and the graph with the spot marked."""
    for rule in RULES:
        for spot, text in rule(graph):
            meaning = (rule.__doc__ or "").split("\n")[0]
            shown = "\n    ".join(script(graph, mark={spot: "here"}).split("\n"))
            raise VerificationError(f"{rule.__name__}: {text}\n    {shown}\n  wanted: {meaning}")
