"""Runs the learner's plan on bytes that remember who wrote them, and measures its arenas on random networks."""

from __future__ import annotations

from types import ModuleType

from hypothesis import strategies as st

from lessons.arenas import Live, arena, lower_bound, random_values
from lessons.grading import attempt, cases, require

MOST = 1.05  # times the lower bound, over all networks


def check(module: ModuleType) -> None:
    """Raises AssertionError with a small list of values for which a plan is wrong, or if plans are too large."""
    lives = st.builds(
        lambda size, first, length: Live(64 * size, first, first + length),
        st.integers(1, 4),
        st.integers(0, 5),
        st.integers(0, 4),
    )

    @cases(300, lives=st.lists(lives, max_size=7), later=st.sampled_from([0, 0, 0, 70, 5000]))
    def nobody_is_overwritten(lives: list[Live], later: int) -> None:
        values = [Live(live.nbytes, live.first + later, live.last + later) for live in lives]
        case = f"plan([{', '.join(map(shown, values))}])"
        offsets = attempt(case, module.plan, list(values))
        sound = isinstance(offsets, list) and all(type(offset) is int for offset in offsets)
        require(
            sound and len(offsets) == len(values),
            f"{case} returned {offsets!r}, wanted a list of {len(values)} whole numbers",
        )
        require(
            all(offset >= 0 and offset % 64 == 0 for offset in offsets),
            f"{case} is {offsets}: offsets are multiples of 64 from 0 up",
        )
        require(not (told := play(values, offsets)), f"{case} is {offsets}\n{told}")

    networks = [random_values(seed) for seed in range(100)]
    total = 0
    for values in networks:
        offsets = attempt(f"on a network of {len(values)} values", module.plan, list(values))
        require(not play(values, offsets), f"on a network of {len(values)} values: {play(values, offsets)}")
        total += arena(values, offsets)
    least = sum(map(lower_bound, networks))
    require(
        total <= MOST * least,
        f"the arenas of {len(networks)} random networks have {total:,} bytes\n"
        f"that is {total / least:.3f} times the lower bounds; wanted at most {MOST}",
    )


def play(values: list[Live], offsets: list[int]) -> str:
    """Run the steps on an arena in which each block of 64 bytes says whose it is; "" when nothing goes wrong."""
    owner: dict[int, int] = {}
    blocks = [range(offset // 64, (offset + value.nbytes) // 64) for value, offset in zip(values, offsets, strict=True)]
    for step in sorted({step for value in values for step in (value.first, value.last)}):
        for number, value in enumerate(values):
            if value.first == step:
                owner.update(dict.fromkeys(blocks[number], number))
        for number, value in enumerate(values):
            lost = [block for block in blocks[number] if owner.get(block) != number]
            if value.first <= step <= value.last and lost:
                other = owner[lost[0]]
                return (f"in step {step}, value {number} is needed, and byte {64 * lost[0]} of it belongs to value "
                        f"{other}, which was written in step {values[other].first}")  # fmt: skip
    return ""


def shown(value: Live) -> str:
    """As it is written in Python."""
    return f"Live({value.nbytes}, {value.first}, {value.last})"
