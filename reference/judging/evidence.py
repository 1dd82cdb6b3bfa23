"""The evidence of modes about two programs, and how it is combined."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .verdict import Verdict


class Shown(enum.Enum):
    """Facts that need not be shown again."""

    EXACT_INPUTS = "there are inputs on which no operation rounds, and the programs agree on these"
    EXACT = "the programs agree on all inputs that were varied from these"
    FLOATS = "floats were looked at on all inputs that were varied"
    SEARCHED = "inputs were searched for that reach what several conditions hide"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The results of modes for two programs at some sizes.

    `verdict` is the first difference, or else the first agreement; None if all modes refused, and then `refusal` is the
    reason of the first. `excused` counts the inputs on which a difference was attributed to rounding.
    """

    verdict: Verdict | None = None
    refusal: str = ""
    shown: frozenset[Shown] = frozenset()
    excused: int = 0

    def __or__(self, later: Evidence) -> Evidence:
        """Combine two results; only the choice of the first verdict depends on their order."""
        verdicts = [v for v in (self.verdict, later.verdict) if v is not None]
        first = next((v for v in verdicts if not v), verdicts[0] if verdicts else None)
        return Evidence(first, self.refusal or later.refusal, self.shown | later.shown, self.excused + later.excused)


NOTHING = Evidence()
