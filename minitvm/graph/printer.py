"""Print a graph as Python-like text, one node per line. An attribute is printed only if it differs from its default."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any

from ..errors import UnsupportedOperator
from ..expr.printer import fresh, identifier
from ..tir.nodes import PrimFunc
from .names import operator_names
from .nodes import FUSED, LOOP, Graph, Node, OpNode, Value


def script(graph: Graph, mark: Mapping[Node, str] | None = None, functions: bool = False) -> str:
    """Return the text of a graph.

    `mark` maps nodes (or values) to notes. Each note is printed below its line, after carets. Loop programs that nodes
    call appear by name; with `functions`, their text comes first.
    """
    names = _ValueNames()
    lines = _function(graph, graph.name, names, dict(mark or {}))
    called = [func.with_attr("global_symbol", name).script(with_header=False) for func, name in names.functions.items()]
    return "\n".join([*(f"{text}\n" for text in called if functions), *lines])


def node_script(item: OpNode) -> str:
    """Return the text of a single node, on one line."""
    return _line(item, _ValueNames(), item.op)


class _ValueNames:
    """The names of values in the text: each value gets a valid and unique Python name. So does each loop program,
    among those of the whole graph.
    """

    def __init__(self, functions: dict[PrimFunc, str] | None = None) -> None:
        self.names: dict[Value, str] = {}
        self.used_names = set(keyword.kwlist)
        self.functions: dict[PrimFunc, str] = {} if functions is None else functions

    def function(self, func: PrimFunc) -> str:
        """Return the name of a loop program that nodes call."""
        if func not in self.functions:
            self.functions[func] = fresh(identifier(func.name), set(self.functions.values()))
        return self.functions[func]

    def __call__(self, value: Value) -> str:
        if value not in self.names:
            self.names[value] = fresh(identifier(value.name), self.used_names)
        return self.names[value]


def _function(graph: Graph, name: str, names: _ValueNames, mark: dict[Node, str], within: str = "") -> list[str]:
    groups: list[str] = []
    body: list[str] = []
    for constant in graph.constants:
        body.append(f"    {names(constant.value)} = constant({constant.value.type}){_literal(constant.data)}")
        body += _note(constant.value, body[-1], mark)
    for item, called in zip(graph.nodes, operator_names(graph, within), strict=True):
        label = item.op
        if item.op == FUSED:
            label = called
            groups += [_region_note(item)] if item.engine else []
            groups += [*_function(item.graph, label, _ValueNames(names.functions), mark), ""]
        elif item.op == LOOP:
            groups += [*_function(item.body, f"{called}_body", _ValueNames(names.functions), mark, called), ""]
        body.append("    " + _line(item, names, label, called))
        for node in (item, *item.outputs):
            body += _note(node, body[-1], mark)
    for state, (old, new) in zip(graph.states, graph.state_pairs(), strict=True):
        if state.first is not None:
            body.append(f"    # the first run's {names(old)} is {_first(state.first)}")
        body.append(f"    # the next run's {names(old)} is {names(new)}")
    params = ", ".join(f"{names(v)}: {v.type}" for v in graph.inputs)
    results = ", ".join(names(v) for v in graph.outputs)
    return [*groups, f"def {identifier(name)}({params}):", *body, f"    return {results}"]


def _region_note(item: OpNode) -> str:
    """Return the comment above a region. It contains the seconds that the choice of the engine depended on, if any."""
    seconds = item.attrs.get("seconds")
    measured = f", in {seconds[0] * 1e3:.3g} ms (minitvm: {seconds[1] * 1e3:.3g} ms)" if seconds else ""
    return f"# {item.engine} computes this region{measured}"


def _line(item: OpNode, names: _ValueNames, label: str, called: str = "") -> str:
    results = ", ".join(f"{names(v)}: {v.type}" if len(item.outputs) == 1 else names(v) for v in item.outputs)
    args = [names(v) for v in item.inputs]
    attrs = {key: f"{called or label}_body" if isinstance(value, Graph)
             else names.function(value) if isinstance(value, PrimFunc) else _attribute(value)
             for key, value in item.attrs.items() if _shown(item.op, key, value)}  # fmt: skip
    args += [f"{key}={text}" for key, text in attrs.items()]
    types = "" if len(item.outputs) == 1 else "  # " + ", ".join(v.type for v in item.outputs)
    return f"{results} = {label}({', '.join(args)}){types}"


def _shown(op: str, key: str, value: Any) -> bool:
    if op == FUSED:
        return False
    from ..topi import registry

    try:
        default = registry.get(op).attrs.get(key, registry.REQUIRED)
    except UnsupportedOperator:
        return True
    return repr(default) != repr(value)


def _attribute(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_attribute, value)) + (",)" if len(value) == 1 else ")")
    return str(value) if not isinstance(value, str) or hasattr(value, "bits") else repr(value)


def _literal(data: Any) -> str:
    return f"  # {data.tolist()}" if data.size <= 8 else ""


def _first(data: Any) -> str:
    """Return the first value of a state as text: one number if all elements are equal."""
    if data.size and len({element.tobytes() for element in data.reshape(-1)}) == 1:
        return str(data.reshape(-1)[0].item())
    return str(data.tolist()) if data.size <= 8 else "not zero"


def _note(node: Node, line: str, mark: dict[Node, str]) -> list[str]:
    if node not in mark:
        return []
    text = line.lstrip()
    return [" " * (len(line) - len(text)) + "^" * len(text) + " " + mark[node]]
