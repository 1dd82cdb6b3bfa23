"""Draw plots with matplotlib, without a screen (the extra `viz`)."""

from __future__ import annotations

from typing import Any

from .errors import missing_extra


def figure_type() -> Any:
    """Return `matplotlib.figure.Figure`. Raises `MissingExtra` if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("matplotlib", "viz") from None
    return Figure
