"""transform_layout, set_axis_separators, transform_block_layout: programs, padding, parameters, random maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import ScheduleError, Unsupported
from minitvm.expr import structural_equal
from minitvm.reference import check
from minitvm.reference.strategies import prim_funcs
from minitvm.script import tir as T
from minitvm.tir import IndexMap
from minitvm.tir.analysis.tree import statements
from minitvm.tir.nodes import Buffer, BufferStore, PrimFunc, root_block
from minitvm.tir.schedule import BlockRV, Schedule
from minitvm.tir.schedule.access_remapping import in_old_layouts
from minitvm.tir.transform.pipeline import lower
from tests.fewer import examples

from . import programs
from .layout_programs import constant_shape, index_maps
from .meaning import same_at_both_levels, same_meaning


@T.prim_func
def two_steps(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    B = T.alloc_buffer((8, 16))
    for i, j in T.grid(8, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(8, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def two_steps_tiled(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    B = T.alloc_buffer((4, 8, 4))
    for i, j in T.grid(8, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj // 4, vi, vj % 4] = A[vi, vj] * 2.0
    for i, j in T.grid(8, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj // 4, vi, vj % 4] + 1.0


@T.prim_func
def two_steps_padded(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    B = T.alloc_buffer((8, 4, 5))
    for axis0, axis1, axis2 in T.grid(8, 4, 5):
        with T.block("B"):
            v0, v1, v2 = T.axis.remap("SSS", [axis0, axis1, axis2])
            T.reads(A[v0, v1 * 5 + v2])
            T.writes(B[v0, v1, v2])
            B[v0, v1, v2] = T.if_then_else(
                v1 == 3 and 1 <= v2,  # noqa: SIM300
                T.float32(7),
                A[v0, v1 * 5 + v2] * T.float32(2),
            )
    for i, j in T.grid(8, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj // 5, vj % 5] + 1.0


@pytest.mark.parametrize("buffer", [("write", 0), ["write", 0], "B"])
def test_the_accesses_move(buffer: Any) -> None:
    sch = Schedule(two_steps)
    sch.transform_layout("B", buffer, lambda i, j: (j // 4, i, j % 4))
    assert structural_equal(sch.func.with_attr("global_symbol", "two_steps_tiled"), two_steps_tiled), sch.func.script()
    same_meaning(two_steps, sch)


def test_a_producer_of_every_element_writes_the_padding_too() -> None:
    sch = Schedule(two_steps, verify=True)
    sch.transform_layout("B", ("write", 0), lambda i, j: [i, j // 5, j % 5], pad_value=7)
    after = sch.func.with_attr("global_symbol", "two_steps_padded")
    assert structural_equal(after, two_steps_padded), sch.func.script()
    same_meaning(two_steps, sch)


def test_what_the_padding_holds() -> None:
    """A parameter in a padded layout: the caller sees the pad values, a function of the place."""
    sch = Schedule(programs.matmul(4, 6, 2))
    sch.transform_layout("C", ("write", 0), lambda i, j: (i, j // 4, j % 4), pad_value=lambda i, j, k: -1.5)
    built = minitvm.build(sch.func)
    a, b = np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(12, dtype=np.float32).reshape(2, 6)
    c = np.zeros((4, 2, 4), np.float32)
    built(a, b, c)
    wanted = np.full((4, 8), -1.5, np.float32)
    wanted[:, :6] = a @ b
    np.testing.assert_array_equal(c.reshape(4, 8), wanted)
    verify_trace_roundtrip(sch, programs.matmul(4, 6, 2))


def test_the_padding_of_an_input_is_the_callers() -> None:
    sch = Schedule(programs.matmul(4, 6, 2))
    sch.transform_layout("C", ("read", 1), lambda i, j: (i, j // 4, j % 4), pad_value=0)
    assert {n.buffer.name for n in statements(sch.func.body) if isinstance(n, BufferStore)} == {"C"}
    built = minitvm.build(sch.func)
    a, b = np.ones((4, 2), np.float32), np.arange(12, dtype=np.float32).reshape(2, 6)
    moved = IndexMap.from_func(lambda i, j: (i, j // 4, j % 4)).map_ndarray(b)
    moved[:, 1, 2:] = np.nan  # nobody may look there
    c = np.zeros((4, 6), np.float32)
    built(a, moved, c)
    np.testing.assert_array_equal(c, a @ b)


def test_a_swizzle_needs_no_inverse() -> None:
    sch = Schedule(two_steps, verify=True)
    sch.transform_layout("B", ("write", 0), lambda i, j: (i, j ^ i))
    same_meaning(two_steps, sch)


def test_the_callers_word_counts_only_where_nothing_is_known() -> None:
    sch = Schedule(two_steps)
    with pytest.raises(ScheduleError, match="both go to"):
        sch.transform_layout("B", ("write", 0), lambda i, j: (i // 2, j), assume_injective_transform=True)


def test_a_layout_with_separators() -> None:
    sch = Schedule(two_steps)
    index_map, separators = IndexMap.from_func_with_separators(lambda i, j: (i, IndexMap.AXIS_SEPARATOR, j // 4, j % 4))
    sch.transform_layout("B", "B", index_map)
    sch.set_axis_separators("B", "B", separators)
    (buffer,) = root_block(sch.func).alloc_buffers
    assert buffer.axis_separators == (1,)
    assert check(two_steps, sch.func)
    with pytest.raises(Unsupported, match="axis separators"):
        lower(sch.func)
    sch.set_axis_separator("B", ("write", 0), [])  # TVM's name
    same_meaning(two_steps, sch)


def test_a_block_iterates_differently() -> None:
    sch = Schedule(two_steps, verify=True)
    sch.transform_block_layout("C", lambda i, j: (j // 4, i * 4 + j % 4))
    assert [str(sch.get(l).extent) for l in sch.get_loops("C")] == ["4", "32"]
    same_meaning(two_steps, sch)


def test_a_symbolic_shape() -> None:
    func = programs.symbolic_matmul()
    sch = Schedule(func)
    sch.transform_layout("C", ("read", 0), lambda i, k: (k, i))
    sch.transform_block_layout("C", lambda i, j, k: (j, i, k))
    built = minitvm.build(sch.func)
    a, b = np.arange(20, dtype=np.float32).reshape(5, 4), np.ones((4, 6), np.float32)
    c = np.zeros((5, 6), np.float32)
    built(np.ascontiguousarray(a.T), b, c)
    np.testing.assert_array_equal(c, a @ b)


@examples(5, 40)
@given(prim_funcs(min_blocks=2), st.data())
def test_random_layouts_of_any_buffer(func: PrimFunc, data: Any) -> None:
    """Any buffer, parameters too (compared through copies), in a random layout, as a loop program and as kernels."""
    sch = Schedule(func)
    blocks = [b for b in sch.state.tree().blocks.values() if b is not sch.state.tree().root]
    block = data.draw(st.sampled_from(blocks))
    regions = [("read", k, r) for k, r in enumerate(block.block.reads)]
    regions += [("write", k, r) for k, r in enumerate(block.block.writes)]
    side, position, region = data.draw(st.sampled_from(regions))
    shape = constant_shape(region.buffer.shape)
    if shape is None or not shape:
        return
    index_map = data.draw(index_maps(shape))
    handle = BlockRV(block.block.id)
    pad = data.draw(st.integers(max(-3, int(region.buffer.dtype.min)), 3))
    try:
        sch.transform_layout(handle, (side, position), index_map, pad_value=pad)
    except ScheduleError as error:
        # A swizzle with padding, or a view of a box; all others are legal.
        assert error.requirement in ("known_padding", "plain_accesses"), error
        return
    changed = [(p, q) for p, q in zip(func.params, sch.func.params, strict=True) if p is not q]
    after = sch.func
    if changed:
        ((was, now),) = changed
        assert isinstance(was, Buffer) and isinstance(now, Buffer)
        after = in_old_layouts(sch.func, {now: (was, index_map)})
    same_at_both_levels(func, after)


@examples(15, 50)
@given(prim_funcs(), st.data())
def test_random_iterations_of_any_block(func: PrimFunc, data: Any) -> None:
    sch = Schedule(func)
    blocks = [b for b in sch.state.tree().blocks.values() if b is not sch.state.tree().root]
    block = data.draw(st.sampled_from(blocks))
    shape = constant_shape([it.dom.extent for it in block.block.iter_vars])
    if not shape:
        return
    index_map = data.draw(index_maps(shape, bijective=True))
    handle = BlockRV(block.block.id)
    try:
        sch.transform_block_layout(handle, index_map)
    except ScheduleError as error:
        names = ("kinds_stay_apart", "loops_are_iterators", "bijective_map", "order_of_accesses")
        assert any(name in str(error) for name in names), error
        return
    same_at_both_levels(func, sch.func)


def test_a_number_counts_what_the_signature_lists() -> None:
    """A buffer that is declared and not touched keeps its number: a reader counts the entries of `T.reads`."""
    func = minitvm.script.from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.remap("S", [i])
            T.reads(C[vi], A[vi])
            T.writes(B[vi])
            B[vi] = A[vi]
""")
    sch = Schedule(func)
    sch.transform_layout("B", ("read", 1), lambda i: (i // 2, i % 2))
    assert [b.name for b in sch.func.buffers if len(b.shape) == 2] == ["A"]
    with pytest.raises(ScheduleError, match="loads and stores of C at single elements"):
        Schedule(func).transform_layout("B", ("read", 0), lambda i: (i,))
    with pytest.raises(ScheduleError, match=r'\("read", 0\): C, \("read", 1\): A, \("write", 0\): B'):
        Schedule(func).transform_layout("B", ("read", 2), lambda i: (i,))
