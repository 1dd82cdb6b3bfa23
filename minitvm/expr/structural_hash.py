"""A hash of trees of any level that structurally equal trees share; see `structural`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from .node import Node
from .nodes import SizeVar, Var


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
            for key in sorted(item, key=repr):  # what a map says does not depend on the order of writing
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
        """A variable or buffer: the number of its definition, or only what it is where it is free."""
        if item in self.numbers:
            self.note("use", self.numbers[item])
            return
        if not (defining or self.map_free_vars):
            # Equal trees use the same free one, but a hash must not depend on where it lies in memory.
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
    """32 bytes that two trees share where `structural_equal` holds; the same in every process.

    With `map_free_vars`, trees that are not structurally equal have different ones.
    """
    trail = _Hash(map_free_vars)
    trail.add(node, defining=map_free_vars)
    return trail.state.digest()


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """As `structural_digest`, as TVM gives it: a number of 64 bits."""
    return int.from_bytes(structural_digest(node, map_free_vars)[:8], "little", signed=True)
