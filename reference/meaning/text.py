"""One-line texts of statements for the interpreters' messages."""

from __future__ import annotations

from typing import Any

from minitvm.expr import Expr
from minitvm.tir import nodes as t


def access_text(buffer: t.Buffer, indices: tuple[Expr, ...]) -> str:
    """Return an access as text: `A[i, j]`, or `A[()]` for a buffer without dimensions."""
    return f"{buffer.name}[{', '.join(map(str, indices)) or '()'}]"


def statement_text(node: Any) -> str:
    """Return a statement as a line of text; for a compound statement, its head."""
    if isinstance(node, t.BufferStore):
        return f"{access_text(node.buffer, node.indices)} = {node.value}"
    if isinstance(node, t.For):
        return f"for {node.var.name} in {node.kind.value}({node.start}, {node.start} + {node.extent})"
    if isinstance(node, t.While):
        return f"while {node.condition}"
    if isinstance(node, t.If):
        return f"if {node.condition}"
    if isinstance(node, t.LetStmt):
        return f"{node.var.name} = {node.value}"
    if isinstance(node, t.Assert):
        return f"assert {node.condition}, {node.message!r}"
    if isinstance(node, t.Prefetch):
        return f"prefetch({access_text(node.buffer, (node.index,))})"
    if isinstance(node, t.Instruction):
        operands = (access_text(o.buffer, o.places[0].indices) if isinstance(o, t.Tile) else str(o)
                    for o in node.operands)  # fmt: skip
        return f"{node.name}({', '.join(operands)})"
    if isinstance(node, t.Async):
        return f"async {statement_text(node.body)}"
    if isinstance(node, t.Evaluate):
        return str(node.value)
    if isinstance(node, t.BlockRealize):
        bound = ", ".join(f"{v.var.name} = {e}" for v, e in zip(node.block.iter_vars, node.iter_values, strict=False))
        return f"block {node.block.name!r}" + (f" with {bound}" if bound else "")
    if isinstance(node, t.KernelCall):
        args = ", ".join(a.name if isinstance(a, t.Buffer) else str(a) for a in node.args)
        return f"{node.kernel}({args})"
    return str(node) if isinstance(node, Expr) else type(node).__name__
