"""Wrong: takes the set from the address, so that one line is in several."""

from __future__ import annotations


def run(trace: list[tuple[int, bool]], sets: int, ways: int, line: int) -> tuple[int, int]:
    """The misses, and the lines that were written back to memory."""
    held: list[dict[int, bool]] = [{} for _ in range(sets)]  # is each line changed? The one used last at the end
    misses = write_backs = 0
    for address, is_store in trace:
        number = address // line
        lines = held[address % sets]
        changed = lines.pop(number, None)
        if changed is None:
            misses += 1
            if len(lines) == ways:
                write_backs += lines.pop(next(iter(lines)))
        lines[number] = bool(changed) or is_store
    return misses, write_backs + sum(sum(lines.values()) for lines in held)
