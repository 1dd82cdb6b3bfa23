"""The definitions that oracle and compiler share, beside second ones; `brute_force` has them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .brute_force import PROPERTIES


@pytest.mark.parametrize("name", PROPERTIES)
def test_two_definitions_agree(name: str) -> None:
    @settings(max_examples=60)
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        PROPERTIES[name](data.draw)

    agree()
