"""What a mode has shown of two programs, and how that of several modes is put together."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .verdict import Verdict


class Shown(enum.Enum):
    """What need not be shown again."""

    EXACT_INPUTS = "there are inputs on which no operation rounds, and the programs agree on these"
    EXACT = "the programs agree on all inputs that were varied from these"
    FLOATS = "floats were looked at on all inputs that were varied"
    SEARCHED = "inputs were searched for that reach what several conditions hide"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What modes have shown of two programs at some sizes.

    `verdict` is the first difference, or else the first agreement; None where all refused, and `refusal` says why the
    first of them did. `excused` counts the inputs on which a difference was put down to rounding.
    """

    verdict: Verdict | None = None
    refusal: str = ""
    shown: frozenset[Shown] = frozenset()
    excused: int = 0

    def __or__(self, later: Evidence) -> Evidence:
        """All of it together, in any order but for which verdict comes first."""
        verdicts = [v for v in (self.verdict, later.verdict) if v is not None]
        first = next((v for v in verdicts if not v), verdicts[0] if verdicts else None)
        return Evidence(first, self.refusal or later.refusal, self.shown | later.shown, self.excused + later.excused)


NOTHING = Evidence()
