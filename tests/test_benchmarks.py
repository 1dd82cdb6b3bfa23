"""The benchmarks' harness: what it takes for agreement, and that one that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A module of the benchmarks, which are no part of the package, by name."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("wrong", [1.5, np.nan, np.inf])
def test_results_that_differ_or_are_no_numbers_do_not_agree(load: Callable[[str], ModuleType], wrong: float) -> None:
    require_agreement = load("harness").require_agreement
    expected = np.array([1.0, 2.0], np.float32)
    require_agreement("sum", "NumPy", expected + 1e-4, expected)
    for ours, theirs in ((np.array([1.0, wrong]), expected), (expected, np.array([1.0, wrong]))):
        with pytest.raises(RuntimeError, match="sum: minitvm and NumPy differ"):
            require_agreement("sum", "NumPy", ours, theirs)


def test_a_benchmark_without_agreement_does_not_stop_the_others(
    load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    every, require_agreement = load("__main__"), load("harness").require_agreement
    ran = []
    for module in every.BENCHMARKS:
        monkeypatch.setattr(module, "main", lambda name=module.__name__: ran.append(name))
    differ = np.array([np.nan]), np.ones(1)
    monkeypatch.setattr(every.matmul, "main", lambda: require_agreement("product", "NumPy", *differ))
    assert every.main() == 1
    assert "failed: benchmarks.matmul" in capsys.readouterr().err
    assert ran == [module.__name__ for module in every.BENCHMARKS if module is not every.matmul]
