"""The parts that the nodes of all levels share: the base class, and the decorator that turns a class into a node."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def node(cls: type) -> Any:
    """Turn a class into an IR node: a frozen dataclass with slots that is compared and hashed by identity."""
    frozen: Any = dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)(cls)
    if "__init__" not in vars(frozen):
        through_slots(frozen)
    if not frozen._children:  # a leaf has no nodes below it, so it needs no slot for them
        frozen._below = ()
    elif not hasattr(frozen._below, "__set__"):
        frozen._below = Node.__dict__["_below"]
    return frozen


def through_slots(cls: Any) -> Any:
    """Give a frozen dataclass with slots a faster constructor. Use this decorator for classes with many instances."""
    cls.__init__ = _constructor(cls)
    return cls


def _constructor(cls: Any) -> Callable[..., None]:
    """Return a faster `__init__` for a frozen dataclass: it stores each field directly into its slot.

    Building nodes takes half of the time of lowering.
    """
    names: dict[str, Any] = {}
    parameters, lines = ["self"], []
    for f in fields(cls):
        value = f.name
        if f.default_factory is not MISSING:
            names[f"make_{f.name}"], names["MISSING"] = f.default_factory, MISSING
            value = f"make_{f.name}() if {f.name} is MISSING else {f.name}" if f.init else f"make_{f.name}()"
        if f.default is not MISSING:
            names[f"default_{f.name}"] = f.default
        if f.name == value and f.init and str(f.type).startswith("tuple[") and "None" not in str(f.type):
            names["sub_nodes"] = _sub_nodes
            as_tuple = "sub_nodes" if f.name in getattr(cls, "_children", ()) else "tuple"
            value = f"{value} if {value}.__class__ is tuple else {as_tuple}({value})"
        if f.init:
            default = f"default_{f.name}" if f.default is not MISSING else ""
            default = "MISSING" if f.default_factory is not MISSING else default
            parameters.append(f"{f.name}={default}" if default else f.name)
        elif f.default is not MISSING:
            value = f"default_{f.name}"
        elif value == f.name:
            continue  # `__post_init__` computes it
        names[f"store_{f.name}"] = getattr(cls, f.name).__set__
        lines.append(f"    store_{f.name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *lines, "    return None"]), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {f.name: f.type for f in fields(cls) if f.init} | {"return": None}
    return made


def _sub_nodes(items: Iterable[Any]) -> tuple[Any, ...]:
    """Return the sub-nodes of a field as a tuple, with numbers converted to constants, because TVM's constructors
    accept lists of nodes and numbers.
    """
    from .nodes import as_expr

    return tuple(item if isinstance(item, Node) else as_expr(item) for item in items)


class _PrettyText:
    """A descriptor for the method `_repr_pretty_`, which works on nodes and also on their classes.

    IPython looks the method up in the class and calls it with the node. Hypothesis looks it up in the object that it
    prints. That may be a class (`sampled_from([Add, Sub])`), and then Hypothesis calls the method without a node.
    """

    def __get__(self, instance: Any, owner: type) -> Callable[..., None]:
        if instance is not None:
            return lambda printer, cycle: printer.text(repr(instance))
        return lambda *arguments: arguments[-2].text(repr(arguments[0]) if len(arguments) == 3 else owner.__name__)


class Node:
    """Base class of all nodes of all levels.

    `_children` names the fields that hold sub-nodes (a node, or a tuple of nodes), in order of evaluation;
    `expr.visitor` uses it to walk and rebuild trees. `_defs` names the fields that *define* variables or buffers, which
    `structural_equal` may rename. `_accesses` says how the node uses the memory of its field `buffer`: it reads or
    writes an "element", or makes the "address" available to other code. `_kept` (`expr.kept`), `_below`, `_names` and
    `_kinds` (`expr.visitor`) are caches, not parts of the node.
    """

    __slots__ = ("__weakref__", "_below", "_kept", "_kinds", "_names")
    _below: tuple[Node, ...]
    _children: ClassVar[tuple[str, ...]] = ()
    _defs: ClassVar[tuple[str, ...]] = ()
    _accesses: ClassVar[str] = ""
    _kinds: int
    _names: tuple[frozenset[Any], frozenset[Any], frozenset[Any]]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in getattr(self, "__dataclass_fields__", ()))
        return f"{type(self).__name__}({fields})"

    # Hypothesis and IPython show the text of the program, not its fields.
    _repr_pretty_ = _PrettyText()


# --- Results about nodes that are stored in the node. It never changes, so they are computed once.


N = TypeVar("N", bound=Node)
R = TypeVar("R")


def kept_with_node(compute: Callable[[N], R]) -> Callable[[N], R]:
    """Cache the result of a one-argument function in the node that it is called with, for as long as the node lives.

    A dictionary with weak keys is not enough: a result that refers to its node would keep both alive forever.
    """

    @functools.wraps(compute)
    def kept(node: N) -> R:
        answers: dict[Any, Any] | None = getattr(node, "_kept", None)
        if answers is None:
            answers = {}
            object.__setattr__(node, "_kept", answers)
        if compute not in answers:
            answers[compute] = compute(node)
        answer: R = answers[compute]
        return answer

    return kept
