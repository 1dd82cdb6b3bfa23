"""What random inputs do not reach: small programs that differ in one place only are told apart, equal ones are not.

The pairs are those of `fooled_pairs`, `crossing_pairs`, `steered_pairs` and `searched_pairs`, a family for each class
of places.
"""

from __future__ import annotations

from typing import Any

import pytest

from minitvm.reference import check
from tests.fewer import number

from . import crossing_pairs, fooled_pairs, searched_pairs, steered_pairs

DIFFERENT = [
    pytest.param(before, after, id=f"{family}: {name}")
    for file in (fooled_pairs, crossing_pairs, steered_pairs, searched_pairs)
    for family, pairs in file.DIFFERENT_FAMILIES.items()
    for name, before, after in pairs()
]
EQUAL = [pytest.param(before, after, id=name) for file in (fooled_pairs, steered_pairs, searched_pairs)
         for name, before, after in file.equal()]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), DIFFERENT)
def test_programs_that_differ_in_one_place_are_told_apart(before: Any, after: Any) -> None:
    assert not check(before, after, shrink=False)


@pytest.mark.parametrize(("before", "after"), EQUAL)
def test_programs_that_look_different_are_equal(before: Any, after: Any) -> None:
    for seed in range(number(1, 2)):
        verdict = check(before, after, seed=seed)
        assert verdict, str(verdict)
        assert check(after, before, seed=seed)
