"""The verdicts on one changed model."""

from __future__ import annotations

from dataclasses import dataclass

RIGHT, REFUSED, VALID_REFUSED = "right", "refused", "valid refused"
WRONG, INVENTED, OUTSIDE, CRASH, UNCLEAR = "wrong", "invented", "outside", "crash", "unclear"
DISPUTED = "disputed"
UNKNOWN = "unknown"
BAD = (WRONG, INVENTED, OUTSIDE, CRASH, UNCLEAR)


@dataclass
class Judgement:
    """A verdict and its reason."""

    verdict: str
    text: str = ""
