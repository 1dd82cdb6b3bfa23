"""What `make quick` leaves out: tests that there are, by a list that a run's results give."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import quick


def test_every_slow_test_is_there() -> None:
    functions: dict[str, set[str]] = {}
    for name in sorted(quick.slow_functions()):
        file, _, function = name.partition("::")
        if file not in functions:
            tree = ast.parse((quick.ROOT / file).read_text())
            functions[file] = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert function in functions[file], f"{name} is gone: delete its line in tests/slow.txt"


def test_the_slowest_are_left_out_until_the_rest_fits() -> None:
    taken = Counter({"a": quick.MOST + 1, **{f"f{k}": quick.MOST * 0.9 for k in range(100)}, "z": 0.001})
    slow = quick.choose(taken)
    assert slow[0] == "a" and "z" not in slow
    rest = sum(time for name, time in taken.items() if name not in slow)
    assert quick.SECONDS - quick.MOST <= rest <= quick.SECONDS


def test_results_are_summed_by_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "results.xml"
    a, d = "tests.a.test_b", "tests.test_d"
    cases = [(a, "test_c[1]", 2.5), (a, "test_c[2]", 0.5), (d, "test_e", 0.25)]
    rows = "".join(f'<testcase classname="{c}" name="{n}" time="{t}"/>' for c, n, t in cases)
    results.write_text(f"<testsuites><testsuite>{rows}</testsuite></testsuites>")
    assert quick.seconds(results) == {"tests/a/test_b.py::test_c": 3.0, "tests/test_d.py::test_e": 0.25}
    monkeypatch.setattr(quick, "SLOW", tmp_path / "slow.txt")
    quick.SLOW.write_text("# head\ntests/test_f.py::test_g\ntests/test_d.py::test_e\n")
    assert quick.main([str(results)]) == 0
    assert quick.slow_functions() == {"tests/a/test_b.py::test_c", "tests/test_f.py::test_g"}
    assert quick.main(["missing.xml"]) == 2


def test_a_file_of_slow_tests_alone_is_not_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(quick, "SLOW", tmp_path / "slow.txt")
    here = "tests/test_quick.py"
    names = [name for name in globals() if name.startswith("test_")]
    quick.SLOW.write_text("".join(f"{here}::{name}\n" for name in names))
    assert quick.pytest_ignore_collect(quick.ROOT / here)
    assert not quick.pytest_ignore_collect(quick.ROOT / "tests/quick.py")
    assert not quick.pytest_ignore_collect(quick.ROOT / "tests")
    quick.SLOW.write_text("".join(f"{here}::{name}\n" for name in names[1:]))
    assert not quick.pytest_ignore_collect(quick.ROOT / here)


def test_properties_draw_little(request: pytest.FixtureRequest) -> None:
    drawn = []

    @hypothesis.settings(max_examples=50, database=None)
    @given(st.integers())
    def test_property(number: int) -> None:
        drawn.append(number)

    item = pytest.Function.from_parent(request.node.parent, name="test_property", callobj=test_property)
    items: list[pytest.Item] = [item]
    quick.pytest_collection_modifyitems(request.config, items)
    assert items == [item]
    test_property()
    assert len(drawn) == quick.EXAMPLES
