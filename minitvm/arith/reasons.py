"""Which simplifications needed more than the affine normal form, for people who ask: `with recording() as reasons`.

Nothing is written down, and no text made, while nobody records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ..expr import Var
from .affine import FLOORDIV, FLOORMOD, OPAQUE, PRODUCT, Affine


@dataclass(frozen=True, slots=True)
class Reason:
    """`before` became `after` by `rule`; `fact` is what was shown for it."""

    rule: str
    before: str
    after: str
    fact: str


_LOG: ContextVar[list[Reason] | None] = ContextVar("reasons", default=None)


@contextmanager
def recording() -> Iterator[list[Reason]]:
    """The reasons of what is simplified in the scope, in order; the same one again each time it is used."""
    log: list[Reason] = []
    token = _LOG.set(log)
    try:
        yield log
    finally:
        _LOG.reset(token)


def summary(reasons: list[Reason]) -> str:
    """A table for people: each reason once, with how often it was used, the most frequent first."""
    if not reasons:
        return "Sums of terms were enough: no simplification needed a rule for symbolic sizes."
    counts = Counter(reasons)
    lines = [f"{len(reasons)} simplifications of symbolic sizes, {len(counts)} of them different:"]
    for reason, times in counts.most_common():
        lines += ["", f"{times} x  {reason.before}", f"  ->  {reason.after}", f"      {reason.rule}: {reason.fact}"]
    return "\n".join(lines)


def note(make: Callable[[], Reason]) -> None:
    """Write a reason down where somebody records."""
    log = _LOG.get()
    if log is not None:
        log.append(make())


def text(x: Affine) -> str:
    """A sum as people write it, the constant last."""
    parts = [(c, _term(term)) for term, c in sorted(x.terms.items(), key=lambda item: item[1] < 0)]
    written = ""
    for c, term in parts:
        sign = (" - " if c < 0 else " + ") if written else "-" if c < 0 else ""
        written += f"{sign}{term if abs(c) == 1 else f'{abs(c)}*{term}'}"
    if not written:
        return str(x.const)
    return f"{written} {'-' if x.const < 0 else '+'} {abs(x.const)}" if x.const else written


def _term(term: Any) -> str:
    if isinstance(term, Var):
        return term.name
    if term.kind == OPAQUE:
        return str(term.args[0])
    if term.kind == PRODUCT:
        return "*".join(map(_term, term.args))
    if term.kind in (FLOORDIV, FLOORMOD):
        a, b = (text(arg) if len(arg.terms) + bool(arg.const) == 1 else f"({text(arg)})" for arg in term.args)
        return f"({a} {'//' if term.kind == FLOORDIV else '%'} {b})"
    return f"{term.kind}({', '.join(map(text, term.args))})"
