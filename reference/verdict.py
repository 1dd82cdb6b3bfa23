"""What a check found: `Verdict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """The result of a check; true when nothing was found.

    `mode` is the mode that compared the outputs, or the one that found the difference. On a difference: `message`, a
    text that says it; the output's name, the first differing index, both values, and the inputs (in calling order).
    `ran` are the modes that ran, `refused` says of each one that could not why.
    """

    equal: bool
    mode: str
    message: str = ""
    output: str = ""
    index: tuple[int, ...] = ()
    before: Any = None
    after: Any = None
    inputs: Sequence[Any] = field(default=(), repr=False)
    ran: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        return self.message or f"equal ({self.mode})"
