"""With MINITVM_VERIFY=1: functions that this process lowered, whose levels were all verified on the way.

The cache on disk is not used then (`cache.usable`), for there must be levels to verify. A function that comes again has
been verified: lowering has the same result each time, so all of its levels would be the same. So a process lowers a
function once, as it does without MINITVM_VERIFY. Who listens hears everything: while somebody does, nothing is taken
from here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import verification_asked
from ..events import listening_now
from ..strategy.candidate import Decision
from ..target import Target
from . import cache
from .lowered import LoweredFunc, taken_for
from .units import SharedFunction

_MOST = 400  # functions; those of a large network
_KNOWN: OrderedDict[bytes, LoweredFunc] = OrderedDict()


def usable(target: Target) -> bool:
    """Whether functions for a target that were verified may be taken from here."""
    return verification_asked() and not listening_now() and cache.decides_all(target)


def get(function: SharedFunction, target: Target, decision: Decision | None) -> LoweredFunc | None:
    """The function as it was lowered before, or None."""
    if not cache.keeps(function):
        return None
    key = cache.key_of(function, target, decision)
    if key not in _KNOWN:
        return None
    _KNOWN.move_to_end(key)
    return taken_for(_KNOWN[key], target)


def put(function: SharedFunction, target: Target, decision: Decision | None, lowered: LoweredFunc) -> None:
    """Keep a function that was lowered with MINITVM_VERIFY=1."""
    if cache.keeps(function):
        _KNOWN[cache.key_of(function, target, decision)] = lowered
        if len(_KNOWN) > _MOST:
            _KNOWN.popitem(last=False)


@contextmanager
def anew() -> Iterator[None]:
    """Inside, functions are lowered anew: for who changes the compiler while it runs, as tests do."""
    kept = OrderedDict(_KNOWN)
    _KNOWN.clear()
    try:
        yield
    finally:
        _KNOWN.clear()
        _KNOWN.update(kept)
