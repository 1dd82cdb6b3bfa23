"""Draw from all strategies and write down what occurred: `make drawn`. With a number, that part of the full draw."""

from __future__ import annotations

import sys

from .branches import Coverage
from .record import counted
from .sources import SOURCES
from .tally import Tally


def main(part: float = 1.0) -> None:
    """Draw, write the record and the page, and print what is open."""
    tally, coverage = Tally(), Coverage()
    with coverage:
        for source in SOURCES:
            print(f"{source.name}: {max(1, int(source.examples * part))} examples", flush=True)
            source.run(tally, max(1, int(source.examples * part)))
    made = counted(tally.counts, *coverage.report())
    made.write()
    for category, name in made.unjustified():
        print(f"not drawn: {category} {name}")
    for category, name in made.stale_reasons():
        print(f"has a reason and is drawn: {category} {name}")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
