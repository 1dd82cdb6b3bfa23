"""Results that this process has lowered with MINITVM_VERIFY=1, whose levels were all verified on the way.

The cache on disk is not used then (`cache.usable`), because verification needs the levels. If a function is lowered
again, its stored result can be used: lowering is deterministic, so all of its levels would be the same and are verified
already. So a process lowers each function once, as it does without MINITVM_VERIFY. While a listener observes the
compiler, these results are not used, so the listener receives every event.
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

_MOST = 400  # functions: the number in a large network
_KNOWN: OrderedDict[bytes, LoweredFunc] = OrderedDict()


def usable(target: Target) -> bool:
    """Return whether the results in this module may be reused for functions for a target."""
    return verification_asked() and not listening_now() and cache.decides_all(target)


def get(function: SharedFunction, target: Target, decision: Decision | None) -> LoweredFunc | None:
    """Return the result of lowering the function earlier in this process, or None."""
    if not cache.keeps(function):
        return None
    key = cache.key_of(function, target, decision)
    if key not in _KNOWN:
        return None
    _KNOWN.move_to_end(key)
    return taken_for(_KNOWN[key], target)


def put(function: SharedFunction, target: Target, decision: Decision | None, lowered: LoweredFunc) -> None:
    """Store the result of lowering a function with MINITVM_VERIFY=1."""
    if cache.keeps(function):
        _KNOWN[cache.key_of(function, target, decision)] = lowered
        if len(_KNOWN) > _MOST:
            _KNOWN.popitem(last=False)


@contextmanager
def anew() -> Iterator[None]:
    """Within this scope, lower every function from scratch. Tests use it when they change the compiler at run time."""
    kept = OrderedDict(_KNOWN)
    _KNOWN.clear()
    try:
        yield
    finally:
        _KNOWN.clear()
        _KNOWN.update(kept)
