"""Walk and rebuild trees of any level, along the `_children` of each node class.

A rebuilt tree shares all unchanged sub-trees: `map_children` returns the very same node if nothing below it changed.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from ..forks import lock
from .node import Node
from .nodes import BinaryOp, Call, Expr, Let, Var

N = TypeVar("N", bound=Node)

# An unrolled kernel names the values that it reads, one `Let` inside another: hundreds of them, several frames each.
_DEEP = 6_000
sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEP))


def children(node: Node) -> Iterator[Node]:
    """Yield the direct sub-nodes, in order."""
    return reversed(_below(node))


def _below(node: Node) -> tuple[Node, ...]:
    """Return the direct sub-nodes, last one first. The result is cached in the node, because most nodes are visited
    many times.
    """
    try:
        return node._below
    except AttributeError:
        kind = node.__class__
        reader = _READERS.get(kind)
        if reader is None:
            reader = _READERS[kind] = _reader(kind)
        below = reader(node)
        _keep(node, "_below", below)
        return below


_keep = object.__setattr__
_Reader = Callable[[Any], tuple[Node, ...]]
_READERS: dict[type, _Reader] = {}


def _reader(kind: Any) -> _Reader:
    """Return the function that `_below` uses to read the sub-nodes of one node class."""
    if issubclass(kind, BinaryOp):
        return operator.attrgetter("b", "a")
    names = kind._children[::-1]

    def read(node: Any) -> tuple[Node, ...]:
        below: list[Node] = []
        for name in names:
            value = getattr(node, name)
            if value.__class__ is tuple:
                below += [item for item in value[::-1] if isinstance(item, Node)]
            elif isinstance(value, Node):
                below.append(value)
        return tuple(below)

    return read


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and every node below it in program order, parents first.

    A sub-tree that occurs several times is yielded each time.
    """
    stack = [node]
    pop, extend = stack.pop, stack.extend
    while stack:
        top = pop()
        yield top
        try:  # lowering spends much of its time here
            extend(top._below)
        except AttributeError:
            extend(_below(top))


def find(node: Node, kind: Any) -> Iterator[Any]:
    """Yield the nodes of a class, or of several classes (`For | If`), in the order of `walk`.

    Sub-trees without such a node are skipped. For example, a search for loops does not descend into indices.
    """
    asked = _mask(kind, kinds(node))
    stack = [node]
    pop, extend = stack.pop, stack.extend
    while stack:
        top = pop()
        if not kinds(top) & asked:
            continue
        if isinstance(top, kind):
            yield top
        extend(_below(top))


def contains(node: Node, kind: Any) -> bool:
    """Return whether a tree contains a node of the class (or classes) `kind`."""
    present = kinds(node)
    return bool(present & _mask(kind, present))


def kinds(node: Node) -> int:
    """Return a bit mask of the node classes that occur in a tree. The result is cached in each node, as in `_below`."""
    try:
        return node._kinds
    except AttributeError:
        kind = node.__class__
        present = _BITS.get(kind) or _new_bit(kind)
        for child in _below(node):
            present |= kinds(child)
        _keep(node, "_kinds", present)
        return present


_BITS: dict[type, int] = {}  # for the classes that have nodes


_NUMBERING = lock()


def _new_bit(kind: type) -> int:
    with _NUMBERING:
        return _BITS.setdefault(kind, 1 << len(_BITS))


def _mask(kind: Any, present: int) -> int:
    """Return the bits of all subclasses of `kind`. Every class in the mask `present` already has a bit."""
    known = _MASKS.get(kind)
    if known is None or present >> known[0]:  # a class that had no bit at that time
        known = len(_BITS), sum(bit for one, bit in _BITS.items() if issubclass(one, kind))
        _MASKS[kind] = known
    return known[1]


_MASKS: dict[Any, tuple[int, int]] = {}


@functools.cache
def _init_fields(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields that the constructor of a node class takes, in order."""
    return tuple(f.name for f in dataclasses.fields(kind) if f.init)


def replace(node: N, **changes: Any) -> N:
    """Return a copy of a node with some fields changed. Raises `TypeError` if the node has no field of that name.

    All other fields stay the same, including opaque ids.
    """
    kind: Any = type(node)
    names = _init_fields(kind)
    take = changes.pop
    values = [take(name) if name in changes else getattr(node, name) for name in names]
    if changes:
        raise TypeError(f"{type(node).__name__} has no field {', '.join(sorted(changes))}")
    return kind(*values)


def map_children(node: N, function: Callable[[Any], Any]) -> N:
    """Apply `function` to each direct sub-node and return the new node, or the same node if nothing changed."""
    kind = node.__class__
    mapper = _MAPPERS.get(kind)
    if mapper is None:
        mapper = _MAPPERS[kind] = _mapper(kind)
    mapped: N = mapper(node, function)
    return mapped


_Mapper = Callable[[Any, Callable[[Any], Any]], Any]
_MAPPERS: dict[type, _Mapper] = {}


def _mapper(kind: Any) -> _Mapper:
    """Generate a specialised `map_children` for one node class, because lowering spends much of its time there."""
    if not kind._children:
        return lambda node, function: node
    lines = ["def mapped(node, function):"]
    for name in kind._children:
        lines += [
            f"    {name} = old_{name} = node.{name}",
            f"    if {name}.__class__ is tuple:",
            f"        {name} = tuple([function(item) if isinstance(item, Node) else item for item in {name}])",
            f"        {name} = {name} if any(map(is_not, {name}, old_{name})) else old_{name}",
            f"    elif isinstance({name}, Node):",
            f"        {name} = function({name})",
        ]
    same = " and ".join(f"{name} is old_{name}" for name in kind._children)
    fields = ", ".join(name if name in kind._children else f"node.{name}" for name in _init_fields(kind))
    lines += [f"    return node if {same} else kind({fields})"]
    names: dict[str, Any] = {"Node": Node, "is_not": operator.is_not, "kind": kind}
    exec("\n".join(lines), names)
    mapped: _Mapper = names["mapped"]
    return mapped


def rewrite(node: N, function: Callable[[Node], Node | None], leave: type | tuple[type, ...] = ()) -> Any:
    """Rebuild a tree bottom-up. `function(new_node)` returns a replacement for a node, or None to keep it.

    Nodes of the classes in `leave` are not visited.
    """
    return _Rewrite(function, leave)(node)


# An object instead of a function that refers to itself: only the garbage collector can free such a function and all
# that it refers to, and trees are rebuilt all the time.
class _Rewrite:
    __slots__ = ("function", "leave")

    def __init__(self, function: Callable[[Node], Node | None], leave: type | tuple[type, ...]) -> None:
        self.function, self.leave = function, leave

    def __call__(self, old: Node) -> Node:
        if isinstance(old, self.leave):
            return old
        new = map_children(old, self)
        result = self.function(new)
        return new if result is None else result


def rewrite_statements(node: N, function: Callable[[Node], Node | None]) -> Any:
    """Like `rewrite`, but visit only statements; this skips the far more numerous expressions."""
    return rewrite(node, function, leave=Expr)


def substitute(node: N, values: Mapping[Var, Expr]) -> Any:
    """Replace the free occurrences of variables. A `Let` that redefines one of them hides it inside its body."""
    if not values:
        return node
    return _Substitution(values)(node)


class _Substitution:
    __slots__ = ("replaced", "values")

    def __init__(self, values: Mapping[Var, Expr]) -> None:
        self.values, self.replaced = values, frozenset(values)

    def __call__(self, old: Any) -> Any:
        if isinstance(old, Var):
            return self.values.get(old, old)
        if self.replaced.isdisjoint(variables(old)):
            return old
        if isinstance(old, Let) and old.var in self.replaced:
            inner = {v: e for v, e in self.values.items() if v is not old.var}
            return replace(old, value=self(old.value), body=substitute(old.body, inner))
        return map_children(old, self)


_Names = tuple[frozenset[Any], frozenset[Any], frozenset[Any]]
_NONE: frozenset[Any] = frozenset()
_FEW = 8


def _names(node: Node) -> _Names:
    """Return (the variables in a tree, the buffers that it accesses, the buffers of `handed_out`).

    Each node keeps its result, as in `_below`.
    """
    try:
        return node._names
    except AttributeError:
        used = buffers = handed = _NONE
        below = _below(node)
        if isinstance(node, Var):
            used = frozenset((node,))
        elif len(below) > _FEW:
            used, buffers, handed = (_NONE.union(*sets) for sets in zip(*map(_names, below), strict=True))
        else:  # trees share the sets if they do not grow
            for child in below:
                in_child, of_child, handed_there = _names(child)
                if in_child and in_child is not used:
                    used = used | in_child if used else in_child
                if of_child and of_child is not buffers:
                    buffers = buffers | of_child if buffers else of_child
                if handed_there:
                    handed = handed | handed_there
        if node._accesses == "element":
            buffers = buffers | {node.buffer}  # type: ignore[attr-defined]
        elif node._accesses == "address":
            handed = handed | {node.buffer}  # type: ignore[attr-defined]
        elif isinstance(node, Call) and node.op == "address_of":
            handed = handed | accessed(node.args[0])
        names = (used, buffers, handed)
        _keep(node, "_names", names)
        return names


def variables(node: Node) -> frozenset[Var]:
    """Return all variables that occur in a tree, including the ones that it defines itself."""
    return _names(node)[0]


def accessed(node: Node) -> frozenset[Any]:
    """Return the buffers that a tree loads from or stores to."""
    return _names(node)[1]


def handed_out(node: Node) -> frozenset[Any]:
    """Return the buffers whose addresses a tree passes to other code. For `address_of(A[B[i]])` these are A and B,
    because B decides which address is passed.
    """
    return _names(node)[2]


def free_vars(node: Node) -> list[Var]:
    """Return the variables that a tree uses but does not define, in order of first use."""
    if not variables(node):
        return []
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
