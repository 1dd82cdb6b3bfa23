"""Holds the learner's cache against reuse distances, which know nothing of lines that come and go."""

from __future__ import annotations

from types import ModuleType

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require

Trace = list[tuple[int, bool]]


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
    accesses = st.lists(st.tuples(st.integers(0, 18).map(lambda k: 16 * k), st.booleans()), min_size=1, max_size=24)

    @cases(400, trace=accesses, sets=small, ways=small, line=st.sampled_from([16, 32, 64]))
    def counts_what_a_cache_does(trace: Trace, sets: int, ways: int, line: int) -> None:
        case = f"run(trace, sets={sets}, ways={ways}, line={line})"
        found = attempt(case, module.run, list(trace), sets, ways, line)
        require(isinstance(found, tuple) and len(found) == 2, f"{case} returned {found!r}, wanted two numbers")
        missed = misses_of(trace, sets, ways, line)
        wanted = sum(missed), write_backs_of(trace, missed, line)
        rows = [
            f"  {'store' if is_store else 'load':<5} {address:>4}: line {address // line:>2} of set "
            f"{address // line % sets}, a {'miss' if miss else 'hit'}"
            for (address, is_store), miss in zip(trace, missed, strict=True)
        ]
        require(found == wanted, "\n".join([f"{case} is {found} for the trace", *rows[:20],
                f"wanted {wanted}: {wanted[0]} misses and {wanted[1]} lines written back"]))  # fmt: skip
