"""Wrong: names the variables i_0 and i_1, whatever the loop runs over."""

from __future__ import annotations

from minitvm.expr import Var, const, substitute
from minitvm.tir.nodes import For, ForKind, If


def split(loop: For, factor: int) -> For:
    """The loop as two loops, the inner one of extent `factor`, with the same meaning."""
    extent = int(loop.extent)
    rounds = -(-extent // factor)  # rounded up
    outer, inner = Var("i_0"), Var("i_1")
    value = outer * factor + inner
    body = substitute(loop.body, {loop.var: value})
    if extent % factor:
        body = If(value < extent, body)
    body = For(inner, const(0), const(factor), ForKind.SERIAL, body)
    return For(outer, const(0), const(rounds), ForKind.SERIAL, body)
