"""Whether a scheduled function still means what it did."""

from __future__ import annotations

from minitvm.reference import check
from minitvm.tir import PrimFunc
from minitvm.tir.analysis.threads import thread_reduction
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule.testing import verify_trace_roundtrip
from minitvm.tir.transform import lower


def same_at_both_levels(before: PrimFunc, after: PrimFunc) -> None:
    """The two functions write the same values, the second as loops and, where lowering takes it, as kernels."""
    for version in (after,) if thread_reduction(after) else (after, lower(after)):
        verdict = check(before, version)
        assert verdict, f"{verdict}\n{before.script()}\n{after.script()}"


def same_meaning(before: PrimFunc, sch: Schedule) -> None:
    """The scheduled function means what `before` did at both levels, and its trace replays as Python and as JSON."""
    same_at_both_levels(before, sch.func)
    verify_trace_roundtrip(sch, before)
