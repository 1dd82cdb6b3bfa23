"""What judges a mutant: programs, drawn or directed, whose meaning must stay, and the ways to see that it did not.

A workload draws programs with a fixed seed, so many of them, and compares each with what the compiler made of it:
`reference.check` at the level of loop programs and of kernels, the interpreter of executables, or compiled code beside
the interpreter. The verifiers run between the steps. A fault is *noticed* when a comparison differs, a program turns
out undefined (`ExecutionError`), a verifier complains (`VerificationError`), or a schedule refuses to begin with blocks
that declare too little. Any other exception on a drawn program is a crash: it is counted apart, and does not count as
noticed. A test of the suite that runs as a workload notices a fault if it fails, whatever it raises.

Nothing here looks at a clock: the same fault is noticed at the same draw in every run.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from minitvm.errors import ExecutionError, ScheduleError, VerificationError
from minitvm.reference import check
from minitvm.reference.strategies.enough import Enough

SEED = 20
# The requirement under which no schedule begins, of a program that a fault has made.
FALSE_CLAIM = "declares_what_it_touches"


class Noticed(Exception):
    """The programs differ."""

    def __init__(self, mode: str, text: str) -> None:
        super().__init__(text)
        self.mode = mode


@contextlib.contextmanager
def failing(mode: str, test: str) -> Iterator[None]:
    """Run a test of the suite: a failure notices the fault, because each of these tests passes without one."""
    try:
        yield
    except (Noticed, ExecutionError, VerificationError, HypothesisException):
        raise
    except (Exception, pytest.fail.Exception) as failure:
        raise Noticed(mode, f"{test}: {type(failure).__name__}: {failure}") from failure


@dataclass
class Trial:
    """What came of running workloads in this process, so far. `most` draws of each workload, if not all that it has."""

    most: int | None = None
    draws: int = 0  # of the present workload
    compared: int = 0  # programs, in all
    mode: str = ""  # what noticed, "" for nothing yet
    text: str = ""
    workload: str = ""
    crashes: list[str] = field(default_factory=list)

    def over(self, limit: int) -> bool:
        """Whether the present workload has done enough."""
        return bool(self.mode) or self.draws >= min(limit, self.most or limit)

    def run(self, workloads: Sequence[Workload]) -> None:
        """Run workloads, one after the other, until something is noticed."""
        for workload in workloads:
            if self.mode:
                return
            self.workload, self.draws = workload.name, 0
            workload.run(self)

    def same(
        self, before: Any, after: Any, *, level: str, modes: Sequence[str] = ("exact", "shadow"), **options: Any
    ) -> None:
        """Compare two programs; `level` says what the second is."""
        self.compared += 1
        try:
            verdict = check(before, after, modes=modes, **options)
        except ExecutionError as error:
            raise Noticed(f"{level}, undefined", f"before the step: {error}") from error
        if not verdict:
            raise Noticed(f"{level}, {verdict.mode}", verdict.message)

    def attempt(self, step: Callable[[], None]) -> None:
        """Run one program's checks and keep what came of it."""
        self.draws += 1
        try:
            step()
        except Noticed as noticed:
            self.mode, self.text = noticed.mode, str(noticed)
        except VerificationError as error:
            self.compared += 1
            self.mode, self.text = "verifier", str(error)
        except ExecutionError as error:
            self.mode, self.text = "undefined", str(error)
        except ScheduleError as error:
            if error.requirement != FALSE_CLAIM:
                self.crashes.append(traceback.format_exc(limit=-4))
                return
            self.mode, self.text = "claims", str(error)
        except HypothesisException:
            raise
        except Exception:
            self.crashes.append(traceback.format_exc(limit=-4))


@dataclass(frozen=True)
class Workload:
    """Programs and their checks under a name; equal names are the same workload."""

    name: str
    run: Callable[[Trial], None] = field(compare=False)


def drawn(name: str, body: Callable[[Trial, Callable[[st.SearchStrategy[Any]], Any]], None], examples: int) -> Workload:
    """`body(trial, draw)` on so many draws, the same in every run."""

    def run(trial: Trial) -> None:
        @settings(
            max_examples=examples, database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @seed(SEED)
        @given(st.data())
        def each(data: Any) -> None:
            trial.attempt(lambda: body(trial, data.draw))
            if trial.over(examples):
                raise Enough("there are enough")

        with contextlib.suppress(Enough):
            each()

    return Workload(name, run)


def directed(name: str, cases: Callable[[], Sequence[Any]], body: Callable[[Trial, Any], None]) -> Workload:
    """`body(trial, case)` on given cases, which are looked up when they are needed."""

    def run(trial: Trial) -> None:
        known = cases()
        for case in known:
            if trial.over(len(known)):
                return
            trial.attempt(lambda case=case: body(trial, case))  # type: ignore[misc]

    return Workload(name, run)
