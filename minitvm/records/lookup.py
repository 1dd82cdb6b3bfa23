"""Which decisions a build takes: those that won for the same function, or convolution, on the same target."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from ..errors import MinitvmError, MissingExtra
from ..lowering.units import SharedFunction
from ..store import FileState
from ..strategy.algorithms import DIRECT, WINOGRAD
from ..strategy.candidate import Decision
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
    keys = [function.key.hex() for function in functions]
    found = _read(tuned if keys else None, lambda database: _winners(database, keys, target))
    return {bytes.fromhex(task): decision for task, decision in found.items()}


def algorithms(target: Target, tuned: str | None) -> dict[str, Decision]:
    """The algorithm of each convolution that has one, by `Convolution.key`; `tuned` as for `decisions`."""
    return _read(tuned, lambda database: algorithms_in(database, target))


def algorithms_in(database: Database, target: Target) -> dict[str, Decision]:
    """`algorithms` of an open database."""
    rules = (DIRECT, WINOGRAD)
    keys = dict.fromkeys(record.task for record in database.records(target=target_key(target), rules=rules))
    return _winners(database, list(keys), target)


def database_state(tuned: str | None) -> tuple[FileState, ...] | None:
    """The files of the database that a build with `tuned` reads, as they are now; None if it is not a settled file."""
    if tuned is None:
        return ()
    place = file_of(default_url() if tuned == AUTO else tuned)
    if place is None or (tuned != AUTO and not place.is_file()):
        return None
    journal = place.with_name(f"{place.name}-wal")  # of SQLite: what was added last
    states = tuple(FileState.of(file) for file in (place, journal) if file.is_file())
    return states if all(state.settled for state in states) else None


def _winners(database: Database, keys: Sequence[str], target: Target) -> dict[str, Decision]:
    best = database.best_of(keys, target_key(target))
    return {task: one.decision for task, one in best.items() if not one.untuned and one.gain >= LEAST}


def _read(tuned: str | None, read: Callable[[Database], dict[str, Decision]]) -> dict[str, Decision]:
    if tuned is None:
        return {}
    if tuned != AUTO:
        with Database.open(tuned) as database:
            return read(database)
    url = default_url()
    place = file_of(url)
    if place is not None and not place.is_file():
        return {}
    try:
        with Database.open(url) as database:
            return read(database)
    except MissingExtra:
        warnings.warn("records of tuning are not used: pip install 'minitvm[tune]'", RuntimeWarning, stacklevel=1)
    except MinitvmError as error:
        warnings.warn(f"records of tuning are not used: {str(error).splitlines()[0]}", RuntimeWarning, stacklevel=1)
    return {}
