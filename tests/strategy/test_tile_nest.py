"""Tiles of a sum, level by level: any sizes and orders keep the meaning, and the levels are nested as the rule says."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from minitvm import reference, te, tir, topi
from minitvm.machines.gpu.strategy.grid import over_blocks_of_threads
from minitvm.strategy.epilogues import epilogue
from minitvm.strategy.tile_nest import LANES, LEVELS, REGISTERS, THREADS, VIRTUAL, TileNest

SIZES = st.dictionaries(st.sampled_from(LEVELS[:3]), st.integers(1, 3))


def nest_of(m: int, n: int, k: int) -> tuple[tir.PrimFunc, TileNest]:
    """A product of matrices with an epilogue."""
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    func = te.create_prim_func([a, b, topi.relu(topi.matmul(a, b))])
    sch = tir.Schedule(func)
    block = sch.get_block("T_matmul_NN")
    return func, TileNest(sch, block, epilogue(sch, block))


def accumulated(nest: TileNest, own: list[Any], steps: list[Any]) -> None:
    nest.sch.reorder(*steps, *own)
    nest.start(steps[0])
    nest.in_registers(own, vectors=False)


@settings(derandomize=True, deadline=None, max_examples=8, phases=[Phase.generate])
@given(st.data())
def test_tiles_of_any_sizes_keep_the_meaning(data: Any) -> None:
    func, nest = nest_of(*(data.draw(st.integers(1, 7)) for _ in range(3)))
    for axis in data.draw(st.permutations([0, 1])):
        nest.cut(axis, **data.draw(SIZES))
    nest.order(data.draw(st.permutations([0, 1])))
    accumulated(nest, *nest.axes_and_steps(nest.sum_in_tile()))
    verdict = reference.check(func, nest.sch.func, modes=["exact"])
    assert verdict.equal, str(verdict)


def test_levels_are_nested_from_the_grid_to_the_lanes() -> None:
    func, nest = nest_of(24, 64, 5)
    nest.cut(1, virtual=2, threads=4, lanes=4)
    nest.cut(0, threads=3, registers=2)
    nest.order([1, 0])
    loops = [loop for level in (VIRTUAL, THREADS, REGISTERS, LANES) for loop in nest.at(level)]
    assert list(nest.sch.get_loops(nest.main)) == [*nest.tiles, *loops]
    assert [len(nest.at(level)) for level in LEVELS] == [1, 2, 1, 1]
    accumulated(nest, *nest.axes_and_steps(nest.sum_in_thread(over_blocks_of_threads(nest))))
    kernel = str(nest.sch.func)
    assert kernel.count("vthread") == kernel.count("threadIdx.x") == kernel.count("blockIdx.x") == 1
    assert nest.names() == {"T_matmul_NN_update", "T_matmul_NN_init", "T_relu"}
    verdict = reference.check(func, nest.sch.func, modes=["exact"])
    assert verdict.equal, str(verdict)


def test_an_axis_may_be_one_vector_and_others_stay_outside() -> None:
    func, nest = nest_of(6, 4, 3)
    nest.cut(0, registers=2)
    assert nest.outside_first([0]) == [1, 0]
    nest.one_vector(1)
    nest.order()
    assert len(nest.tiles) == 1 and len(nest.at(LANES)) == 1
    accumulated(nest, *nest.axes_and_steps(nest.sum_in_tile()))
    verdict = reference.check(func, nest.sch.func, modes=["exact"])
    assert verdict.equal, str(verdict)
