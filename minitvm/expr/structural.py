"""Equality up to renaming: `structural_equal(a, b)` compares two trees of any level.

Variables and buffers that the trees define themselves may have different names, as long as they correspond one to one.
Free variables and buffers must be the same objects, unless `map_free_vars` is set. Opaque ids and names of blocks
(fields with `compare=False`) are ignored.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from .node import Node
from .nodes import FloatImm, SizeVar, Var


class _Comparison:
    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.forward: dict[Node, Node] = {}
        self.backward: dict[Node, Node] = {}
        self.path: list[str] = []

    def bind(self, a: Node, b: Node) -> bool:
        if self.forward.get(a, b) is not b or self.backward.get(b, a) is not a:
            return False
        self.forward[a], self.backward[b] = b, a
        return True

    def equal(self, a: Any, b: Any, defining: bool = False) -> bool:
        if isinstance(a, tuple | list) and isinstance(b, tuple | list):
            return len(a) == len(b) and all(
                self._at(f"[{i}]", x, y, defining) for i, (x, y) in enumerate(zip(a, b, strict=True))
            )
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            # Annotations and attributes are maps: their order does not matter.
            return a.keys() == b.keys() and all(self._at(f"[{key!r}]", a[key], b[key]) for key in a)
        if not isinstance(a, Node) or not isinstance(b, Node):
            return type(a) is type(b) and self._equal_values(a, b)
        if type(a) is not type(b) and not (isinstance(a, Var) and isinstance(b, Var) and _printed_alike(a, b)):
            return False
        if isinstance(a, FloatImm) and isinstance(b, FloatImm):
            return a.dtype == b.dtype and self._equal_values(a.value, b.value)
        renamable = isinstance(a, Var) or getattr(a, "_renamable", False)
        if renamable:
            return self._equal_names(a, b, defining)
        if getattr(a, "_closed", False):  # functions of a module may share buffers, and each defines them for itself
            outer, self.forward, self.backward = (self.forward, self.backward), {}, {}
            same = self._equal_fields(a, b)
            self.forward, self.backward = outer
            return same
        return self._equal_fields(a, b)

    def _equal_values(self, a: Any, b: Any) -> bool:
        if isinstance(a, float):  # NaN equals itself, and 0.0 differs from -0.0: programs are compared, not numbers
            return np.float64(a).tobytes() == np.float64(b).tobytes()
        if isinstance(a, np.ndarray):
            return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return bool(a == b)

    def _equal_names(self, a: Node, b: Node, defining: bool) -> bool:
        if a in self.forward or b in self.backward:
            return self.forward.get(a) is b and self.backward.get(b) is a
        if not defining and not self.map_free_vars:
            return a is b
        if isinstance(a, Var) and isinstance(b, Var):
            return a.dtype == b.dtype and self.bind(a, b)
        outer, self.map_free_vars = self.map_free_vars, self.map_free_vars or defining
        same = self._equal_fields(a, b, skip="name")  # a buffer's definition defines its symbolic dimensions too
        self.map_free_vars = outer
        return same and self.bind(a, b)

    def _equal_fields(self, a: Node, b: Node, skip: str = "") -> bool:
        kind: Any = type(a)
        for name, defines in _compared(kind):
            if name != skip and not self._at("." + name, getattr(a, name), getattr(b, name), defines):
                return False
        return True

    def _at(self, step: str, a: Any, b: Any, defining: bool = False) -> bool:
        if self.equal(a, b, defining):
            return True
        self.path.append(step)
        return False


@functools.cache
def _compared(kind: Any) -> tuple[tuple[str, bool], ...]:
    """Return (name, whether the field defines something) for each field of a node class that is compared.

    Fields with definitions come before the fields that use them.
    """
    names = [f.name for f in dataclasses.fields(kind) if f.compare]
    return tuple(sorted(((name, name in kind._defs) for name in names), key=lambda field: not field[1]))


def _printed_alike(a: Var, b: Var) -> bool:
    """Return whether two free variables look the same in printed text, which is the case if neither is a `SizeVar`."""
    return not isinstance(a, SizeVar) and not isinstance(b, SizeVar)


def structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    """Return whether two trees are the same program up to the names of the variables and buffers that they define."""
    return a is b or _Comparison(map_free_vars).equal(a, b, defining=map_free_vars)


def first_difference(a: Any, b: Any, map_free_vars: bool = False) -> str | None:
    """Return the path to the first difference between two trees, such as `.body.seq[1].value`, or None if they are
    equal.
    """
    comparison = _Comparison(map_free_vars)
    if comparison.equal(a, b, defining=map_free_vars):
        return None
    return "".join(reversed(comparison.path)) or "."


# --- A hash of trees of any level that structurally equal trees share; see `structural`.


class _Hash:
    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.numbers: dict[Node, int] = {}
        self.state = blake2b(digest_size=32)

    def add(self, item: Any, defining: bool = False) -> None:
        if isinstance(item, tuple | list):
            self.note("sequence", len(item))
            for part in item:
                self.add(part, defining)
        elif isinstance(item, Mapping):
            self.note("mapping", len(item))
            for key in sorted(item, key=repr):  # the order of a map does not matter
                self.note("key", key)
                self.add(item[key])
        elif not isinstance(item, Node):
            self.value(item)
        elif isinstance(item, Var) or getattr(item, "_renamable", False):
            self.named(item, defining)
        elif getattr(item, "_closed", False):
            outer, self.numbers = self.numbers, {}
            self.fields(item)
            self.numbers = outer
        else:
            self.fields(item)

    def note(self, *parts: Any) -> None:
        self.state.update(repr(parts).encode())

    def value(self, item: Any) -> None:
        if isinstance(item, float):
            self.note("float", np.float64(item).tobytes())
        elif isinstance(item, np.ndarray):
            self.note("array", item.dtype.str, item.shape, item.tobytes())
        else:
            self.note(type(item).__name__, str(item))

    def named(self, item: Node, defining: bool) -> None:
        """Hash a variable or buffer by the number of its definition or, if it is free, only by its type and dtype."""
        if item in self.numbers:
            self.note("use", self.numbers[item])
            return
        if not (defining or self.map_free_vars):
            # Equal trees use the same free item, but a hash must not depend on its address in memory.
            self.note("free", type(item).__name__, str(getattr(item, "dtype", "")))
            return
        if not isinstance(item, Var):
            outer, self.map_free_vars = self.map_free_vars, self.map_free_vars or defining
            self.fields(item, skip="name")  # a buffer's definition defines its symbolic dimensions too
            self.map_free_vars = outer
        self.numbers[item] = len(self.numbers)
        self.note("definition", isinstance(item, SizeVar), str(getattr(item, "dtype", "")))

    def fields(self, item: Node, skip: str = "") -> None:
        names = [f.name for f in dataclasses.fields(item) if f.compare and f.name != skip]  # type: ignore[arg-type]
        self.note(type(item).__name__)
        # Definitions first, as in `structural`: the other fields use them.
        for name in sorted(names, key=lambda name: name not in item._defs):
            self.add(getattr(item, name), name in item._defs)


def structural_digest(node: Any, map_free_vars: bool = False) -> bytes:
    """Return a 32-byte digest that is equal for structurally equal trees and does not change between processes.

    With `map_free_vars`, trees that are not structurally equal have different digests.
    """
    trail = _Hash(map_free_vars)
    trail.add(node, defining=map_free_vars)
    return trail.state.digest()


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """Return the first 64 bits of `structural_digest` as an integer, as in TVM."""
    return int.from_bytes(structural_digest(node, map_free_vars)[:8], "little", signed=True)
