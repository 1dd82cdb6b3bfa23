"""The table of pairs of a program and a legal call that the oracle judges, of each primitive on programs of its own.

HYPOTHESIS_PROFILE=ci python -m tests.tir.schedule.pairs [PRIMITIVE ...]    # status 1 below `PAIRS`
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from hypothesis import settings

from minitvm.reference.strategies import draw_pairs
from minitvm.reference.strategies.pairs import Tally
from minitvm.tir.schedule.registry import transforms
from minitvm.tools.cli.check_primitive import PAIRS

from .property_programs import AT_LEAST, PREPARATION, PROGRAMS

IN_A_TEST = 20  # pairs of each primitive in `make test`; `make test-full` and `make pairs` judge PAIRS
COSTLY = {"reduce_in_passes": 3}  # of these the third, ...: to judge exponentials takes the oracle a second each
EXAMPLES = 800  # programs at most: enough for a primitive that is legal on one in six
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"  # then more than PAIRS

HEAD = f"{'primitive':<24} {'loops':>6} {'programs':>9} {'kernels':>8}"


def tally(name: str, pairs: int = PAIRS) -> Tally:
    """Draw so many pairs of a primitive, compare, and count; fewer where its space has no more."""
    return draw_pairs(
        name,
        sys.maxsize if DEEP else pairs,
        programs=PROGRAMS.get(name, PROGRAMS[""]),
        preparation=PREPARATION.get(name, PREPARATION[""]),
        at_least=AT_LEAST.get(name, 0),
        examples=max(settings().max_examples, EXAMPLES),
    )


def row(count: Tally) -> str:
    """A line of the table."""
    return f"{count.primitive:<24} {count.loops:>6} {count.programs:>9} {count.kernels:>8}"


def main(names: Sequence[str]) -> int:
    """Print the table of the named primitives, or of all that change programs; the number that falls short."""
    print(HEAD, f"{'time':>9}")
    short = []
    for name in names or [p.name for p in transforms()]:
        started = time.process_time()
        count = tally(name)
        print(row(count), f"{time.process_time() - started:>7.1f} s", flush=True)
        short += [name] if count.pairs < PAIRS else []
    print(f"fewer than {PAIRS} pairs: {', '.join(short)}" if short else f"{PAIRS} pairs and more of each")
    return 1 if short else 0


if __name__ == "__main__":
    import tests.conftest  # noqa: F401  (the profiles of Hypothesis, and what every test has set)

    sys.exit(main(sys.argv[1:]))
