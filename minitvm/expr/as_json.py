"""Convert trees of any level to JSON values and back.

A node or variable that occurs twice in the tree is stored once, and is a single object again after reading.

    {"nodes": [[class, field, ...], ...], "root": value}

Each node comes after the nodes that it contains, and refers to them by number. Reading calls only the constructors of
nodes; it executes no other code.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import Unsupported
from .dtypes import DType
from .node import Node


def to_json(root: Any) -> dict[str, Any]:
    """Return a tree, or a tuple or mapping of trees, as a JSON value.

    Raises `Unsupported` for an object that cannot be part of a program.
    """
    writer = _ExprWriter()
    value = writer.value(root)
    return {"nodes": writer.rows, "root": value}


def from_json(data: Mapping[str, Any]) -> Any:
    """Rebuild the tree that `to_json` converted to JSON. The node classes must already have been imported.

    Raises `ValueError`, `TypeError`, `LookupError` or a `MinitvmError` for data that `to_json` cannot have written.
    """
    nodes: list[Node] = []
    classes = _classes()
    for name, *fields in data["nodes"]:
        cls, names = classes[name]
        nodes.append(cls(**{key: _read(value, nodes) for key, value in zip(names, fields, strict=True)}))
    return _read(data["root"], nodes)


class _ExprWriter:
    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self.numbers: dict[Node, int] = {}
        self.classes = _classes()  # looking through all classes takes as long as writing twelve nodes

    def value(self, item: Any) -> Any:
        if item is None or type(item) in (bool, int, str):
            return item
        if isinstance(item, Node):
            return {"node": self.node(item)}
        if isinstance(item, tuple):
            return [self.value(part) for part in item]
        if isinstance(item, list):
            return {"list": [self.value(part) for part in item]}
        if isinstance(item, Mapping):
            return {"map": [[self.value(key), self.value(part)] for key, part in item.items()]}
        if isinstance(item, DType):
            return {"dtype": str(item)}
        if isinstance(item, enum.Enum):
            return {"enum": type(item).__name__, "name": item.name}
        if type(item) is float:
            return {"float": item.hex()}
        if isinstance(item, np.ndarray | np.generic):
            array = np.asarray(item)
            text = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
            return {"array": text, "dtype": array.dtype.name, "shape": list(array.shape)}
        raise Unsupported(f"{type(item).__name__} in a program has no JSON form: {item!r}")

    def node(self, item: Node) -> int:
        if item not in self.numbers:
            name = type(item).__name__
            cls, fields = self.classes.get(name, (None, ()))
            if cls is not type(item):
                raise Unsupported(f"nodes of the class {type(item).__module__}.{name} have no JSON form")
            row = [name, *(self.value(getattr(item, field)) for field in fields)]
            self.numbers[item] = len(self.rows)
            self.rows.append(row)
        return self.numbers[item]


def _read(value: Any, nodes: list[Node]) -> Any:
    if isinstance(value, list):
        return tuple([_read(part, nodes) for part in value])
    if not isinstance(value, dict):
        return value
    if "node" in value:
        return nodes[value["node"]]
    if "list" in value:
        return [_read(part, nodes) for part in value["list"]]
    if "map" in value:
        return {_read(key, nodes): _read(part, nodes) for key, part in value["map"]}
    if "enum" in value:
        return _enums()[value["enum"]][value["name"]]
    if "float" in value:
        return float.fromhex(value["float"])
    if "array" in value:
        flat = np.frombuffer(base64.b64decode(value["array"]), np.dtype(value["dtype"]))
        return flat.reshape(value["shape"])
    return DType(value["dtype"])


def _subclasses(of: type) -> list[type]:
    children: list[type] = of.__subclasses__()
    below = [cls for child in children for cls in (child, *_subclasses(child))]
    return [cls for cls in below if cls.__module__.partition(".")[0] == __name__.partition(".")[0]]


def _classes() -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Return every imported node class of this package by name, with the names of the fields that its constructor
    takes.
    """
    return _named_classes(len(_subclasses(Node)))


@functools.lru_cache(maxsize=1)
def _named_classes(count: int) -> dict[str, tuple[Any, tuple[str, ...]]]:  # noqa: ARG001 (the number of classes is the key of the cache)
    rows = {}
    for cls in _subclasses(Node):
        if dataclasses.is_dataclass(cls):
            rows[cls.__name__] = cls, tuple(f.name for f in dataclasses.fields(cls) if f.init and not _is_identity(f))
    return rows


def _is_identity(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field only distinguishes a node from its copies: its default is a new object, and it is not
    compared.
    """
    return field.default_factory is not dataclasses.MISSING and not field.compare


def _enums() -> dict[str, Any]:
    return {cls.__name__: cls for cls in _subclasses(enum.Enum)}
