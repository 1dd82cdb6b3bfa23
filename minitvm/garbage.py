"""When Python's collector looks for cycles: seldom while programs are lowered, never while a device records."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

THRESHOLDS = (100_000, 50, 100)


@contextlib.contextmanager
def collected_seldom() -> Iterator[None]:
    """The collector looks for cycles less often meanwhile.

    A compiler makes trees by the million, which stay or go as a whole: looking through them takes a tenth of the time
    of lowering, and frees nearly nothing.
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
    """The collector does not look for cycles meanwhile, so that nothing is freed that the code itself does not drop."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
