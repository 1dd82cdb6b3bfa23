"""List all unsupported operators of a model at once, and cut a model before a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import InputError, UnsupportedOperator, nearest, report
from .context import label
from .functions import has_body
from .registry import RANDOM, REFUSED, find

# `stop_before` with this value stops before the first operator that is not supported.
UNSUPPORTED = "unsupported"
LONGEST = 12  # lines of an error


class Known:
    """Knows which operators of a model have a converter, or a function body of supported operators."""

    def __init__(self, local_functions: Mapping[tuple[str, str, str], Any], versions: Mapping[str, int]) -> None:
        self.local_functions, self.versions = local_functions, versions

    def missing(self, protos: Iterable[Any]) -> Iterator[Any]:
        """Yield the unsupported nodes, including those in branches, loops and functions of the model."""
        seen: set[tuple[str, str]] = set()
        for proto in _nested(protos):
            local = self.local_functions.get((proto.domain, proto.op_type, proto.overload))
            if local is None and not self.has(proto):
                yield proto
            elif local is not None and (proto.domain, proto.op_type) not in seen:
                seen.add((proto.domain, proto.op_type))
                yield from self.missing(local.node)

    def version(self, proto: Any) -> int | None:
        """Return the opset that the model imports for an operator's domain."""
        return self.versions.get("" if proto.domain == "ai.onnx" else proto.domain)

    def has(self, proto: Any) -> bool:
        """Return whether an operator that is not a function of the model is supported."""
        version = self.version(proto)
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
    """Return the error, extended by all unsupported operators of the model, one per line, and suggestions.

    `error` ended the import: it is about the first of them, or about another operator. In the second case, its text is
    the first line.
    """
    missing: dict[str, list[Any]] = {}
    for proto in known.missing(protos):
        missing.setdefault(proto.op_type, []).append(proto)
    if not missing:
        return error
    lines = [_described(nodes, known) for nodes in missing.values()]
    first = str(error)
    if not any(label(nodes[0]) in first for nodes in missing.values()):
        lines.insert(0, first)
    elif len(lines) == 1:
        lines = [first]
    left_out = [f"and {len(lines) - LONGEST} more"] if len(lines) > LONGEST else []
    shown = "\n".join([*lines[:LONGEST], *left_out])
    if len(lines) == 1:
        return UnsupportedOperator(report(shown, tries=_tries(missing)))
    headline = f"{len(lines)} operators are not supported"
    return UnsupportedOperator(report(headline, program=shown, tries=_tries(missing)))


def _described(nodes: Sequence[Any], known: Known) -> str:
    """Return a line about nodes of one operator: the first one's place, their number, and why they are refused."""
    first, version = nodes[0], known.version(nodes[0])
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    reason = REFUSED.get(first.op_type)
    which = "" if reason else f" of opset {version}"
    return f"{label(first)}{more}{which} is not supported{f': {reason}' if reason else ''}"


def _tries(missing: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return suggestions for a model with unsupported operators."""
    tries = ['stop_before="unsupported" in build(): the part of the model in front of them']
    unknown = next((nodes[0] for name, nodes in missing.items() if name not in REFUSED), None)
    if unknown is not None:
        domain = f", domain={unknown.domain!r}" if unknown.domain not in ("", "ai.onnx") else ""
        tries.append(
            f"@minitvm.frontends.onnx.converter({unknown.op_type!r}{domain}): a converter of your own, as those in "
            "minitvm/frontends/onnx/ops"
        )
    if any(REFUSED.get(name) == RANDOM for name in missing):
        tries.append("an export in which what is random is an input, or in evaluation mode")
    return tries


def before(stop: str, protos: Sequence[Any], known: Known) -> list[Any]:
    """Return the nodes before the first one with this name or operator, or before the first unsupported one."""
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
    """Return the values that some nodes compute and that the rest, or the outputs, read."""
    computed = [name for proto in protos for name in proto.output if name]
    read = {name for proto in rest for name in _reads(proto)} | set(outputs)
    names = [name for name in computed if name in read]
    if not names:
        raise InputError(f"stop_before={where!r}: nothing is computed before {label(rest[0]) if rest else 'the end'}")
    return names


def live(graph: Any) -> list[Any]:
    """Return the nodes that the outputs need, in order."""
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
