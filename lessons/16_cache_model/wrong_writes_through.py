"""Wrong: counts every store as a line that is written."""

from __future__ import annotations


def run(trace: list[tuple[int, bool]], sets: int, ways: int, line: int) -> tuple[int, int]:
    """The misses, and the lines that were written back to memory."""
    held: list[dict[int, bool]] = [{} for _ in range(sets)]  # is each line changed? The one used last at the end
    misses = write_backs = 0
    for address, is_store in trace:
        number = address // line
        lines = held[number % sets]
        known = number in lines
        lines.pop(number, None)
        if not known:
            misses += 1
            if len(lines) == ways:
                lines.pop(next(iter(lines)))
        lines[number] = True
        write_backs += is_store
    return misses, write_backs
