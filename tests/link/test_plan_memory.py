"""Memory planning: what lives together never overlaps, and values that do not share."""

from __future__ import annotations

from random import Random
from typing import Any

from minitvm.expr import Expr, SizeVar
from minitvm.link.plan_memory import Lifetime, plan_memory
from minitvm.reference.meaning.scalar import evaluate

N, M = SizeVar("n"), SizeVar("m")


SEEDS = 400


def lifetimes(rng: Random, symbolic: bool = False) -> list[Lifetime]:
    """Values of many sizes, or of one or two: these take turns at the same places again and again."""
    few = [a_size(rng, symbolic) for _ in range(rng.choice([1, 2]))] if rng.random() < 0.5 else None
    values = []
    for k in range(rng.randint(0, 14)):
        first = rng.randint(0, 12)
        # Most live shortly, so that several of one size take turns at one place.
        last = min(12, first + rng.choice([0, 0, 1, 2, 4, 12]))
        size = a_size(rng, symbolic) if few is None else rng.choice(few)
        values.append(Lifetime(f"v{k}", size, first, last))
    return values


def a_size(rng: Random, symbolic: bool) -> Any:
    """A constant size, or a symbolic one: planned in a unit that others have as well, or alone."""
    if not symbolic or rng.random() < 0.3:
        return rng.randint(0, 500)
    unit: Any = rng.choice([N, N, M, N * M, M * N, N // 2 * M])
    return unit * rng.choice([4, 4, 8, 512, 600, 1024, 1100])


def number(value: Any, n: int) -> int:
    return int(evaluate(value, {N: n, M: 3})) if isinstance(value, Expr) else int(value)


def check_plan(values: list[Lifetime], n: int) -> int:
    """The size of the plan, after checking it for one value of n."""
    plan = plan_memory(values)
    size = number(plan.size, n)
    spans = [(number(at, n), number(v.nbytes, n)) for at, v in zip(plan.offsets, values, strict=True)]
    assert all(start % 64 == 0 and start + length <= size for start, length in spans)
    for i, (a, one) in enumerate(zip(values, spans, strict=True)):
        for b, other in zip(values[i + 1 :], spans[i + 1 :], strict=True):
            apart = one[0] + one[1] <= other[0] or other[0] + other[1] <= one[0]
            assert apart or not a.meets(b) or 0 in (one[1], other[1]), f"{a} and {b} overlap"
    return size


def test_what_lives_together_does_not_overlap() -> None:
    for seed in range(SEEDS):
        values = lifetimes(Random(seed))
        size = check_plan(values, 0)
        plan = plan_memory(values)
        sizes = [-(-int(v.nbytes) // 64) * 64 for v in values]  # type: ignore[arg-type]
        live = [sum(n for n, v in zip(sizes, values) if v.first <= step <= v.last) for step in range(13)]
        assert plan.lower_bound == max(live) <= size <= sum(sizes), seed


def symbolic_sizes_do_not_overlap_for_any_value() -> None:
    for seed in range(SEEDS):
        rng = Random(seed)
        check_plan(lifetimes(rng, symbolic=True), rng.choice([0, 1, 2, 7, 63, 64, 99]))


def test_symbolic_sizes_do_not_overlap_for_any_value() -> None:
    symbolic_sizes_do_not_overlap_for_any_value()


def test_a_chain_needs_two_places() -> None:
    values = [Lifetime(f"v{k}", 1000, k, k + 1) for k in range(10)]
    assert plan_memory(values).size == 2 * 1024


def test_a_small_value_takes_the_tightest_gap() -> None:
    values = [
        Lifetime("wall", 640, 0, 9),
        Lifetime("early", 512, 0, 1),
        Lifetime("late", 256, 2, 9),
        Lifetime("small", 256, 3, 5),
    ]
    assert plan_memory(values).size == plan_memory(values).lower_bound == 640 + 512


def test_equal_symbolic_sizes_share_a_place() -> None:
    values = [Lifetime(f"v{k}", N * 4, 2 * k, 2 * k + 1) for k in range(3)]
    plan = plan_memory(values)
    assert {number(at, 100) for at in plan.offsets} == {0}
    assert number(plan.size, 100) == 448


def test_multiples_of_a_symbolic_size_are_planned_like_constants() -> None:
    """A network of open batch needs as much memory for each image as the network of one image."""
    sizes = [3000, 12000, 4000, 12000, 2000, 4000, 1000]
    chains = [[Lifetime(f"v{k}", unit * s, k, k + 1) for k, s in enumerate(sizes)] for unit in (1, N, N * M)]
    one, images, squares = map(plan_memory, chains)
    assert number(images.size, 7) == 7 * one.size
    assert number(squares.size, 7) == 21 * one.size
