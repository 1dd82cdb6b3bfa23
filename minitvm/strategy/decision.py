"""A decision: the rule and the knobs by which a function is scheduled. It is data that can be kept.

decision = Decision("contraction", {"row": "i", "column": "j", "rows": 8, "vectors": 3, ...})
scheduled(func, target, decision)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..errors import InputError
from .candidate import Knob, Option


@dataclass(frozen=True, slots=True)
class Decision:
    """A rule's name, and a value for each of its knobs. Equal decisions are equal in every process."""

    rule: str
    knobs: Mapping[str, Knob]

    def __post_init__(self) -> None:
        object.__setattr__(self, "knobs", MappingProxyType(dict(sorted(self.knobs.items()))))

    def __hash__(self) -> int:
        return hash(self.to_json())

    @staticmethod
    def of(option: Option) -> Decision:
        """The decision that an option stands for."""
        return Decision(option.rule, option.knobs)

    def to_json(self) -> str:
        """One line of text, the same for equal decisions."""
        return json.dumps({"rule": self.rule, "knobs": dict(self.knobs)}, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Decision:
        """The inverse of `to_json`; raises `InputError` for any other text."""
        try:
            data = json.loads(text)
        except ValueError:
            data = None
        if not isinstance(data, dict) or set(data) != {"rule", "knobs"} or not isinstance(data["rule"], str):
            raise InputError(f'not a decision: wanted {{"rule": ..., "knobs": {{...}}}}, found {text[:60]!r}')
        return Decision(data["rule"], checked_knobs(data["knobs"]))

    def __str__(self) -> str:
        return f"{self.rule} {', '.join(f'{name}={value}' for name, value in self.knobs.items())}".rstrip()


def checked_knobs(knobs: Any) -> dict[str, Knob]:
    """Knobs from outside; raises `InputError` for what cannot be knobs."""
    if not isinstance(knobs, dict) or not all(isinstance(v, bool | int | str) for v in knobs.values()):
        raise InputError(f"not knobs: wanted names with truth values, integers or names, found {str(knobs)[:60]!r}")
    return {str(name): value for name, value in knobs.items()}
