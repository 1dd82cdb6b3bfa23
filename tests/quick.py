"""`make quick`: the tests without the slow ones, properties on a few examples each; 45 seconds on two cores.

    python -m pytest -p tests.quick --junitxml=RESULTS.xml   # measures
    python -m tests.quick RESULTS.xml                        # adds to tests/slow.txt what was slow, drops what was not

A plugin of pytest. The slow test functions stand in tests/slow.txt, by file; a new one takes part until it is measured,
and so does one whose line is deleted there. What the slow ones look at, `make test` runs.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as xml
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
SLOW = Path(__file__).with_name("slow.txt")
EXAMPLES = 5  # of each property
SECONDS = 31.0  # of both cores that the chosen tests may take together; importing and collecting them takes longer
MOST = 1.0  # seconds of one test function


def slow_functions() -> frozenset[str]:
    """FILE::FUNCTION of the tests that are left out."""
    return frozenset(line for line in SLOW.read_text().splitlines() if line and not line.startswith("#"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Do not even import a file all of whose tests are slow: some make their programs as they are imported."""
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    name = collection_path.relative_to(ROOT).as_posix() if collection_path.is_relative_to(ROOT) else ""
    tests = re.findall(r"^def (test_\w+)", collection_path.read_text(encoding="utf-8"), re.MULTILINE)
    return True if tests and {f"{name}::{test}" for test in tests} <= slow_functions() else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests out, and draw little for the others."""
    slow = slow_functions()
    left_out = [item for item in items if function_of(item.nodeid) in slow]
    items[:] = [item for item in items if function_of(item.nodeid) not in slow]
    config.hook.pytest_deselected(items=left_out)
    for item in items:
        test = getattr(item, "function", None)
        drawn = getattr(test, "_hypothesis_internal_use_settings", None)
        if test is not None and drawn is not None and drawn.max_examples > EXAMPLES:
            test._hypothesis_internal_use_settings = hypothesis.settings(drawn, max_examples=EXAMPLES)


def function_of(nodeid: str) -> str:
    """A test's name without its parameters."""
    return nodeid.partition("[")[0]


def seconds(results: Path) -> Counter[str]:
    """How long each test function took, all its parameters together."""
    taken: Counter[str] = Counter()
    for case in xml.parse(results).getroot().iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        taken[f"{file}::{function_of(case.get('name', ''))}"] += float(case.get("time", 0))
    return taken


def choose(taken: Counter[str]) -> list[str]:
    """The functions to leave out: those above `MOST`, and the slowest of the others until the rest fits `SECONDS`."""
    left = sum(taken.values())
    slow = []
    for name, time in taken.most_common():
        if time > MOST or left > SECONDS:
            slow.append(name)
            left -= time
    return slow


def main(arguments: Sequence[str]) -> int:
    """Write the list of slow tests from a run's results."""
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        print("usage: python -m tests.quick RESULTS.xml, the file that pytest --junitxml=RESULTS.xml wrote")
        return 2
    taken = seconds(Path(arguments[0]))
    slow = set(choose(taken))
    rest = [time for name, time in taken.items() if name not in slow]
    slow |= slow_functions() - taken.keys()
    head = "# Test functions that `make quick` leaves out. Written by: python -m tests.quick RESULTS.xml\n"
    SLOW.write_text(head + "".join(f"{name}\n" for name in sorted(slow)))
    print(f"{len(rest)} test functions of {sum(rest):.0f} s stay, {len(slow)} are left out")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
