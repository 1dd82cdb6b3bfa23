"""A profile as a table."""

from __future__ import annotations

from collections.abc import Sequence

from ...durations import duration, unit_of
from .report import Profile, Row

_HEAD = ("operator", "", "time", "GFLOP/s", "of peak", "MB", "FLOP/B", "bound by", "of bound", "waits", "computes")
_DISTURBED = 1.5
_LARGEST = 0.9  # seconds; longer programs are in milliseconds, too
_BUSY = (
    "the machine is busy: half of the runs took at least {:.1f} times as long as the best one. The times below are\n"
    "  the best of each operator's runs, but the machine's rates, and all shares of them, may be too low\n"
    "  try:    again when nothing else runs, or --runs 200"
)
_SHOWN = 2  # of the nodes or values of an operator that the model names


def table(profile: Profile, by_time: bool = True) -> str:
    """The machine, a line per operator, and the totals."""
    rows = sorted(profile.rows, key=lambda row: -row.seconds) if by_time else list(profile.rows)
    total = sum(row.seconds for row in rows) or 1.0
    unit, size = unit_of(min(total, _LARGEST))
    head = (_HEAD[0], unit, *_HEAD[2:])
    lines = [head, *(_line(row, total, size) for row in rows), _sum(profile, total, size)]
    inexact = any(not row.exact for row in rows)
    return "\n".join(
        [
            f"{profile.name}: {duration(profile.plain_seconds)} on {profile.machine}",
            *([_BUSY.format(profile.disturbance)] if profile.disturbance > _DISTURBED else []),
            "",
            *_aligned(lines),
            "",
            f"the best of {profile.runs} runs for each operator; the whole program, at best: "
            f"{duration(profile.plain_seconds)}, with time stamps {duration(profile.seconds)}",
            *(["<= : at most so much; only a run can tell"] if inexact else []),
            *(f"{row.operator} runs on the host: {row.refusal}" for row in rows if row.refusal),
        ]
    )


def _line(row: Row, total: float, unit: float) -> tuple[str, ...]:
    most = "" if row.exact else "<="
    bound = row.bound if row.bound != "memory" else row.source
    named = row.nodes or row.values
    return (
        row.operator,
        f"{row.seconds / unit:.3f}",
        f"{row.seconds / total:.1%}",
        f"{most}{row.rate / 1e9:.1f}" if row.flops else "-",
        f"{row.share_of_peak:.1%}" if row.flops else "-",
        f"{most}{row.bytes / 1e6:.3f}",
        f"{row.intensity:.2f}" if row.flops else "-",
        bound,
        f"{row.share_of_bound:.1%}" if row.bytes else "-",
        f"{row.waiting:.0%}",
        ", ".join(named[:_SHOWN]) + (", ..." if len(named) > _SHOWN else ""),
    )


def _sum(profile: Profile, total: float, unit: float) -> tuple[str, ...]:
    moved = sum(row.bytes for row in profile.rows)
    least = sum(row.bound_seconds for row in profile.rows)
    waiting = sum(row.waiting * row.seconds for row in profile.rows) / total
    rate = profile.flops / total
    return (
        "all", f"{total / unit:.3f}", "100.0%", f"{rate / 1e9:.1f}", f"{rate / profile.machine.peak:.1%}",
        f"{moved / 1e6:.3f}", f"{profile.flops / max(moved, 1):.2f}", "-", f"{least / total:.1%}", f"{waiting:.0%}", "",
    )  # fmt: skip


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column in (0, len(_HEAD) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
