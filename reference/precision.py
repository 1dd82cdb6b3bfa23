"""Where programs round at other dtypes: what the modes of formulas and of whole numbers do not judge."""

from __future__ import annotations

from minitvm import expr as x

from .field import FUNCTIONS
from .programs import Program
from .signs import nodes

_KINDS: dict[type[x.Node], str] = {x.Add: "sums", x.Sub: "sums", x.Mul: "products", x.Div: "quotients"}


def unlike(before: Program, after: Program) -> str:
    """Which rounding differs, as text; "" where both round alike.

    Of each kind of operation (sums, products, quotients, functions, conversions to narrower floats) the dtypes are
    compared. An operation that only one of the programs has is other algebra, not another precision.
    """
    one, other = _rounding(before), _rounding(after)
    told = []
    for kind in sorted({*one, *other}):
        was, now = one.get(kind, set()), other.get(kind, set())
        if was == now or (kind != "conversions" and not (was and now)):
            continue
        told.append(f"{kind} in {_names(now)} for {_names(was)}")
    return ", ".join(told)


def _rounding(program: Program) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for n in nodes(program):
        if isinstance(n, x.Cast):
            source, target = n.value.dtype, n.dtype
            if source.is_float and target.is_float and target.bits < source.bits:
                found.setdefault("conversions", set()).add(str(target.scalar))
            continue
        kind = _KINDS.get(type(n))
        if isinstance(n, x.Call) and n.op in FUNCTIONS:
            kind = "functions"
        if isinstance(n, x.Call) and n.op == "fma":
            kind = "sums"
        if kind is not None and isinstance(n, x.Expr) and n.dtype.is_float:
            found.setdefault(kind, set()).add(str(n.dtype.scalar))
    return found


def _names(dtypes: set[str]) -> str:
    return " and ".join(sorted(dtypes)) or "none"
