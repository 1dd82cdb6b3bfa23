"""The fusion class of a loop program that a graph calls, derived from its loops (TVM's `AnnotateTIROpPattern`).

Only the form that a tensor expression with one result has is recognised; any other program is opaque, and nothing is
fused with it. For example, in `y[i, j] = x[i, j] + b[j]` the operator is a broadcast, and element-wise producers of x
may join it.
"""

from __future__ import annotations

import math

from .. import expr as ex
from ..tir.analysis.by_hand import is_scheduled
from ..tir.nodes import Block, BlockRealize, Buffer, BufferLoad, BufferStore, For, PrimFunc, Stmt, root_block
from .registry import Pattern


def fusion_class(func: PrimFunc, results: int = 1) -> Pattern:
    """Return the fusion class of a function with `results` results. It is opaque if its schedule is final, because
    fusion would change its loops.
    """
    root = root_block(func)
    realize = None if results != 1 or root.alloc_buffers or is_scheduled(func) else _only_block(root.body)
    if realize is None or any(isinstance(param, ex.Var) for param in func.params):
        return Pattern.OPAQUE
    block, store = realize.block, realize.block.body
    if not isinstance(store, BufferStore) or not _writes_each_element(block, store):
        return Pattern.OPAQUE
    own = func.buffers[-1]
    loads = [load for load in ex.find(store.value, BufferLoad) if load.buffer is not own]
    if any(ex.contains(index, BufferLoad) for load in loads for index in load.indices):
        return Pattern.OPAQUE
    spatial = [it.var for it in block.iter_vars if it.kind == ex.SPATIAL]
    if block.init is not None:
        plain = len(loads) == 1 and _is_subsequence(loads[0], [it.var for it in block.iter_vars])
        return Pattern.COMM_REDUCE if plain and loads[0].buffer.ndim == len(block.iter_vars) else _ANCHOR
    if len(spatial) < len(block.iter_vars):
        return Pattern.OPAQUE
    if all(_is_subsequence(load, spatial) for load in loads):
        same = all(load.buffer.ndim == len(spatial) for load in loads)
        return Pattern.ELEMENTWISE if same else Pattern.BROADCAST
    return Pattern.INJECTIVE if _reads_about_once(loads, own) else Pattern.OPAQUE


_ANCHOR = Pattern.COMPLEX_OUT_FUSABLE  # a sum: element-wise maps of its result may join it


def _only_block(stmt: Stmt) -> BlockRealize | None:
    """Return the block in a loop nest, or None if the nest does not contain exactly one."""
    while isinstance(stmt, For):
        stmt = stmt.body
    return stmt if isinstance(stmt, BlockRealize) and not any(ex.find(stmt.block.body, Block)) else None


def _writes_each_element(block: Block, store: BufferStore) -> bool:
    """Return whether the store of a block writes every element of its buffer: its indices are the block's spatial
    iterators, in order.
    """
    spatial = [it for it in block.iter_vars if it.kind == ex.SPATIAL]
    return len(spatial) == len(store.indices) and all(
        index is it.var and ex.structural_equal(it.dom.extent, dim)
        for index, it, dim in zip(store.indices, spatial, store.buffer.shape, strict=True)
    )


def _is_subsequence(load: BufferLoad, variables: list[ex.Var]) -> bool:
    """Return whether the indices of a load are some of `variables`, in their order."""
    rest = iter(variables)
    return all(any(index is var for var in rest) for index in load.indices)


def _reads_about_once(loads: list[BufferLoad], result: Buffer) -> bool:
    """Return whether each element of each input is read about once: one load, of an input no smaller than the result.

    A fused producer would otherwise be computed several times, as for a window that moves over its input.
    """
    sizes = [_elements(load.buffer) for load in loads]
    return len({load.buffer for load in loads}) == len(loads) and all(n >= _elements(result) > 0 for n in sizes)


def _elements(buffer: Buffer) -> int:
    """Return the number of elements of a buffer, or 0 if a dimension is symbolic."""
    return math.prod(dim.value if isinstance(dim, ex.IntImm) else 0 for dim in buffer.shape)
