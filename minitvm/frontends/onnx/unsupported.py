"""The operators of a model that are not supported, all listed at once; and the part of a model before a node."""

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

    def version(self, proto: Any) -> int | None:
        """The opset that the model imports of an operator's domain."""
        return self.versions.get("" if proto.domain == "ai.onnx" else proto.domain)

    def has(self, proto: Any) -> bool:
        """Whether an operator that is no function of the model is supported."""
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
    """The error with all operators of the model that are not supported, a line for each, and what to try.

    `error` is what ended the import: the first of them, or what another operator does not support. Then the first line
    is its text.
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
    """A line for nodes of one operator: where the first one is, how many there are, and why they are refused."""
    first, version = nodes[0], known.version(nodes[0])
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    reason = REFUSED.get(first.op_type)
    which = "" if reason else f" of opset {version}"
    return f"{label(first)}{more}{which} is not supported{f': {reason}' if reason else ''}"


def _tries(missing: Mapping[str, Sequence[Any]]) -> list[str]:
    """Ways out for a model with operators that are not supported."""
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
