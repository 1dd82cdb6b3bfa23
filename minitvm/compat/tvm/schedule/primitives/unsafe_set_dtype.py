"""A buffer that holds numbers of another dtype: unsafe_set_dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .....errors import MinitvmError
from .....expr import SCALARS, Cast, DType, Node, replace, rewrite, walk
from .....tir.analysis.accesses import handed_out
from .....tir.nodes import BlockRealize, Buffer, BufferLoad, BufferStore
from .....tir.schedule import programs as on
from .....tir.schedule.primitives.storage import allocated, buffer_written, each_written, written_buffer
from .....tir.schedule.registry import Failure, primitive, requirement
from .....tir.schedule.state import ScheduleState
from .....tir.schedule.views import views_on, with_buffers


@requirement
def numeric_dtype(
    state: ScheduleState, block: BlockRealize, buffer_index: int | str | Buffer, dtype: str
) -> Failure | None:
    """dtype and the buffer's own dtype are scalar integers or floats"""
    try:
        requested = DType(dtype)
    except (MinitvmError, ValueError):
        numeric = ", ".join(name for name in SCALARS if name != "bool")
        return Failure({block.block: ""}, f"the dtype of a number: {numeric}", repr(dtype))
    own = buffer_written(block, buffer_index).dtype
    for each in (requested, own):
        if each.lanes != 1 or each.kind not in ("int", "uint", "float"):
            return Failure({block.block: ""}, "the dtype of a number", f"{each}")
    return None


@requirement
def plain_accesses(state: ScheduleState, block: BlockRealize, buffer_index: int | str | Buffer) -> Failure | None:
    """the buffer and its views are only loaded and stored; no intrinsic receives their address"""
    tree = state.home(block)
    buffer = buffer_written(block, buffer_index)
    all_ = {buffer, *views_on(tree.func.body, buffer)}
    for node in walk(tree.func.body):
        if handed_out(node) in all_:
            return Failure({node: "takes its address"}, "loads and stores only", str(node))
    return None


@primitive(requires=[written_buffer, allocated, numeric_dtype, plain_accesses], kind="UnsafeSetDType")
def unsafe_set_dtype(state: ScheduleState, block: BlockRealize, buffer_index: int | str | Buffer, dtype: str) -> None:
    """Change the dtype of a buffer: stores convert to the new dtype, and loads convert back.

    before:
        B = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = B[vi, vj] + 1.0
    call: `sch.unsafe_set_dtype("B", 0, "float16")`
    after:
        B = T.alloc_buffer((8, 8), "float16")
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = T.Cast("float16", A[vi, vj] * 2.0)
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = T.Cast("float32", B[vi, vj]) + 1.0

    This is unsafe: numbers that the new dtype cannot represent are rounded, so the result may change.
    """
    tree = state.home(block)
    old = buffer_written(block, buffer_index)
    new_dtype = DType(dtype)
    moved = {b: replace(b, dtype=new_dtype) for b in (old, *views_on(tree.func.body, old))}

    def change(at: Node) -> Node | None:
        if isinstance(at, BufferLoad) and at.buffer in moved:
            return Cast(old.dtype, BufferLoad(moved[at.buffer], at.indices, at.predicate))
        return None

    def go(at: Any) -> Any:
        # A store is rebuilt at once: with its value converted, or with the old buffer and not at all.
        if isinstance(at, BufferStore) and at.buffer in moved:
            value, predicate = rewrite(at.value, change), at.predicate and rewrite(at.predicate, change)
            indices = tuple(rewrite(i, change) for i in at.indices)
            return BufferStore(moved[at.buffer], Cast(new_dtype, value), indices, predicate)
        return None

    if new_dtype != old.dtype:
        stored = rewrite(tree.func.body, go)
        loaded = rewrite(stored, change)
        state.set_func(tree, tree.func.with_body(with_buffers(loaded, moved)))


_HANDED_OUT = """
C: T.Buffer((8,))
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"): B[vi] = A[vi] * 2.0
for i in range(8):
    with T.block("C"):
        T.reads(B[vi])
        T.writes(C[vi])
        T.evaluate(T.call_extern("int32", "increment", T.address_of(B[vi]), T.address_of(C[vi])))
"""
unsafe_set_dtype.refuses(written_buffer, "sch.unsafe_set_dtype('B', 1, 'float16')", on.TWO_ROWS)
unsafe_set_dtype.refuses(allocated, "sch.unsafe_set_dtype('C', 0, 'float16')", on.TWO_ROWS)
unsafe_set_dtype.refuses(numeric_dtype, "sch.unsafe_set_dtype('B', 0, 'flot16')", on.TWO_ROWS)
unsafe_set_dtype.refuses(plain_accesses, "sch.unsafe_set_dtype('B', 0, 'float16')", _HANDED_OUT)


@unsafe_set_dtype.space
def _unsafe_set_dtype_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    wider = {"float32": "float64", "float16": "float32", "bfloat16": "float32", "int32": "int64", "int8": "int32"}
    for block, number, buffer in each_written(state.tree()):
        if str(buffer.dtype) in wider:
            yield block, number, wider[str(buffer.dtype)]
