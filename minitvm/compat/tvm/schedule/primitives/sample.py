"""Random decisions, kept in the trace: sample_categorical, sample_perfect_tile, sample_partitioned_tile,
sample_compute_location; enter_postproc.

What is sampled is a handle for a number, to be used as a factor or annotation. On replay the decision is taken from the
trace instead; where it does not fit the loop (a trace of another shape), it is made to, as in TVM.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from .....errors import InputError, TypeMismatch
from .....expr import IntImm, Var
from .....tir.analysis.block_kinds import Scope
from .....tir.nodes import BlockRealize, For
from .....tir.schedule import programs as on
from .....tir.schedule.handles import INLINE, ROOT, PlaceKey, Sampled
from .....tir.schedule.registry import PRIMITIVES, Failure, Refused, primitive, requirement
from .....tir.schedule.state import ScheduleState

INLINE_LOCATION, ROOT_LOCATION = -2, -1  # TVM's numbers


@requirement
def constant_trip_count(state: ScheduleState, loop: For) -> Failure | None:
    """the extent is a constant of at least 1, because its divisors are sampled"""
    if isinstance(loop.extent, IntImm) and loop.extent.value >= 1:
        return None
    return Failure({loop: "this loop"}, "a constant extent, at least 1", f"{loop.var.name} runs {loop.extent} times")


_MOST_FACTORS = 1024  # each becomes a handle


@requirement
def tile_count(state: ScheduleState, loop: For, n: int) -> Failure | None:
    """the number of factors, n, is from 1 to 1024"""
    if 1 <= n <= _MOST_FACTORS:
        return None
    return Failure({loop: ""}, f"n, the number of factors, at least 1 and at most {_MOST_FACTORS}", str(n))


@requirement
def innermost_fits(state: ScheduleState, loop: For, n: int, max_innermost_factor: int) -> Failure | None:
    """max_innermost_factor is at least 1, or -1 for no limit; if n is 1, it is at least the extent"""
    extent = _extent(loop)
    if max_innermost_factor == -1 or (max_innermost_factor >= 1 and (n > 1 or extent <= max_innermost_factor)):
        return None
    if max_innermost_factor < 1:
        return Failure({loop: ""}, "max_innermost_factor at least 1, or -1 for any", str(max_innermost_factor))
    fault = f"one factor, which is {extent}, and max_innermost_factor={max_innermost_factor}"
    return Failure({loop: ""}, "an innermost factor that may be as large as needed", fault, ("n=2",))


@requirement
def tile_decision(state: ScheduleState, loop: For, n: int, decision: list[int] | None) -> Failure | None:
    """a decision consists of n positive factors"""
    if decision is None or (len(decision) == n and all(factor >= 1 for factor in decision)):
        return None
    return Failure({loop: ""}, f"a decision of {n} positive factors", str(decision))


@requirement
def partition_fits(
    state: ScheduleState, loop: For, n: int, partition_pos: int, innerpart_factor: int
) -> Failure | None:
    """0 <= partition_pos <= n; innerpart_factor divides the extent, and is 1 if partition_pos is n"""
    if not 0 <= partition_pos <= n:
        return Failure({loop: ""}, f"partition_pos from 0 to {n}", str(partition_pos))
    extent = _extent(loop)
    if innerpart_factor < 1 or extent % innerpart_factor:
        return Failure({loop: ""}, f"an innerpart_factor that divides {extent}", str(innerpart_factor))
    if partition_pos == n and innerpart_factor > 1:
        return Failure(
            {loop: ""}, f"partition_pos below {n}: factors that make up {innerpart_factor}", str(partition_pos)
        )
    return None


@requirement
def distribution(state: ScheduleState, candidates: Sequence[int], probs: Sequence[float]) -> Failure | None:
    """there is a probability for each candidate; none is negative, and their sum is finite and above zero"""
    if not candidates or len(candidates) != len(probs):
        fault = f"{len(candidates)} candidates, {len(probs)} probabilities"
        return Failure({}, "one probability for each of at least one candidate", fault)
    if all(p >= 0 for p in probs) and 0 < sum(probs) < math.inf:
        return None
    return Failure({}, "probabilities of zero or more, with a sum above zero", str(list(probs)))


@requirement
def candidate_decision(state: ScheduleState, candidates: Sequence[int], decision: int | None) -> Failure | None:
    """a decision is the position of a candidate"""
    if decision is None or 0 <= decision < len(candidates):
        return None
    return Failure({}, f"a decision from 0 to {len(candidates) - 1}", str(decision))


@requirement
def location_decision(state: ScheduleState, block: BlockRealize, decision: int | None) -> Failure | None:
    """a decision is -2 (inline), -1 (where the block is) or the position of a loop around its consumer, and is a place
    where the block can be computed
    """
    possible = [number for number, _ in locations(state, block)] if decision is not None else []
    if decision is None or decision in possible:
        return None
    return Failure({block.block: "this block"}, f"one of {', '.join(map(str, possible))}", str(decision))


def _extent(loop: For) -> int:
    return loop.extent.value if isinstance(loop.extent, IntImm) else 0


@primitive(query=True, requires=[distribution, candidate_decision])
def sample_categorical(
    state: ScheduleState, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
) -> Sampled:
    """Choose one of the candidates at random, with the probabilities `probs`. The decision is the candidate's position.

    call: `v = sch.sample_categorical([0, 16, 64], [0.2, 0.3, 0.5])`
    """
    position = state.random.weighted([float(p) for p in probs]) if decision is None else decision
    return Sampled(int(candidates[position]), position)


sample_categorical.refuses(distribution, "sch.sample_categorical([1, 2], [1.0])", on.MATMUL)
sample_categorical.refuses(candidate_decision, "sch.sample_categorical([1, 2], [0.5, 0.5], decision=2)", on.MATMUL)


@primitive(query=True, requires=[constant_trip_count, tile_count, innermost_fits, tile_decision])
def sample_perfect_tile(
    state: ScheduleState, loop: For, n: int, max_innermost_factor: int = 16, decision: list[int] | None = None
) -> Sampled:
    """Choose n factors of a loop's extent, outermost first. The last factor is at most `max_innermost_factor`.

    call: `a, b, c = sch.sample_perfect_tile(i, n=3)`

    If you pass a decision that does not divide the extent, it is reduced to factors that do, from the innermost factor
    outward.
    """
    extent = _extent(loop)
    if decision is not None:
        return _tile(_made_perfect(decision, extent))
    most = extent if max_innermost_factor == -1 else max_innermost_factor
    if n == 1:
        return _tile([extent])
    inner = [d for d in range(1, min(extent, most) + 1) if extent % d == 0]
    last = inner[state.random.below(len(inner))]
    return _tile([*_scattered(state, extent // last, n - 1), last])


sample_perfect_tile.refuses(constant_trip_count, "sch.sample_perfect_tile(i, 2)", on.SYMBOLIC_MATMUL)
sample_perfect_tile.refuses(tile_count, "sch.sample_perfect_tile(i, 0)", on.MATMUL)
sample_perfect_tile.refuses(innermost_fits, "sch.sample_perfect_tile(i, 1, 4)", on.MATMUL)
sample_perfect_tile.refuses(tile_decision, "sch.sample_perfect_tile(i, 2, decision=[2, 2, 2])", on.MATMUL)


@primitive(query=True, requires=[constant_trip_count, tile_count, partition_fits, tile_decision])
def sample_partitioned_tile(
    state: ScheduleState,
    loop: For,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    decision: list[int] | None = None,
) -> Sampled:
    """Choose n factors of a loop's extent. `innerpart_factor` divides the product of factors `partition_pos` to n - 1.

    call: `a, b, c, d = sch.sample_partitioned_tile(i, n=4, partition_pos=2, innerpart_factor=16)`
    """
    extent = _extent(loop)
    if decision is not None:
        factors = _made_perfect(decision, extent)
        if math.prod(factors[partition_pos:]) % innerpart_factor:
            factors = [extent // innerpart_factor, *[1] * (n - 2), innerpart_factor]
        return _tile(factors)
    factors = _scattered(state, extent // innerpart_factor, n)
    if partition_pos < n:
        inner = _scattered(state, innerpart_factor, n - partition_pos)
        factors[partition_pos:] = [a * b for a, b in zip(factors[partition_pos:], inner, strict=True)]
    return _tile(factors)


sample_partitioned_tile.refuses(constant_trip_count, "sch.sample_partitioned_tile(i, 2)", on.SYMBOLIC_MATMUL)
sample_partitioned_tile.refuses(tile_count, "sch.sample_partitioned_tile(i, 0)", on.MATMUL)
sample_partitioned_tile.refuses(
    partition_fits, "sch.sample_partitioned_tile(i, 3, partition_pos=1, innerpart_factor=3)", on.MATMUL
)
sample_partitioned_tile.refuses(tile_decision, "sch.sample_partitioned_tile(i, 2, decision=[2, 2, 2])", on.MATMUL)


@primitive(query=True, requires=[location_decision])
def sample_compute_location(state: ScheduleState, block: BlockRealize, decision: int | None = None) -> Sampled:
    """Choose a place for a block, for `compute_at`: inline, where it is now, or a loop around its consumer.

    call: `loop = sch.sample_compute_location("B"); sch.compute_at("B", loop)`

    The decision is -2 to inline the block, -1 to leave it where it is (`compute_at` then does nothing), or the position
    of a loop among the loops around the first consumer. minitvm chooses only among legal places.
    """
    possible = locations(state, block)
    number = possible[state.random.below(len(possible))][0] if decision is None else decision
    return Sampled(dict(possible)[number], number)


sample_compute_location.refuses(location_decision, "sch.sample_compute_location('B', decision=5)", on.CHAIN)


def locations(state: ScheduleState, block: BlockRealize) -> list[tuple[int, Var]]:
    """Where a block can be computed, by TVM's numbers: the keys of loops, and of places that are not loops."""
    places: list[tuple[int, Var]] = []
    if _legal(state, "compute_inline", {"block": block}):
        places.append((INLINE_LOCATION, PlaceKey(INLINE)))
    places.append((ROOT_LOCATION, PlaceKey(ROOT)))
    tree = state.home(block)
    if block is tree.root:
        return places
    consumers = Scope.around(tree, block).consumers(block)
    for number, loop in enumerate(tree.loops_above(consumers[0]) if consumers else []):
        arguments = {"block": block, "loop": loop, "preserve_unit_loops": False, "index": -1}
        if _legal(state, "compute_at", arguments):
            places.append((number, loop.var))
    return places


def _legal(state: ScheduleState, name: str, arguments: dict[str, Any]) -> bool:
    try:
        PRIMITIVES[name].run(ScheduleState(state.mod, state.func_name, state.trees), arguments)
    except (Refused, InputError, TypeMismatch):
        return False
    return True


def _tile(factors: list[int]) -> Sampled:
    return Sampled(factors, factors)


def _made_perfect(decision: Sequence[int], extent: int) -> list[int]:
    """The decided factors where they divide what is left, from the innermost outward; the outermost takes the rest."""
    factors, left = [], extent
    for factor in reversed(decision[1:]):
        factors.append(factor if left % factor == 0 else left)
        left //= factors[-1]
    return [left, *reversed(factors)]


def _scattered(state: ScheduleState, extent: int, n: int) -> list[int]:
    """n factors of an extent: each of its prime factors at a place of its own, all places alike."""
    factors = [1] * n
    for prime in _primes(extent):
        factors[state.random.below(n)] *= prime
    return factors


def _primes(number: int) -> Iterator[int]:
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            yield divisor
            number //= divisor
        divisor += 1
    if number > 1:
        yield number


@primitive()
def enter_postproc(state: ScheduleState) -> None:
    """Mark the beginning of postprocessing in the trace; `remove_postproc` removes the steps after it.

    before:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    call: `sch.enter_postproc()`
    after:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    """


@enter_postproc.space
def _enter_postproc_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    yield ()
