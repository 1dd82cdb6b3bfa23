"""What `make test` leaves to `make test-full`: more cases of the same kind, and more draws of the same property.

    @pytest.mark.alike("program", "schedule")     # each value of each of these arguments stays in at least one case
    @pytest.mark.alike(most=2)                    # the first two cases stay
    @examples(10, 40)                             # a property: 10 draws in `make test`, 40 otherwise

CONTRIBUTING.md ("The cost of a test") says which tests may have fewer cases.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import hypothesis
import pytest

SHORT_PROFILES = ("ci", "dev")


def examples(few: int, many: int | None = None, **other: Any) -> Callable[[Any], Any]:
    """Settings of a property: `few` draws in `make test`; `many`, or as many as the profile says, everywhere else."""
    if many is None:
        many = hypothesis.settings().max_examples
    return hypothesis.settings(max_examples=number(few, many), **other)


def number(few: int, many: int) -> int:
    """`few` in `make test`, and `many` everywhere else."""
    return few if os.environ.get("HYPOTHESIS_PROFILE", "dev") in SHORT_PROFILES else many


def leave_to_full(items: Iterable[pytest.Item]) -> None:
    """Mark the cases as `full` that the mark `alike` does not keep, function by function."""
    functions: dict[str, list[tuple[pytest.Item, pytest.Mark]]] = {}
    for item in items:
        mark = item.get_closest_marker("alike")
        if mark is not None and item.get_closest_marker("full") is None:
            functions.setdefault(item.nodeid.partition("[")[0], []).append((item, mark))
    for cases in functions.values():
        _, mark = cases[0]
        unknown = set(mark.args) - parameters(cases[0][0]).keys()
        if unknown:
            raise pytest.UsageError(f"{cases[0][0].nodeid}: alike names {', '.join(sorted(unknown))}, not an argument")
        rows = [[parameters(item)[name] for name in mark.args] for item, _ in cases]
        for (item, _), stays in zip(cases, kept(rows, mark.kwargs.get("most", 1)), strict=True):
            if not stays:
                item.add_marker(pytest.mark.full)


def kept(rows: Sequence[Sequence[Any]], most: int) -> list[bool]:
    """Which cases stay: of each value so many, in few cases (of a grid the diagonal); without values the first ones."""
    if not any(rows):
        return [number < most for number in range(len(rows))]
    values = [[(place, _key(value)) for place, value in enumerate(row)] for row in rows]
    seen: Counter[Hashable] = Counter()
    stays = [False] * len(rows)
    while True:
        gains = [0 if stays[k] else sum(seen[value] < most for value in row) for k, row in enumerate(values)]
        best = max(gains)
        if best == 0:
            return stays
        chosen = gains.index(best)
        stays[chosen] = True
        seen.update(values[chosen])


def parameters(item: pytest.Item) -> dict[str, Any]:
    """The arguments that `parametrize` gave a test."""
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def _key(value: Any) -> Hashable:
    return (type(value), value) if isinstance(value, str | int | float | None) else id(value)
