"""How the lessons' checks try an answer: many random cases, and the smallest failing one in words.

def check(module):
    @cases(extent=st.integers(1, 9), factor=st.integers(1, 9))
    def keeps_the_meaning(extent, factor):
        require(..., "with extent 3 and factor 2: ...")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

# No database and no seed: the same answer gets the same verdict, everywhere and every time.
_SETTINGS = settings(
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)


# The verdicts of the properties so far, by name, while `every_case` collects them; a failure is in words.
_verdicts: dict[str, BaseException | None] | None = None


@contextmanager
def every_case() -> Iterator[dict[str, BaseException | None]]:
    """Try all properties of a check. Without this, a check ends at the first one that fails.

    Yields a dictionary that gets, for each property, its smallest failure, or None if it holds.
    """
    global _verdicts
    before, _verdicts = _verdicts, {}
    try:
        yield _verdicts
    finally:
        _verdicts = before


def cases(_count: int = 60, **strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
    """Run the decorated function at once, on random values of its parameters; it raises its smallest failure."""

    def run(property_: Callable[..., None]) -> None:
        # Hypothesis shows a failing call in its own words when asked to; the checks say theirs.
        trial = settings(_SETTINGS, max_examples=_count)(given(**strategies)(property_))
        failure: Exception | None = None
        try:
            trial()
        except Flaky as error:
            failure = AssertionError(_changing(error))
        except Exception as error:
            error.__notes__ = []
            failure = error
        if _verdicts is not None:
            _verdicts[property_.__name__.replace("_", " ")] = failure
        elif failure is not None:
            raise failure

    return run


def _changing(error: BaseException) -> str:
    """The message for an answer that fails on a case once, and not when the case is tried again."""
    failures = [one for one in getattr(error, "exceptions", ()) if isinstance(one, AssertionError)]
    first = f"; the first time it was this:\n{failures[0]}" if failures else ""
    return f"one case, tried twice, had two results: the answer remembers something from call to call{first}"


def require(holds: bool, message: str) -> None:
    """Fail with `message` unless it holds. (A bare `assert` would vanish under `python -O`.)"""
    if not holds:
        raise AssertionError(message)


def attempt(what: str, function: Callable[..., Any], *args: Any, may_change: tuple[int, ...] = ()) -> Any:
    """Call the learner's function; an error, or a changed argument, is reported with the case.

    `may_change` has the numbers of the arguments, from 0, that the exercise lets the function change.
    """
    before = _copy(args)
    try:
        result = function(*args)
    except (AssertionError, NotImplementedError):
        raise
    except Exception as error:
        said = repr(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        error.args = (f"{said}\n({what})",)
        raise
    for number, (old, new) in enumerate(zip(before, args, strict=True)):
        if number not in may_change and not _same(old, new):
            name = getattr(function, "__name__", "your function")
            end = "" if what.endswith("\n") else ": "
            raise AssertionError(
                f"{what}{end}do not change the arguments: argument {number + 1} of {name} was {old!r}, and is {new!r} "
                f"after the call (work on a copy)"
            )
    return result


def yours(verdict: object) -> str:
    """A verdict on the program that is wanted and the learner's, in these words."""
    text = str(verdict).replace("  before: ", "  wanted: ").replace("  after:  ", "  yours:  ")
    return re.sub(r"np\.\w+\(([^()]*)\)", r"\1", text)


def _copy(value: Any) -> Any:
    """A copy of lists, tuples, dictionaries, sets and arrays, with what they hold; anything else is itself."""
    match value:
        case list():
            return [_copy(one) for one in value]
        case tuple():
            parts = [_copy(one) for one in value]
            return value._make(parts) if hasattr(value, "_make") else tuple(parts)
        case dict():
            return {key: _copy(one) for key, one in value.items()}
        case np.ndarray() | set():
            return value.copy()
    return value


def _same(old: Any, new: Any) -> bool:
    """Whether a copy still equals the value. Other objects are compared by identity: `==` of expressions is no bool."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    match old:
        case list() | tuple():
            return len(old) == len(new) and all(_same(a, b) for a, b in zip(old, new, strict=True))
        case dict():
            return old.keys() == new.keys() and all(_same(one, new[key]) for key, one in old.items())
        case np.ndarray():
            return bool(old.shape == new.shape and old.dtype == new.dtype and old.tobytes() == new.tobytes())
        case int() | float() | str() | set():
            return bool(old == new)
    return False
