"""Control Python's garbage collector: it runs seldom while programs are lowered, and never while a device records."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

THRESHOLDS = (100_000, 50, 100)


@contextlib.contextmanager
def collected_seldom() -> Iterator[None]:
    """Within this scope, the garbage collector runs less often.

    A compiler builds trees of millions of nodes, each of which is kept or dropped as a whole. Searching them for cycles
    takes a tenth of the lowering time and frees almost nothing.
    """
    before = gc.get_threshold()
    if 0 < before[0] < THRESHOLDS[0]:
        gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def not_collected() -> Iterator[None]:
    """Within this scope, the garbage collector does not run, so nothing is freed that the code itself does not drop."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
