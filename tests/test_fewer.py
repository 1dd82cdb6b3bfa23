"""Cases of one kind: each value of the named arguments stays in `make test`, the others are marked `full`."""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import fewer

pytest_plugins = ["pytester"]


def test_each_value_stays_in_a_case() -> None:
    rows = [(a, b) for a in "xyz" for b in (1, 2)]
    assert fewer.kept(rows, 1) == [True, False, False, True, True, False], "of a grid the diagonal"
    assert fewer.kept(rows, 3) == [True] * 6
    assert fewer.kept([(b,) for _, b in rows], 1) == [True, True, False, False, False, False]
    equal = [([1],), ([1],)]  # objects are told apart by what they are, not by what they hold
    assert fewer.kept(equal, 1) == [True, True]
    assert fewer.kept([(1,), (True,), (1.0,)], 1) == [True, True, True]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=20), st.integers(1, 3))
def test_no_value_is_lost_and_no_case_stays_for_nothing(rows: list[tuple[int, int]], most: int) -> None:
    stays = [row for row, stays in zip(rows, fewer.kept(rows, most), strict=True) if stays]
    for place in (0, 1):
        every, left = (Counter(row[place] for row in some) for some in (rows, stays))
        assert all(left[value] >= min(most, count) for value, count in every.items())
    values = {(place, row[place]) for row in rows for place in (0, 1)}
    assert len(stays) <= most * len(values)


def test_the_first_stay_where_no_argument_is_named() -> None:
    assert fewer.kept([(), (), ()], 1) == [True, False, False]
    assert fewer.kept([(), (), ()], 2) == [True, True, False]


def run(pytester: pytest.Pytester, marks: str, *arguments: str) -> dict[str, int]:
    pytester.makeini('[pytest]\nmarkers =\n    alike(*arguments): x\n    full: x\naddopts = -m "not full"\n')
    pytester.makeconftest("from tests.fewer import leave_to_full as pytest_collection_modifyitems")
    pytester.makepyfile(f"""
        import pytest

        {marks}
        @pytest.mark.parametrize("a", [0, 1])
        @pytest.mark.parametrize("b", ["x", pytest.param("y", marks=pytest.mark.full), "z"])
        def test_one(a, b):
            pass

        @pytest.mark.alike()
        def test_other():
            pass
    """)
    return pytester.runpytest_inprocess("-q", *arguments).parseoutcomes()


def test_other_cases_are_run_by_make_test_full(pytester: pytest.Pytester) -> None:
    marks = "@pytest.mark.alike('a', 'b')"
    assert run(pytester, marks) == {"passed": 3, "deselected": 4}  # each of 0, 1, x and z, and the other function
    assert run(pytester, marks, "-m", "full or not full") == {"passed": 7}
    assert run(pytester, "@pytest.mark.alike(most=3)") == {"passed": 4, "deselected": 3}


def test_a_case_that_is_asked_for_is_run(pytester: pytest.Pytester) -> None:
    run(pytester, "@pytest.mark.alike()")
    file = "test_a_case_that_is_asked_for_is_run.py"
    assert pytester.runpytest_inprocess("-q", f"{file}::test_one[z-1]").parseoutcomes() == {"passed": 1}


def test_a_misspelt_argument_is_refused(pytester: pytest.Pytester) -> None:
    run(pytester, "@pytest.mark.alike('c')")
    result = pytester.runpytest_inprocess("-q")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*alike names c, not an argument"])


@pytest.mark.parametrize(("profile", "number"), [("ci", 3), ("dev", 3), ("full", 7), ("faults", 7), ("deep", 7)])
def test_properties_have_two_numbers_of_examples(profile: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPOTHESIS_PROFILE", profile)
    chosen: Any = fewer.examples(3, 7, deadline=None)
    assert isinstance(chosen, settings) and chosen.max_examples == number
    by_profile: Any = fewer.examples(3)
    assert by_profile.max_examples == (3 if number == 3 else settings().max_examples)


@pytest.mark.skipif(os.environ.get("HYPOTHESIS_PROFILE", "dev") not in fewer.SHORT_PROFILES, reason="draws more")
def test_what_is_drawn_does_not_depend_on_what_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure beside all other tests is one alone too."""
    (tmp_path / "of_constants.py").write_text(f"NUMBERS = {[10**9 + 7 * number for number in range(40)]}\n")
    monkeypatch.syspath_prepend(tmp_path)

    def draws() -> list[int]:
        drawn: list[int] = []

        @settings(max_examples=100, derandomize=True, database=None)
        @given(st.integers())
        def collect(number: int) -> None:
            drawn.append(number)

        collect()
        return drawn

    before = draws()
    monkeypatch.setitem(sys.modules, "of_constants", importlib.import_module("of_constants"))
    assert draws() == before
