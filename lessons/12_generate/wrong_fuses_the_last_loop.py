"""Wrong: draws the last loop for a step that needs a loop inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Step = tuple[Any, ...]


@st.composite
def schedules(draw: Callable[..., Any], extents: list[int]) -> list[Step]:
    """Draws up to six legal steps for loops of these extents."""
    loops, steps = list(extents), []
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["split", "fuse", "swap"] if len(loops) > 1 else ["split"]))
        if kind == "split":
            k = draw(st.integers(0, len(loops) - 1))
            factor = draw(st.sampled_from([f for f in range(1, loops[k] + 1) if loops[k] % f == 0]))
            steps.append(("split", k, factor))
            loops[k : k + 1] = [loops[k] // factor, factor]
        else:
            k = draw(st.integers(0, len(loops) - 1))
            steps.append((kind, k))
            two = loops[k : k + 2]
            loops[k : k + 2] = [two[0] * two[-1]] if kind == "fuse" else two[::-1]
    return steps
