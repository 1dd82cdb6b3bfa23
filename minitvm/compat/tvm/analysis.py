"""TVM's questions about programs, under its names: what `tvm.tir.analysis` has of them for blocks and expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import VerificationError
from ...expr import Expr, Node, Var, as_expr, find, free_vars, structural_equal
from ...tir import nodes as tir
from ...tir.analysis.block_regions import regions_touched
from ...tir.analysis.tree import Tree, own_expressions


def expr_deep_equal(lhs: Expr | float, rhs: Expr | float) -> bool:
    """Whether two expressions are the same, with the same variables."""
    return structural_equal(as_expr(lhs), as_expr(rhs))


def undefined_vars(node: Node, defs: Sequence[Var] = ()) -> list[Var]:
    """The variables that a program uses, and that neither the program nor `defs` defines, in order of first use."""
    return [var for var in free_vars(node) if var not in defs]


def verify_well_formed(obj: Any, assert_mode: bool = True) -> bool:
    """Whether a function or module obeys the rules of its level; raises `VerificationError` with `assert_mode`."""
    from ...tir.verifier import verify

    try:
        verify(obj)
    except VerificationError:
        if assert_mode:
            raise
        return False
    return True


def get_block_read_write_region(
    block: tir.Block, buffer_var_map: Mapping[Any, tir.Buffer] | None = None
) -> list[list[tir.BufferRegion]]:
    """[reads, writes] of a block, as its body shows them; minitvm's accesses name their buffers, so the map from
    addresses to buffers is accepted and not needed."""
    del buffer_var_map
    reads, writes = regions_touched(block)
    return [list(reads), list(writes)]


def get_block_access_region(
    block: tir.Block, buffer_var_map: Mapping[Any, tir.Buffer] | None = None
) -> list[list[tir.BufferRegion]]:
    """[reads, writes, opaque] of a block, as its body shows them. Opaque are the buffers whose address it hands out."""
    opaque = dict.fromkeys(node.buffer for node in find(block, tir.BufferData))
    reads, writes = get_block_read_write_region(block, buffer_var_map)
    return [
        [region for region in reads if region.buffer not in opaque],
        [region for region in writes if region.buffer not in opaque],
        [buffer.full_region() for buffer in opaque],
    ]


def detect_buffer_access_lca(func: tir.PrimFunc) -> dict[tir.Buffer, tir.Stmt | None]:
    """For each buffer, the innermost loop or block around all accesses to it; None where it is the function."""
    tree = Tree(func)
    around: dict[tir.Buffer, list[tir.Stmt]] = {}
    for stmt in tree.order:
        for buffer in _touched(stmt):
            above = [
                s.block if isinstance(s, tir.BlockRealize) else s for s in (stmt, *tree.above(stmt)) if _is_place(s)
            ]
            shared = around.get(buffer)
            around[buffer] = above if shared is None else [s for s in shared if s in above]
    return {buffer: places[0] if places else None for buffer, places in around.items()}


def _is_place(stmt: tir.Stmt) -> bool:
    return isinstance(stmt, tir.BlockRealize | tir.For)


def _touched(stmt: tir.Stmt) -> list[tir.Buffer]:
    """The buffers that a statement accesses itself, not through a statement inside it."""
    loads = [load.buffer for e in own_expressions(stmt) for load in find(e, tir.BufferLoad | tir.BufferData)]
    return [*([stmt.buffer] if isinstance(stmt, tir.BufferStore) else []), *loads]
