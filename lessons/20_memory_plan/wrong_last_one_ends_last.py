"""Wrong: takes what begins last to end last, and finds a gap where a longer value still lies."""

from __future__ import annotations

from lessons.arenas import Live


def plan(values: list[Live]) -> list[int]:
    """An offset for each value."""
    offsets: dict[int, int] = {}
    for number in sorted(range(len(values)), key=lambda k: (-values[k].nbytes, values[k].first)):
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
            end = stop
        offsets[number] = end
    return [offsets[number] for number in range(len(values))]
