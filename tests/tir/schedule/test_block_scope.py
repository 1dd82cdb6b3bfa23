"""References to blocks and loops, dependences between blocks, and where TVM has these names."""

from __future__ import annotations

import pytest

from minitvm import tir
from minitvm.compat.tvm.schedule.testing import assert_structural_equal_ignore_global_symbol
from minitvm.errors import ScheduleError
from minitvm.script import tir as T
from minitvm.tir.schedule import DepKind, ScheduleState, StmtSRef


@T.prim_func
def chain(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")) -> None:
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + T.float32(1)
    for i in range(8):
        with T.block("again"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.float32(0)


def test_references() -> None:
    sch = tir.Schedule(chain)
    (loop,) = sch.get_loops("C")
    block, around = sch.get_sref(sch.get_block("C")), sch.get_sref(loop)
    assert block.stmt is sch.get("C") is sch.get(block) and around.stmt is sch.get(loop) is sch.get(around)
    assert block.parent == around and around.parent == sch.get_sref(sch.get_block("root"))
    assert around.parent is not None and around.parent.parent is None
    assert (block.seq_index, around.seq_index) == (-1, 1)
    assert sch.state.get_sref(sch.get("C")) == block and len({block, sch.get_sref(sch.get_block("C"))}) == 1
    for mark in (StmtSRef.inline_mark(), StmtSRef.root_mark()):
        assert mark.stmt is mark.parent is None and mark.seq_index == -1
    assert StmtSRef.inline_mark() != StmtSRef.root_mark()
    outer, _ = sch.split(loop, [2, 4])
    assert block.parent == around  # as it was; the schedule has gone on
    assert sch.get_sref(outer).stmt is sch.get(outer) and sch.get(block) is sch.get("C")
    with pytest.raises(ScheduleError, match="loop i was split into i_0, i_1 at step"):
        sch.get(around)


def test_dependences() -> None:
    sch = tir.Schedule(chain)
    blocks = {name: sch.get_sref(sch.get_block(name)) for name in ("B", "C", "again")}
    scope = sch.state.get_block_scope(sch.get_sref(sch.get_block("root")))
    assert [(d.dst, d.kind) for d in scope.get_deps_by_src(blocks["B"])] == [
        (blocks["C"], DepKind.RAW), (blocks["again"], DepKind.WAW),
    ]  # fmt: skip
    assert [(d.src, d.kind) for d in scope.get_deps_by_dst(blocks["again"])] == [
        (blocks["B"], DepKind.WAW), (blocks["C"], DepKind.WAR),
    ]  # fmt: skip
    assert scope.get_deps_by_dst(blocks["B"]) == []


def test_a_state_of_its_own() -> None:
    state = ScheduleState(chain, debug_mask="all")
    loop = tir.root_block(chain).body.stmts[0]
    assert state.get_sref(loop).stmt is loop
    sch = tir.Schedule(chain)
    sch.split(sch.get_loops("B")[0], [2, 4])
    with pytest.raises(ScheduleError, match="not part of the module"):
        sch.state.get_sref(loop)


def test_names_as_tvm_has_them() -> None:
    from minitvm.tir.function import TensorIntrin
    from minitvm.tir.schedule.instruction import Instruction
    from minitvm.tir.stmt import BufferStore

    assert TensorIntrin is tir.TensorIntrin and Instruction is tir.schedule.Instruction
    assert BufferStore is tir.BufferStore and tir.function is tir
    assert tir.schedule.analysis.has_block(tir.Schedule(chain), "C")
    assert tir.schedule.ScheduleDebugMask.VERIFY_SREF_TREE == 1
    with pytest.raises(AttributeError, match="did you mean analysis"):
        tir.schedule.analysys
    assert_structural_equal_ignore_global_symbol(chain, chain.with_attr("global_symbol", "other"))
    with pytest.raises(ValueError, match="the programs differ"):
        assert_structural_equal_ignore_global_symbol(chain, chain.with_attr("private", True))
