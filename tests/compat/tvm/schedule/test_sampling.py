"""Random decisions: what is sampled, how traces keep and change it, and that seeds decide it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import InputError, ScheduleError
from minitvm.reference import check
from minitvm.reference.strategies import prim_funcs
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Instruction, Schedule, Trace
from minitvm.tir.schedule.randomness import RandomNumbers
from tests.fewer import examples
from tests.tir.schedule import programs


def tiled(seed: int, func: PrimFunc | None = None) -> Schedule:
    """A matmul with sampled tiles, an annotation with a sampled number, and a parallel loop as postprocessing."""
    sch = Schedule(func or programs.matmul(48, 64, 32), seed=seed)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, *_ = sch.split(i, sch.sample_perfect_tile(i, n=3))
    width = sch.sample_categorical([4, 8], [0.25, 0.75])
    sch.split(j, [None, width * 2])
    sch.split(k, sch.sample_partitioned_tile(k, n=3, partition_pos=1, innerpart_factor=8))
    sch.annotate(block, "width", width + 1)
    sch.enter_postproc()
    sch.parallel(i0)
    return sch


def sampling(sch: Schedule) -> list[Instruction]:
    return [inst for inst in sch.trace if inst.decision is not None]


def test_a_seed_decides_everything() -> None:
    texts = {seed: str(tiled(seed).trace) for seed in range(8)}
    assert texts == {seed: str(tiled(seed).trace) for seed in range(8)}
    assert len(set(texts.values())) > 4
    sch = Schedule(programs.matmul(), seed=3)
    assert sch.fork_seed() != sch.fork_seed()
    sch.seed(3)
    first = sch.fork_seed()
    sch.seed(3)
    assert sch.fork_seed() == first


def test_the_generator_is_the_minimal_standard_one() -> None:
    """Park and Miller give the 10,000th number of their generator with 48271 from 1: 399268537."""
    numbers = RandomNumbers(1)
    for _ in range(9999):
        numbers.next()
    assert numbers.next() == 399268537


@given(st.integers(1, 300), st.integers(1, 5), st.sampled_from([-1, 1, 4, 16, 64]), st.integers(1, 1000))
def test_perfect_tiles(extent: int, n: int, most: int, seed: int) -> None:
    sch = Schedule(programs.matmul(extent, 2, 2), seed=seed)
    i, *_ = sch.get_loops("C")
    if n == 1 and 0 < most < extent:
        with pytest.raises(ScheduleError, match="innermost_fits"):
            sch.sample_perfect_tile(i, n, most)
        return
    factors = [sch.get(v) for v in sch.sample_perfect_tile(i, n, most)]
    assert len(factors) == n
    assert math.prod(factors) == extent
    assert most == -1 or factors[-1] <= most


@given(st.integers(1, 40), st.integers(1, 8), st.integers(2, 5), st.data())
def test_partitioned_tiles(rest: int, inner: int, n: int, data: Any) -> None:
    position = data.draw(st.integers(0, n - 1))
    sch = Schedule(programs.matmul(rest * inner, 2, 2), seed=data.draw(st.integers(1, 1000)))
    i, *_ = sch.get_loops("C")
    factors = [sch.get(v) for v in sch.sample_partitioned_tile(i, n, position, inner)]
    assert math.prod(factors) == rest * inner
    assert math.prod(factors[position:]) % inner == 0


def test_every_tile_and_candidate_is_reached() -> None:
    sch = Schedule(programs.matmul(8, 2, 2), seed=5)
    i, *_ = sch.get_loops("C")
    seen = {tuple(sch.get(v) for v in sch.sample_perfect_tile(i, 2)) for _ in range(200)}
    assert seen == {(1, 8), (2, 4), (4, 2), (8, 1)}
    drawn = [sch.get(sch.sample_categorical([10, 20, 30], [0.7, 0.3, 0.0])) for _ in range(400)]
    assert set(drawn) == {10, 20}
    assert 220 < drawn.count(10) < 340


def test_sampled_numbers_are_factors_and_annotations() -> None:
    sch = tiled(1)
    verdict = check(programs.matmul(48, 64, 32), sch.func)
    assert verdict, str(verdict)
    (width,) = sampling(sch)[1].outputs
    assert sch.get(width) in (4, 8)
    assert sch.get(width * 3 + 1) == sch.get(width) * 3 + 1
    assert sch.get(sch.get_block("C")).annotations == {"width": sch.get(width) + 1}
    with pytest.raises(ScheduleError, match="not part of this schedule"):
        Schedule(programs.matmul()).get(width)
    verify_trace_roundtrip(sch, programs.matmul(48, 64, 32))


def test_decisions_are_saved_by_position() -> None:
    sch = tiled(2)
    rows, decisions = sch.trace.as_json()
    kinds = [rows[index][0] for index, _ in decisions]
    assert kinds == ["SamplePerfectTile", "SampleCategorical", "SamplePartitionedTile"]
    assert rows[2] == ["SamplePerfectTile", ["l1"], [3, 16], ["v4", "v5", "v6"]]
    assert ["Annotate", ["b0", "v10 + 1"], ["width"], []] in rows
    assert Trace.from_json(sch.trace.dumps()).as_json() == sch.trace.as_json()


def test_a_decision_is_mutated() -> None:
    func = programs.matmul(48, 64, 32)
    sch = tiled(1)
    tile = sampling(sch)[0]
    mutant = sch.trace.with_decision(tile, [3, 4, 4], remove_postproc=True)
    assert [inst.primitive.name for inst in mutant][-1] == "annotate"
    other = Schedule(func)
    mutant.apply_to_schedule(other)
    assert [sch.get(loop).extent.value for loop in sch.get_loops("C")][:3] != [3, 4, 4]
    assert [other.get(loop).extent.value for loop in other.get_loops("C")][:3] == [3, 4, 4]
    assert sch.trace.get_decision(tile) != [3, 4, 4]
    with pytest.raises(InputError, match="get_block decides nothing"):
        sch.trace.with_decision(next(iter(sch.trace)), 1, remove_postproc=False)


def test_a_decision_provider_overrules() -> None:
    asked: list[str] = []

    def provide(inst: Instruction, inputs: Any, attrs: Any, decision: Any) -> Any:
        asked.append(inst.primitive.name)
        return 0 if inst.primitive.name == "sample_categorical" else None  # None: sampled anew

    other = Schedule(programs.matmul(48, 64, 32), seed=9)
    tiled(1).trace.apply_to_schedule(other, decision_provider=provide)
    assert asked == ["sample_perfect_tile", "sample_categorical", "sample_partitioned_tile"]
    assert sampling(other)[1].decision == 0


def test_decisions_adapt_to_another_shape() -> None:
    other = Schedule(programs.matmul(20, 64, 8))
    tiled(1, programs.matmul(48, 64, 32)).trace.apply_to_schedule(other)
    assert check(programs.matmul(20, 64, 8), other.func)
    first = sampling(other)[0]
    assert math.prod(first.decision) == 20


def test_postprocessing_and_dead_steps_are_left_out() -> None:
    sch = tiled(1)
    sch.get_loops("C")
    names = [inst.primitive.name for inst in sch.trace.simplified(remove_postproc=True)]
    assert names[-1] == "annotate"
    assert names.count("get_loops") == 1
    unused = Schedule(programs.matmul())
    unused.sample_categorical([1, 2], [0.5, 0.5])
    unused.parallel(unused.get_loops("C")[0])
    assert [inst.primitive.name for inst in unused.trace.simplified()] == ["get_block", "get_loops", "parallel"]


@pytest.mark.parametrize("decision", [-2, -1, 0, 1])
def test_compute_locations(decision: int) -> None:
    func = programs.chain()
    sch = Schedule(func)
    loop = sch.sample_compute_location("B", decision=decision)
    sch.compute_at("B", loop)
    names = [b.block.name for b in sch.state.tree().blocks.values()]
    assert ("B" in names) == (decision != -2)
    if decision >= 0:
        assert sch.get_loops("B")[decision] == sch.get_loops("C")[decision]
    else:
        assert sch.get(loop) is None
        with pytest.raises(ScheduleError, match="is no loop"):
            sch.parallel(loop)
    assert check(func, sch.func)
    verify_trace_roundtrip(sch, func)


def test_a_loop_around_only_one_of_two_consumers_is_no_place() -> None:
    sch = Schedule(programs.two_consumers())
    with pytest.raises(ScheduleError) as refused:
        sch.sample_compute_location("B", decision=0)
    assert refused.value.requirement == "location_decision"


def test_a_refused_sampling_takes_no_random_number() -> None:
    sch, same = (Schedule(programs.matmul(), seed=4) for _ in range(2))
    with pytest.raises(ScheduleError, match="distribution"):
        sch.sample_categorical([], [])
    assert sch.fork_seed() == same.fork_seed()


@examples(15)
@given(prim_funcs(), st.integers(1, 1000), st.data())
def test_sampled_schedules_keep_the_meaning_and_replay(func: PrimFunc, seed: int, data: Any) -> None:
    sch = Schedule(func, seed=seed)
    for block in list(sch.state.tree().blocks.values())[1:]:
        name = block.block.name
        if data.draw(st.booleans()):
            sch.compute_at(name, sch.sample_compute_location(name))
        if all(name != b.block.name for b in sch.state.tree().blocks.values()):
            continue
        loop = data.draw(st.sampled_from(sch.get_loops(name)))
        sch.split(loop, sch.sample_perfect_tile(loop, n=data.draw(st.integers(2, 3))))
    verdict = check(func, sch.func)
    assert verdict, f"{verdict}\n{func}\n{sch.trace}"
    verify_trace_roundtrip(sch, func)
