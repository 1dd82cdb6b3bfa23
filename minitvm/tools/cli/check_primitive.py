"""`minitvm check FILE.py` for a file that registers schedule primitives: everything that a registration implies is
tested.

First the docstring's example, its trace as Python and as JSON, and a bad call for each requirement. Then legal calls
from the primitive's `space`, each compared by the oracle as loops and lowered to kernels: all of them on small programs
whose order of iterations matters, and some on random programs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ...errors import InternalError, MinitvmError, MissingExtra
from .difference import indented, line
from .progress import Report, progress

if TYPE_CHECKING:
    from ...tir.schedule import Primitive

PAIRS = 200  # of a program and a legal call


def check_primitive(primitive: Primitive, seed: int) -> Iterator[tuple[str, bool]]:
    """A line for each thing that a registration implies: its text, and whether it holds."""
    for name, prove in _PROOFS.items():
        start = time.perf_counter()
        try:
            with progress(f"{primitive.name}: {name}") as report:
                text, right = prove(primitive, seed, report), True
        except MissingExtra:
            raise
        except MinitvmError as error:
            text, right = indented(error), False
        yield line(name, "ok" if right else "WRONG", text, time.perf_counter() - start), right
        if name == "order" and not right:
            return  # a random program would show the same, and take longer


def _example(primitive: Primitive, seed: int, report: Report) -> str:
    from ...compat.tvm.schedule.testing import verify_trace_roundtrip
    from ...tir.schedule.examples import example_program, verify_example

    verify_trace_roundtrip(verify_example(primitive), example_program(primitive))
    return "the docstring's call makes what it shows; its trace runs as Python and as JSON"


def _refusals(primitive: Primitive, seed: int, report: Report) -> str:
    from ...tir.schedule.examples import gallery

    return f"{len(gallery(primitive))} of {len(primitive.requires)} requirements refuse their bad call"


# Requirements that look at dependences, and the primitives that need one like it.
_LOOKING = {
    "keeps_dependences": "if iterations of loops run in another order",
    "no_races": "if iterations run at the same time",
    "inputs_settled": "if a block runs at another place",
    "keeps_order_of_nests": "if nests become one",
}


def _order(primitive: Primitive, seed: int, report: Report) -> str:
    from ...reference.strategies import looks_at_dependences, try_pinned

    if primitive.calls is None:
        space = f"a function under @{primitive.name}.space"
        raise InternalError(f"{primitive.name} has no space of calls\n  wanted: {space}")
    looking = looks_at_dependences(primitive.name)
    unaware = f"no requirement of {primitive.name} looks at dependences. If it changes when iterations run, add one:"
    advice = "\n".join([unaware, *(f"  {name}: {when}" for name, when in _LOOKING.items())])
    try:
        tried = try_pinned(primitive.name, lambda done, total: report("programs with dependences", done, total))
    except InternalError as error:
        raise error if looking else InternalError(f"{error}\n{advice}") from None
    kept_meaning = f"{tried.calls} legal calls on {tried.programs} programs with dependences keep the meaning"
    return kept_meaning if looking else f"{kept_meaning}\n    warning: {indented(advice)}"


def _random(primitive: Primitive, seed: int, report: Report) -> str:
    from ...reference.strategies import draw_pairs

    drawn = draw_pairs(
        primitive.name, PAIRS, seed=seed, progress=lambda done: report("calls on random programs", done, PAIRS)
    )
    if not drawn.pairs:
        drawn_calls = f"{drawn.calls} legal calls in {drawn.programs} random programs, none of them judged"
        space = "a space of calls that are worth trying on programs such as those of `minitvm.reference.strategies`"
        raise InternalError(f"{primitive.name}: {drawn_calls}\n  wanted: {space}")
    drawn_on = f"{drawn.pairs} legal calls on {drawn.programs} random programs"
    kept_meaning = f"{drawn_on} keep the meaning, as loops and as kernels"
    if drawn.pairs >= PAIRS:
        return kept_meaning
    return f"{kept_meaning}\n    fewer than {PAIRS}: its space has no more legal calls on these programs"


_PROOFS: dict[str, Callable[[Primitive, int, Report], str]] = {
    "example": _example, "refusals": _refusals, "order": _order, "random": _random,
}  # fmt: skip
