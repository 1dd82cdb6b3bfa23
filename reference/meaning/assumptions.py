"""The meaning of `T.assume(condition)`: a promise. If the condition does not hold, the run is an error."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from minitvm import expr as x
from minitvm.tir import nodes as t


def checked(func: t.PrimFunc) -> t.PrimFunc:
    """Return the function with an assertion in place of each assumption; the function itself if it has none.

    The result is cached, because its compiled code is cached and a check runs a function many times.
    """
    if func not in _CHECKED:
        _CHECKED[func] = _with_assertions(func)
    return _CHECKED[func] or func


_CHECKED: WeakKeyDictionary[t.PrimFunc, t.PrimFunc | None] = WeakKeyDictionary()  # None: there is no assumption


def _with_assertions(func: t.PrimFunc) -> t.PrimFunc | None:
    def change(node: x.Node) -> x.Node | None:
        if isinstance(node, t.Evaluate) and isinstance(node.value, x.Call) and node.value.op == "assume":
            return t.Assert(node.value.args[0], "T.assume")
        return None

    assumes = any(isinstance(n, x.Call) and n.op == "assume" for n in x.walk(func.body))
    return func.with_body(x.rewrite(func.body, change)) if assumes else None
