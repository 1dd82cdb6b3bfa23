"""Which decisions a build takes: those that won for the same function on the same target."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from ..errors import MinitvmError, MissingExtra
from ..lowering.units import SharedFunction
from ..strategy.decision import Decision
from ..target import Target
from .database import Database, default_url, file_of
from .record import target_key

AUTO = "auto"
LEAST = 1.02  # times as fast as untuned, below which a build stays as it is: what both halves of a pair have to show


def decisions(functions: Sequence[SharedFunction], target: Target, tuned: str | None) -> dict[bytes, Decision]:
    """The decision for each function that has one, by its key.

    `tuned` is the URL or path of a database, None for none, or "auto": the user's own, if there is one. That a
    database of "auto" cannot be read costs a warning of one line and nothing else; one that was named raises its error.
    """
    if tuned is None or not functions:
        return {}
    if tuned != AUTO:
        return _found(functions, target, tuned)
    place = file_of(default_url())
    if place is not None and not place.is_file():
        return {}
    try:
        return _found(functions, target, default_url())
    except MissingExtra:
        warnings.warn("records of tuning are not used: pip install 'minitvm[tune]'", RuntimeWarning, stacklevel=2)
    except MinitvmError as error:
        warnings.warn(f"records of tuning are not used: {str(error).splitlines()[0]}", RuntimeWarning, stacklevel=2)
    return {}


def _found(functions: Sequence[SharedFunction], target: Target, url: str) -> dict[bytes, Decision]:
    with Database.open(url) as database:
        best = database.best_of([function.key.hex() for function in functions], target_key(target))
    return {
        bytes.fromhex(task): record.decision
        for task, record in best.items()
        if not record.untuned and record.gain >= LEAST
    }
