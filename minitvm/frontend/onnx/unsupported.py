"""The operators of a model that are not supported, all listed at once; and the part of a model before a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import InputError, UnsupportedOperator, nearest
from .context import label
from .functions import has_body
from .registry import REFUSED, find

# `stop_before` with this value stops before the first operator that is not supported.
UNSUPPORTED = "unsupported"


class Known:
    """Which operators of a model have a converter, or a body of operators that do."""

    def __init__(self, local_functions: Mapping[tuple[str, str, str], Any], versions: Mapping[str, int]) -> None:
        self.local_functions, self.versions = local_functions, versions

    def missing(self, protos: Iterable[Any]) -> Iterator[Any]:
        """The nodes, those in branches, loops and functions of the model included, that are not supported."""
        seen: set[tuple[str, str]] = set()
        for proto in _nested(protos):
            local = self.local_functions.get((proto.domain, proto.op_type, proto.overload))
            if local is None and not self.has(proto):
                yield proto
            elif local is not None and (proto.domain, proto.op_type) not in seen:
                seen.add((proto.domain, proto.op_type))
                yield from self.missing(local.node)

    def has(self, proto: Any) -> bool:
        """Whether an operator that is no function of the model is supported."""
        version = self.versions.get("" if proto.domain == "ai.onnx" else proto.domain)
        if version is None or find(proto.domain, proto.op_type, version) is not None:
            return True
        return proto.op_type not in REFUSED and has_body(proto, version)


def _nested(protos: Iterable[Any]) -> Iterator[Any]:
    for proto in protos:
        yield proto
        for attribute in proto.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nested(graph.node)


def with_others(error: UnsupportedOperator, known: Known, protos: Sequence[Any]) -> UnsupportedOperator:
    """The error with the unsupported operators that it does not name, each with the number of its nodes."""
    counts: dict[str, int] = {}
    for proto in known.missing(protos):
        counts[proto.op_type] = counts.get(proto.op_type, 0) + 1
    others = [f"{name} ({n} nodes)" if n > 1 else name for name, n in counts.items() if name not in str(error)]
    if not others:
        return error
    words = "nor is the operator" if len(others) == 1 else "nor are the operators"
    return UnsupportedOperator(f"{error}; {words} {', '.join(others)}")


def before(stop: str, protos: Sequence[Any], known: Known) -> list[Any]:
    """The nodes before the first one of that name or operator; or before the first that is not supported."""
    for position, proto in enumerate(protos):
        if stop == UNSUPPORTED and any(True for _ in known.missing([proto])):
            return list(protos[:position])
        if stop != UNSUPPORTED and stop in (proto.name, proto.op_type):
            return list(protos[:position])
    if stop == UNSUPPORTED:
        return list(protos)
    names = [name for proto in protos for name in (proto.name, proto.op_type) if name]
    raise InputError(f"stop_before={stop!r}: the model has no such node or operator; {nearest(stop, names)}")


def left_open(protos: Sequence[Any], rest: Sequence[Any], outputs: Sequence[str], where: str) -> list[str]:
    """The values that some nodes compute and others, or the outputs, read: the outputs of the first part."""
    computed = [name for proto in protos for name in proto.output if name]
    read = {name for proto in rest for name in _reads(proto)} | set(outputs)
    names = [name for name in computed if name in read]
    if not names:
        raise InputError(f"stop_before={where!r}: nothing is computed before {label(rest[0]) if rest else 'the end'}")
    return names


def live(graph: Any) -> list[Any]:
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
