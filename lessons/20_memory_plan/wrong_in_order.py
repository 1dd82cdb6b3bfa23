"""Wrong: correct, but one value after the other: late large ones find only small gaps."""

from __future__ import annotations

from lessons.arenas import Live


def plan(values: list[Live]) -> list[int]:
    """An offset for each value."""
    offsets: dict[int, int] = {}
    for number in range(len(values)):
        value = values[number]
        busy = sorted(
            (offset, offset + values[other].nbytes)
            for other, offset in offsets.items()
            if values[other].first <= value.last and value.first <= values[other].last
        )
        end = 0
        for start, stop in busy:
            if start - end >= value.nbytes:
                break
            end = max(end, stop)
        offsets[number] = end
    return [offsets[number] for number in range(len(values))]
