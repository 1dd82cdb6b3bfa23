"""Hypothesis strategies: random legal schedules, and pairs of a program and a schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from minitvm.tir.nodes import IRModule, PrimFunc
from minitvm.tir.schedule import Schedule

from .programs import prim_funcs

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Scheduled:
    """A program, and a schedule that began with it. It prints as a file that can be pasted and run."""

    before: PrimFunc
    schedule: Schedule

    @property
    def after(self) -> PrimFunc:
        """The scheduled function."""
        return self.schedule.func

    def __repr__(self) -> str:
        name = self.schedule.func_working_on
        return "\n".join(
            [
                "from minitvm import tir", "from minitvm.script import tir as T", "",
                self.before.script(with_header=False, name=name).strip("\n"), "",
                str(self.schedule.trace), "", f"sch = tir.Schedule({name})", "apply_trace(sch)",
            ]
        )  # fmt: skip

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def schedules(
    draw: Draw,
    program: PrimFunc | IRModule | st.SearchStrategy[Any],
    *primitives: str,
    min_steps: int = 0,
    max_steps: int = 6,
) -> Schedule:
    """Draw a schedule with up to `max_steps` legal steps of a program (or of one that a strategy draws).

    `primitives` names the primitives to use; by default it uses every registered one, also from outside the package. A
    step is drawn as a primitive and then as one of its legal calls. If nothing is legal on a program, the schedule ends
    early.
    """
    sch = Schedule(draw(program) if isinstance(program, st.SearchStrategy) else program, seed=0)
    # Draw the number first and then each step as one draw: Hypothesis lowers the number and leaves out a step.
    for _ in range(draw(st.integers(min_steps, max_steps))):
        draw(steps(sch, *primitives))
    return sch


@st.composite
def steps(draw: Draw, sch: Schedule, *primitives: str) -> str:
    """Make one more legal step on a schedule; return its text, or "" if nothing was legal."""
    call = sch.draw(lambda n: draw(st.integers(0, n - 1)), *primitives)
    if call is None:
        return ""
    sch.apply(call)
    return call.text


@st.composite
def scheduled(
    draw: Draw,
    programs: st.SearchStrategy[PrimFunc] | None = None,
    *primitives: str,
    min_steps: int = 0,
    max_steps: int = 6,
) -> Scheduled:
    """Draw a program (by default one of `prim_funcs()`) and a schedule of it, to be compared with each other."""
    func = draw(prim_funcs() if programs is None else programs)
    return Scheduled(func, draw(schedules(func, *primitives, min_steps=min_steps, max_steps=max_steps)))
