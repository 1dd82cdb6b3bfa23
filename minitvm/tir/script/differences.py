"""Find the first difference between two programs that should be equal, and show it in the text of both."""

from __future__ import annotations

import ast
import re
from typing import Any

from ...expr import Expr, Node, first_difference
from ..nodes import PrimFunc, Stmt
from .printer import script


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise `ValueError` unless two nodes are structurally equal. The message shows the first difference."""
    path = first_difference(lhs, rhs, map_free_vars)
    if path is None:
        return
    raise ValueError(f"the programs differ at {path}\n{_spot('lhs', lhs, path)}\n{_spot('rhs', rhs, path)}")


def _spot(label: str, program: Any, path: str) -> str:
    """Return a few lines of the program around the node at `path`, with this node marked."""
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
