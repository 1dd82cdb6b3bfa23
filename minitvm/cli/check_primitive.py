"""`minitvm check FILE.py` for a file that registers schedule primitives: all that follows from a registration, tried.

The example of the docstring, its trace as Python and as JSON, a bad call for each requirement, and legal calls from the
primitive's `space` on random programs, each compared by the oracle as loops and lowered to kernels.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InternalError, MinitvmError, Unsupported, missing_extra

if TYPE_CHECKING:
    from ..tir import PrimFunc
    from ..tir.schedule import Primitive, Schedule

PAIRS = 200  # of a program and a legal call
PREPARATION = ("split", "reorder", "fuse", "compute_at", "cache_read")  # so that the programs are not all fresh ones


def check_primitive(primitive: Primitive, seed: int) -> Iterator[tuple[str, bool]]:
    """A line for each thing that follows from a registration: its text, and whether it is right."""
    for name, prove in _PROOFS.items():
        start = time.perf_counter()
        try:
            told, right = prove(primitive, seed), True
        except MinitvmError as error:
            told, right = str(error).replace("\n", "\n    "), False
        yield f"{name:<10} {'ok' if right else 'WRONG':<6} {told}, {time.perf_counter() - start:.1f} s", right


def _example(primitive: Primitive, seed: int) -> str:
    from ..tir.schedule.examples import example_program, verify_example
    from ..tir.schedule.testing import verify_trace_roundtrip

    verify_trace_roundtrip(verify_example(primitive), example_program(primitive))
    return "the docstring's call makes what it shows; its trace runs as Python and as JSON"


def _refusals(primitive: Primitive, seed: int) -> str:
    from ..tir.schedule.gallery import gallery

    return f"{len(gallery(primitive))} of {len(primitive.requires)} requirements refuse their bad call"


def _random(primitive: Primitive, seed: int) -> str:
    if primitive.calls is None:
        wanted = f"a function under @{primitive.name}.space"
        raise InternalError(f"{primitive.name} has no space of calls\n  wanted: {wanted}")
    drawn = draw_pairs(primitive.name, seed, PAIRS)
    if not drawn.calls:
        raise InternalError(
            f"{primitive.name}: no legal call in {drawn.programs} random programs\n  wanted: a space of calls that are "
            "worth trying on programs such as `minitvm.reference.strategies.prim_funcs()` draws"
        )
    return f"{drawn.calls} legal calls on {drawn.programs} random programs keep the meaning, as loops and as kernels"


_PROOFS: dict[str, Callable[[Primitive, int], str]] = {
    "example": _example, "refusals": _refusals, "random": _random,
}  # fmt: skip


@dataclass(slots=True)
class Drawn:
    """How many programs were tried, and how many legal calls of the primitive were made on them."""

    programs: int = 0
    calls: int = 0


class _Enough(KeyboardInterrupt):
    """What ends a Hypothesis test at once: it reports any other exception, and asks for the same draws again."""


def draw_pairs(name: str, seed: int, pairs: int) -> Drawn:
    """Make legal calls of a primitive on random programs, and compare before and after.

    Between them stand steps of other primitives, before and after, so that what one makes is what another takes. Raises
    `InternalError` with the smallest difference that was found: a program, its trace and the verdict, to be pasted.
    """
    try:
        import hypothesis
        from hypothesis import strategies as st
    except ImportError:
        raise missing_extra("hypothesis", "test") from None
    from ..reference.strategies import Scheduled, prim_funcs
    from ..tir.schedule import Schedule

    drawn = Drawn()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=4 * pairs, database=None, deadline=None, report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )  # fmt: skip
    @hypothesis.given(st.data())
    def chains(data: Any) -> None:
        func = data.draw(prim_funcs(min_blocks=1))
        sch, states = Schedule(func), [func]

        def step(*names: str) -> bool:
            call = sch.draw(lambda n: data.draw(st.integers(0, n - 1)), *names, tries=8)
            if call is not None:
                sch.apply(call)
                states.append(sch.func)
            return call is not None

        for _ in range(data.draw(st.integers(0, 2))):
            step(*PREPARATION)
        made = 0
        for _ in range(data.draw(st.integers(1, 3))):
            made += step(name)
        for _ in range(data.draw(st.integers(0, 2)) if made else 0):
            step("reorder", *PREPARATION)
        drawn.programs += 1
        drawn.calls += made
        if made:
            _require_equal(states, sch, Scheduled(func, sch))
        if drawn.calls >= pairs:
            raise _Enough

    try:
        chains()
    except _Enough:
        pass
    except InternalError as error:
        error.__notes__ = []  # Hypothesis's own words for the same
        raise
    return drawn


def _require_equal(states: list[PrimFunc], sch: Schedule, shown: object) -> None:
    """All programs of a chain mean the same: first against last, and step by step only where these differ."""
    found = _difference(states[0], states[-1])
    if not found:
        return
    culprit = next(
        (f"step {k}: {told}" for k, (a, b) in enumerate(itertools.pairwise(states), 1) if (told := _difference(a, b))),
        f"all steps together: {found}",
    )
    raise InternalError(f"another meaning after {culprit}\n\n{shown}")


def _difference(before: PrimFunc, after: PrimFunc) -> str:
    from ..reference import check
    from ..tir.transform import lower

    verdict = check(before, after, shrink=False)
    if not verdict:
        return f"as loops: {verdict}"
    try:
        kernels = lower(after)
    except Unsupported:
        return ""  # a GPU's threads: such loops have no kernel on a CPU
    verdict = check(before, kernels, shrink=False)
    return "" if verdict else f"as a kernel: {verdict}"
