"""The error gallery: one bad call a requirement, its text pinned in `tests/errors/schedule/`.

After a deliberate change of a text run `PIN_ERRORS=1 pytest tests/tir/schedule/test_errors.py` and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minitvm.errors import ScheduleError
from minitvm.tir.schedule.registry import transforms

from .bad_calls import CASES

PINNED = Path(__file__).resolve().parents[2] / "errors" / "schedule"


@pytest.mark.parametrize("case", sorted(CASES))
def test_the_text_of_each_refusal(case: str) -> None:
    sch, call = CASES[case]()
    before = sch.mod
    with pytest.raises(ScheduleError) as caught:
        call()
    text = str(caught.value) + "\n"
    assert text.splitlines()[0].split(": ")[-1].split()[0] == case.split(".")[1]
    assert sch.mod is before
    path = PINNED / f"{case}.txt"
    if os.environ.get("PIN_ERRORS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_every_requirement_has_its_bad_call() -> None:
    needed = {f"{p.name}.{r.name}" for p in transforms() for r in p.requires}
    assert sorted(needed - CASES.keys()) == []
