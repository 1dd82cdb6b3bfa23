"""TVM's `tvm.ir`: modules, equality and hashes of programs up to renaming, programs as JSON, instruments of passes."""

from __future__ import annotations

import ast
import importlib
import re
from typing import TYPE_CHECKING, Any

from ..absent import absent
from ..expr import Expr, Node, first_difference
from ..expr import Range as _Range
from ..expr import structural_equal as _equal
from ..expr.structural_hash import structural_hash
from ..tir.nodes import IRModule, PrimFunc, Stmt

if TYPE_CHECKING:
    from . import instrument
    from .json_text import load_json, save_json

__all__ = [
    "IRModule", "Range", "assert_structural_equal", "instrument", "load_json", "save_json", "structural_equal",
    "structural_hash",
]  # fmt: skip


class _RangeType(type):
    def __instancecheck__(cls, item: Any) -> bool:
        return isinstance(item, _Range)


class Range(metaclass=_RangeType):
    """TVM's constructor of ranges: `Range(begin, end)` is [begin, end), `Range(n)` is [0, n).

    It makes an `expr.Range`, whose own fields are start and extent, as those of `Range.from_min_extent` are.
    """

    from_min_extent = staticmethod(_Range.from_min_extent)

    def __new__(cls, begin: Any, end: Any = None) -> Any:
        return _Range.of(begin, end)


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two nodes are the same program up to the names of what they define."""
    return _equal(lhs, rhs, map_free_vars)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise `ValueError` unless two nodes are structurally equal; its text shows the first place where they differ."""
    path = first_difference(lhs, rhs, map_free_vars)
    if path is None:
        return
    raise ValueError(f"the programs differ at {path}\n{_spot('lhs', lhs, path)}\n{_spot('rhs', rhs, path)}")


def _spot(label: str, program: Any, path: str) -> str:
    """The program with the node at `path` marked, a few lines around it."""
    from ..tir.script.printer import script

    item, spot = program, program
    for name, key in re.findall(r"\.(\w+)|\[([^]]+)\]", path):
        try:
            item = getattr(item, name) if name else item[ast.literal_eval(key)]
        except (AttributeError, LookupError, TypeError):
            break
        if isinstance(item, Expr | Stmt | PrimFunc):
            spot = item
    if not isinstance(program, Node):
        return f"  {label}: {item!r}"
    text = "" if item is spot else f"{path.rpartition('.')[2]} = {item!r}"
    return f"{label}:\n{script(program, mark={spot: text}, context=2)}"


def __getattr__(name: str) -> Any:
    if name == "instrument":
        return importlib.import_module(f"{__name__}.instrument")
    if name in ("load_json", "save_json"):
        return getattr(importlib.import_module(f"{__name__}.json_text"), name)
    raise absent(__name__, name, __all__)
