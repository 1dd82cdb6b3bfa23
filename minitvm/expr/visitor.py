"""Walking and rebuilding trees of any level, by each node class's `_children`.

A rebuild shares what it did not touch: `map_children` returns the very same node when nothing below it changed.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from .nodes import Expr, Let, Node, Var

N = TypeVar("N", bound=Node)


def children(node: Node) -> Iterator[Node]:
    """The direct sub-nodes, in order."""
    return reversed(_below(node))


def _below(node: Node) -> tuple[Node, ...]:
    """The direct sub-nodes, the last one first. They are kept with the node, for most nodes are visited many times."""
    try:
        return node._below
    except AttributeError:
        below: list[Node] = []
        for name in node._children:
            value = getattr(node, name)
            if isinstance(value, Node):
                below.append(value)
            elif isinstance(value, tuple):
                below += [item for item in value if isinstance(item, Node)]
        object.__setattr__(node, "_below", tuple(reversed(below)))
        return node._below


def walk(node: Node) -> Iterator[Node]:
    """The node and all nodes below it, parents first, in program order. A shared sub-tree comes once a place."""
    stack = [node]
    pop, extend = stack.pop, stack.extend
    while stack:
        top = pop()
        yield top
        try:  # lowering spends much of its time here
            extend(top._below)
        except AttributeError:
            extend(_below(top))


@functools.cache
def _init_fields(kind: Any) -> tuple[str, ...]:
    """The fields that a node class's constructor takes, in order."""
    return tuple(f.name for f in dataclasses.fields(kind) if f.init)


def replace(node: N, **changes: Any) -> N:
    """A copy of a node with some fields changed; what is not named stays, opaque ids included."""
    kind: Any = type(node)
    names = _init_fields(kind)
    unknown = changes.keys() - names
    if unknown:
        raise TypeError(f"{type(node).__name__} has no field {', '.join(sorted(unknown))}")
    return kind(*[changes[name] if name in changes else getattr(node, name) for name in names])


def map_children(node: N, function: Callable[[Any], Any]) -> N:
    """The node with `function` applied to each direct sub-node; the same object when nothing changed."""
    if not _below(node):
        return node
    changes: dict[str, Any] = {}
    for name in node._children:
        value = getattr(node, name)
        if value.__class__ is tuple:
            items = tuple([function(item) if isinstance(item, Node) else item for item in value])
            if any(map(operator.is_not, items, value)):
                changes[name] = items
        elif isinstance(value, Node):
            new = function(value)
            if new is not value:
                changes[name] = new
    return replace(node, **changes) if changes else node


def rewrite(node: N, function: Callable[[Node], Node | None], leave: type | tuple[type, ...] = ()) -> Any:
    """Rebuild bottom-up: `function(new_node)` gives a replacement, or None to keep it. Kinds to `leave` stay."""

    def go(old: Node) -> Node:
        if isinstance(old, leave):
            return old
        new = map_children(old, go)
        result = function(new)
        return new if result is None else result

    return go(node)


def rewrite_statements(node: N, function: Callable[[Node], Node | None]) -> Any:
    """`rewrite` for functions that look at statements: expressions, of which there are far more, are not visited."""
    return rewrite(node, function, leave=Expr)


def substitute(node: N, values: Mapping[Var, Expr]) -> Any:
    """Replace free uses of variables. A `Let` that binds one of them again hides it below."""
    if not values:
        return node

    def go(old: Node) -> Node:
        if isinstance(old, Var):
            return values.get(old, old)
        if isinstance(old, Let) and old.var in values:
            inner = {v: e for v, e in values.items() if v is not old.var}
            return replace(old, value=go(old.value), body=substitute(old.body, inner))
        return map_children(old, go)

    return go(node)


def free_vars(node: Node) -> list[Var]:
    """Variables that are used and not defined inside, in order of first use."""
    used: dict[Var, None] = {}
    defined: set[Var] = set()

    for item in walk(node):
        for name in item._defs:
            value = getattr(item, name)
            for entry in value if isinstance(value, tuple) else (value,):
                if isinstance(entry, Var):
                    defined.add(entry)
        if isinstance(item, Var):
            used.setdefault(item)
    return [v for v in used if v not in defined]
