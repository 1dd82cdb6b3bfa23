"""TVM's `tvm.ir`: modules, equality and hashes of programs up to renaming, programs as JSON, instruments of passes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ....absent import absent
from ....expr import Range as _Range
from ....expr import structural_equal as _equal
from ....expr.structural import structural_hash
from ....tir.nodes import IRModule
from ....tir.script.differences import assert_structural_equal

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


def __getattr__(name: str) -> Any:
    if name == "instrument":
        return importlib.import_module(f"{__name__}.instrument")
    if name in ("load_json", "save_json"):
        return getattr(importlib.import_module(f"{__name__}.json_text"), name)
    raise absent("minitvm.ir", name, __all__)
