"""Programs with one thing wrong: both modes of the interpreters end alike, and what depends on an order is refused."""

from __future__ import annotations

import pytest

from tests.reference.gone_wrong import goes_wrong_alike


@pytest.mark.alike()
@pytest.mark.parametrize("part", range(2))
def test_what_goes_wrong_goes_wrong_in_both_modes(part: int) -> None:
    for seed in range(15 * part, 15 * part + 15):
        goes_wrong_alike(seed)


@pytest.mark.full
def test_what_goes_wrong_often_goes_wrong_in_both_modes() -> None:
    for seed in range(1000, 2000):
        goes_wrong_alike(seed)
