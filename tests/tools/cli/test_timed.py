"""The first call's time, and that of those that follow."""

from __future__ import annotations

import re

import pytest

from minitvm.tools.cli import timed


def test_the_first_result_and_both_times() -> None:
    calls: list[int] = []
    resets: list[int] = []

    def call() -> int:
        calls.append(len(resets))
        return len(calls)

    result, text = timed.timed(call, lambda: resets.append(0))
    assert result == 1
    assert calls == list(range(len(calls))) and len(calls) >= 2  # each call after the first one begins anew
    assert re.fullmatch(r"ran in \S+ \w+ the first time, in \S+ \w+ then \((median of \d+|one) more runs?\)", text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (98e-3, "98.0 ms"), (25.14e-6, "25.1 us"), (0.9994, "999 ms"), (0.99999999, "1000 ms"), (1.5, "1.50 s"),
        (1234, "1234 s"), (0, "0.00 us"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert timed.duration(seconds) == text
