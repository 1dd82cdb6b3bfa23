"""Format times as text."""

from __future__ import annotations

UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))


def unit_of(seconds: float) -> tuple[str, float]:
    """Return the unit that suits a time, as its name and its length in seconds: 0.002 gives ("ms", 0.001)."""
    return next(((name, size) for name, size in UNITS if seconds >= size), UNITS[-1])


def duration(seconds: float) -> str:
    """Return a time as text, with at least three digits and a suitable unit."""
    unit, size = unit_of(seconds)
    value = seconds / size
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"
