"""Record which simplifications needed more than the affine normal form: `with recording() as reasons`.

Outside of such a scope nothing is recorded, and no text is created.
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
    """A simplification step: `rule` rewrote `before` to `after`, which is legal because `fact` was proved."""

    rule: str
    before: str
    after: str
    fact: str


_LOG: ContextVar[list[Reason] | None] = ContextVar("reasons", default=None)


@contextmanager
def recording() -> Iterator[list[Reason]]:
    """Collect the reasons of all simplifications in this scope, in order. A reason appears once for each use."""
    log: list[Reason] = []
    token = _LOG.set(log)
    try:
        yield log
    finally:
        _LOG.reset(token)


def summary(reasons: list[Reason]) -> str:
    """Return a readable table: each reason once, with the number of times it was used, most frequent first."""
    if not reasons:
        return "Sums of terms were enough: no simplification needed a rule for symbolic sizes."
    counts = Counter(reasons)
    lines = [f"{len(reasons)} simplifications of symbolic sizes, {len(counts)} of them different:"]
    for reason, times in counts.most_common():
        lines += ["", f"{times} x  {reason.before}", f"  ->  {reason.after}", f"      {reason.rule}: {reason.fact}"]
    return "\n".join(lines)


def note(make: Callable[[], Reason]) -> None:
    """Record a reason if a `recording` scope is active; otherwise do nothing."""
    log = _LOG.get()
    if log is not None:
        log.append(make())


def text(x: Affine) -> str:
    """Return a sum as text, in its usual written form with the constant last."""
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
