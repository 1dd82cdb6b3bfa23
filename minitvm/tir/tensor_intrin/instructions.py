"""An intrinsic that is one instruction: its description, without blocks, is what the instruction carries."""

from __future__ import annotations

from typing import Any

from ...errors import InputError
from ...expr import REDUCE, Expr, IntImm, Var, const, map_children, replace, substitute
from ..nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    If,
    Instruction,
    PrimFunc,
    Seq,
    Stmt,
    Tile,
    root_block,
)


def as_instruction(name: str, desc: PrimFunc, together: int = 1) -> PrimFunc:
    """The function of a description's parameters whose body is the one instruction that does the same."""
    root = root_block(desc)
    operands = tuple(tile_of(name, p) if isinstance(p, Buffer) else p for p in desc.params)
    init = None if root.init is None else _without_blocks(root.init)
    body = Instruction(name, operands, _without_blocks(root.body), together)
    whole: Block = replace(root, body=body, init=init)
    return desc.with_body(replace(desc.body, block=whole))


def tile_of(name: str, buffer: Buffer) -> Tile:
    """All of a buffer as the operand of an instruction; raises `InputError` for a shape that is not constant."""
    sizes = [d.value for d in buffer.shape if isinstance(d, IntImm)]
    if len(sizes) < buffer.ndim:
        raise InputError(f"{name}: an instruction has tiles of constant shapes, {buffer.name} is {buffer}")

    def place(axis: int | None) -> BufferLoad:
        return BufferLoad(buffer, tuple(const(int(d == axis and size > 1)) for d, size in enumerate(sizes)))

    return Tile((place(None), *(place(d) for d in range(buffer.ndim))))


def _without_blocks(stmt: Stmt) -> Stmt:
    """The loops of a description: no schedule reaches into an instruction."""

    def go(node: Any) -> Any:
        if not isinstance(node, BlockRealize):
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
                init = If(start, init)
            body = Seq.of(init, body)
        inner = substitute(go(body), values)
        always = isinstance(node.predicate, IntImm) and node.predicate.value
        return inner if always else If(node.predicate, inner)

    plain: Stmt = go(stmt)
    return plain
