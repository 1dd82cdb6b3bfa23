"""The error gallery: one bad call a requirement, its text pinned in `tests/errors/schedule/`.

After a deliberate change of a text run `PIN_ERRORS=1 pytest tests/tir/schedule/test_errors.py` and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minitvm.errors import ScheduleError
from minitvm.tir.schedule.examples import bad_calls, gallery, prepared, refusal
from minitvm.tir.schedule.registry import PRIMITIVES, transforms
from minitvm.tools.cli import main

PINNED = Path(__file__).resolve().parents[2] / "errors" / "schedule"


@pytest.mark.parametrize("case", sorted(bad_calls()))
def test_the_text_of_each_refusal(case: str) -> None:
    text = refusal(*bad_calls()[case]) + "\n"
    path = PINNED / f"{case}.txt"
    if os.environ.get("PIN_ERRORS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_every_requirement_has_its_bad_call() -> None:
    needed = {f"{p.name}.{r.name}" for p in PRIMITIVES.values() for r in p.requires}
    assert sorted(needed - bad_calls().keys()) == []


def test_every_pinned_text_has_its_bad_call() -> None:
    assert sorted(path.stem for path in PINNED.glob("*.txt")) == sorted(bad_calls())


def test_a_refusal_knows_its_requirement() -> None:
    sch, call = prepared(*bad_calls()["split.covers"])
    with pytest.raises(ScheduleError) as told:
        call()
    assert told.value.requirement == "covers"
    with pytest.raises(ScheduleError) as told:
        sch.get_block("no such block")
    assert told.value.requirement == ""


def test_errors_are_shown_in_the_order_of_the_requirements() -> None:
    """Those that only a step of the primitive asks for come last."""
    for primitive in transforms():
        needed, shown = [needed.name for needed in primitive.requires], list(gallery(primitive))
        assert shown[: len(needed)] == needed
        assert {f"{primitive.name}.{name}" for name in shown} == {
            case for case in bad_calls() if case.startswith(f"{primitive.name}.")
        }


def test_explain_shows_the_errors_of_a_primitive_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "storage_align", "--errors"]) == 0
    out = capsys.readouterr().out
    wanted = [f"storage_align.{needed.name}" for needed in PRIMITIVES["storage_align"].requires]
    assert out == "\n".join(f"--- {case.split('.')[1]}\n{(PINNED / f'{case}.txt').read_text()}" for case in wanted)
    assert len(wanted) >= 4


def test_every_primitive_explains_its_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for primitive in transforms():
        if not primitive.requires:
            assert main(["explain", primitive.name, "--errors"]) == 2
            assert "nothing is refused by name" in capsys.readouterr().err
            continue
        assert main(["explain", primitive.name, "--errors"]) == 0
        out = capsys.readouterr().out
        assert [needed.name for needed in primitive.requires if f"--- {needed.name}\n" not in out] == []
