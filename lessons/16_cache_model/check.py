"""Holds the learner's cache against reuse distances, which know nothing of lines that come and go."""

from __future__ import annotations

from types import ModuleType

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require

Trace = list[tuple[int, bool]]
LINES = [16, 64, 24, 100, 256, 1]  # bytes of a line: powers of two and other numbers


def misses_of(trace: Trace, sets: int, ways: int, line: int) -> list[bool]:
    """Whether each access misses: it does unless its line was touched before, and since then fewer than `ways` others
    of its set."""
    lines = [address // line for address, _ in trace]
    found = []
    for now, one in enumerate(lines):
        before = next((k for k in range(now - 1, -1, -1) if lines[k] == one), None)
        between = set() if before is None else {x for x in lines[before + 1 : now] if x % sets == one % sets}
        found.append(before is None or len(between) >= ways)
    return found


def write_backs_of(trace: Trace, missed: list[bool], line: int) -> int:
    """Stays of lines in the cache, from a miss to the next miss of that line, in which there is a store."""
    changed: set[tuple[int, int]] = set()
    stay: dict[int, int] = {}
    for (address, is_store), miss in zip(trace, missed, strict=True):
        number = address // line
        stay[number] = stay.get(number, 0) + miss
        if is_store:
            changed.add((number, stay[number]))
    return len(changed)


def check(module: ModuleType) -> None:
    """Raises AssertionError with a small trace for which the counts are wrong."""
    small = st.integers(1, 4)
    places = st.tuples(st.integers(0, 9), st.integers(0, 255), st.booleans())  # lines, bytes in them, stores

    few, many = st.lists(places, max_size=24), st.lists(places, min_size=48, max_size=64)

    @cases(400, accesses=few, sets=small, ways=small, line=st.sampled_from(LINES))
    def counts_what_a_cache_does(accesses: list[tuple[int, int, bool]], sets: int, ways: int, line: int) -> None:
        compare(module, accesses, sets, ways, line)

    @cases(15, accesses=many, sets=small, ways=small, line=st.sampled_from(LINES))
    def counts_for_long_traces(accesses: list[tuple[int, int, bool]], sets: int, ways: int, line: int) -> None:
        compare(module, accesses, sets, ways, line)


def compare(module: ModuleType, accesses: list[tuple[int, int, bool]], sets: int, ways: int, line: int) -> None:
    """Raises AssertionError unless the learner counts what a cache does on these accesses: line, byte in it, store."""
    trace = [(number * line + place % line, is_store) for number, place, is_store in accesses]
    case = f"run(trace, sets={sets}, ways={ways}, line={line})"
    found = attempt(case, module.run, list(trace), sets, ways, line)
    require(isinstance(found, tuple) and len(found) == 2, f"{case} returned {found!r}, wanted a tuple of two numbers")
    missed = misses_of(trace, sets, ways, line)
    wanted = sum(missed), write_backs_of(trace, missed, line)
    rows = [
        f"  {'store' if is_store else 'load':<5} {address:>4}: line {address // line:>2} of set "
        f"{address // line % sets}, a {'miss' if miss else 'hit'}"
        for (address, is_store), miss in zip(trace, missed, strict=True)
    ]
    misses, lines = plural(wanted[0], "miss", "misses"), plural(wanted[1], "line", "lines")
    more = [f"  and {len(rows) - 18} more"] if len(rows) > 18 else []
    told = [
        f"{case} is {found} for the trace",
        *rows[:18],
        *more,
        f"wanted {wanted}: {misses}, and {lines} written back",
    ]
    require(found == wanted, "\n".join(told))


def plural(count: int, one: str, many: str) -> str:
    """`1 line` or `2 lines`."""
    return f"{count} {one if count == 1 else many}"
