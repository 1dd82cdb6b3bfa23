"""Wrong: rounds the accesses per multiply-add."""

from __future__ import annotations


def choose(registers: int, shared_bytes: int, separate: bool) -> tuple[int, int, bool]:
    """The rows and columns of a thread's tile, and whether tiles are shared."""
    best = None
    for rows in range(1, 17):
        for columns in range(1, 17):
            needed = rows * columns + rows + columns
            for shared in (False, True):
                if needed > registers or (shared and 4 * 8 * 8 * (rows + columns) > shared_bytes):
                    continue
                accesses = through_the_cache(rows + columns, shared, separate)
                cost = 100 * accesses // (8 * rows * columns), needed, shared, rows
                if best is None or cost < best[0]:
                    best = cost, (rows, columns, shared)
    return best[1]


def through_the_cache(elements: int, shared: bool, separate: bool) -> int:
    """The accesses of a thread for a piece of 8 steps that each use `elements` elements."""
    if not shared:
        return 8 * elements
    return elements if separate else elements + elements + 8 * elements
