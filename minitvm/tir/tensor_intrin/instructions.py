"""Intrinsics that consist of a single instruction, which contains the description without its blocks."""

from __future__ import annotations

from typing import Any

from ...errors import InputError
from ...expr import REDUCE, Expr, IntImm, Var, const, map_children, replace, substitute
from .. import nodes as tir


def as_instruction(name: str, desc: tir.PrimFunc, together: int = 1) -> tir.PrimFunc:
    """Return a function with the parameters of a description, whose body is an instruction that does the same."""
    root = tir.root_block(desc)
    operands = tuple(tile_of(name, p) if isinstance(p, tir.Buffer) else p for p in desc.params)
    init = None if root.init is None else _without_blocks(root.init)
    body = tir.Instruction(name, operands, _without_blocks(root.body), together)
    whole: tir.Block = replace(root, body=body, init=init)
    return desc.with_body(replace(desc.body, block=whole))


def tile_of(name: str, buffer: tir.Buffer) -> tir.Tile:
    """Return the operand of an instruction for a whole buffer; raise `InputError` if the buffer's shape is not
    constant.
    """
    sizes = [d.value for d in buffer.shape if isinstance(d, IntImm)]
    if len(sizes) < buffer.ndim:
        raise InputError(f"{name}: an instruction has tiles of constant shapes, {buffer.name} is {buffer}")

    def place(axis: int | None) -> tir.BufferLoad:
        return tir.BufferLoad(buffer, tuple(const(int(d == axis and size > 1)) for d, size in enumerate(sizes)))

    return tir.Tile((place(None), *(place(d) for d in range(buffer.ndim))))


def _without_blocks(stmt: tir.Stmt) -> tir.Stmt:
    """Return the loops of a description without its blocks. Schedules do not change the inside of an instruction, so it
    needs no blocks.
    """

    def go(node: Any) -> Any:
        if not isinstance(node, tir.BlockRealize):
            return map_children(node, go)
        block = node.block
        values: dict[Var, Expr] = {
            axis.var: value.astype(axis.var.dtype)
            for axis, value in zip(block.iter_vars, node.iter_values, strict=True)
        }
        body = block.body
        if block.init is not None:
            starts: list[Expr] = [
                value <= axis.dom.start
                for axis, value in zip(block.iter_vars, node.iter_values, strict=True)
                if axis.kind == REDUCE
            ]
            init = block.init
            for start in reversed(starts):
                init = tir.If(start, init)
            body = tir.Seq.of(init, body)
        inner = substitute(go(body), values)
        always = isinstance(node.predicate, IntImm) and node.predicate.value
        return inner if always else tir.If(node.predicate, inner)

    plain: tir.Stmt = go(stmt)
    return plain
