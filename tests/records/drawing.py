"""Random records and decisions."""

from __future__ import annotations

from hypothesis import strategies as st

from minitvm.records.record import OUTCOMES, Record
from minitvm.strategy import Decision

NAMES = st.text("abc_", min_size=1, max_size=5)
KNOBS = st.dictionaries(NAMES, st.one_of(st.booleans(), st.integers(1, 1 << 40), st.text(max_size=5)), max_size=4)
ANY_TEXT = st.text(max_size=12) | st.text("\0\ud800\udcff\n\u2028'\\\"", max_size=6)  # as a crashed process may write
TIMES = st.floats(1e-9, 1e3)


def decisions() -> st.SearchStrategy[Decision]:
    """Decisions of made-up rules."""
    return st.builds(Decision, NAMES, KNOBS)


def records(**fixed: st.SearchStrategy[object]) -> st.SearchStrategy[Record]:
    """Records of few tasks and targets, so that they meet."""
    few = st.sampled_from(["a", "b", "c"])
    parts: dict[str, st.SearchStrategy[object]] = {
        "task": few, "target": few, "machine": st.just("cpu"), "name": ANY_TEXT, "rule": NAMES,
        "knobs": KNOBS, "outcome": st.sampled_from(OUTCOMES), "seconds": st.lists(TIMES, max_size=6).map(tuple),
        "message": ANY_TEXT,
        "compute": st.floats(0, 1e15), "memory": st.floats(0, 1e15), "flops": st.integers(0, 1 << 60),
        "untuned": st.booleans(), "baseline": st.floats(0, 1e3), "threads": st.integers(1, 128), "caches": few,
        "when": st.floats(0, 4e9),
    }  # fmt: skip
    return st.builds(Record, **{**parts, **fixed})  # type: ignore[arg-type]
