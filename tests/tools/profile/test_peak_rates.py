"""The measured machine: its numbers are of the order of what is known, and are kept."""

from __future__ import annotations

import dataclasses
import json
import sys
from math import inf
from pathlib import Path

import numpy as np
import pytest

import minitvm as tvm
from minitvm.tir.work import count
from minitvm.tools.profile import Level, Machine, known, machine
from minitvm.tools.profile.microbenchmarks import multiply_add, triad
from minitvm.tools.profile.peak_rates import falling, plausible


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_the_kernels_compute_what_they_say() -> None:
    factor, result = np.full(8, 0.25, np.float32), np.zeros((3, 4, 8), np.float32)
    tvm.build(multiply_add(4, 8), threads=2)(factor, 5, 3, result)
    value = np.float32(0.25)
    for _ in range(5):
        value = value * np.float32(0.25) + np.float32(0.5)
    np.testing.assert_allclose(result, value, rtol=1e-6)
    a, b = (np.random.default_rng(k).standard_normal((2, 5, 8)).astype("float32") for k in (0, 1))
    c = np.zeros_like(a)
    tvm.build(triad(8), threads=2)(a, b, 3, c)
    np.testing.assert_allclose(c, a + 3 * b, rtol=1e-6)


def test_the_chains_stay_in_registers_and_are_counted() -> None:
    func = multiply_add(6, 8)
    kernel = next(f for _, f in tvm.lower(func)["multiply_add"].items() if not f.attrs.get("host"))
    sizes = {p: {"tasks": 2, "repeats": 100}[p.name] for p in kernel.params if p not in kernel.buffers}
    assert count(kernel, sizes).flops == 2 * 100 * 6 * 8 * 2
    (source,) = tvm.lower(func, stop_at="source").values()
    inner = source.split("for _again")[1].split("store(")[0]
    assert inner.count("fma(") == 6 and "store" not in inner


def test_the_clock_is_that_of_the_peak() -> None:
    levels = (Level("memory", inf, 1e10),)
    assert Machine("paper", 1, 3e9, levels, 2e9).clock == 1.5
    assert Machine("paper", 1, 3e9, levels).clock == 1.0, "of a clock that is not known nothing is said"


def test_a_measurement_is_plausible_and_kept(own_cache: Path) -> None:
    assert known(1) is None
    found = machine(1)
    assert known(1) == found
    assert found.threads == 1 and 1e9 < found.peak < 2e13
    assert [level.capacity for level in found.levels] == sorted(level.capacity for level in found.levels)
    assert found.memory.capacity == inf and all(1e8 < level.bandwidth < 1e14 for level in found.levels)
    (file,) = own_cache.glob("machine-*.json")
    kept = json.loads(file.read_text())
    kept["peak"] = 1e15
    file.write_text(json.dumps(kept))
    assert machine(1).peak == 1e15, "a known machine is not measured again"
    assert machine(1, again=True).peak == 1e15, "the best of all measurements is kept"
    file.write_text('{"peak": -1}')
    assert machine(1).peak < 2e13, "what makes no sense counts as absent"


def test_a_distance_finds_its_level() -> None:
    found = Machine("m", 1, 1e9, (Level("L1", 100, 3.0), Level("memory", inf, 1.0)))
    assert [found.level(d).name for d in (0, 100, 101, inf)] == ["L1", "L1", "memory", "memory"]


def test_rates_that_contradict_each_other_are_measured_again_and_never_kept(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs on the same cores slow one kernel down and not the next."""
    good = Machine("m", 1, 1e11, (Level("L1", 100, 300.0), Level("memory", inf, 10.0)), nominal=1.2e11)
    disturbed = [
        dataclasses.replace(good, levels=(Level("L1", 100, 5.0), Level("memory", inf, 10.0))),
        dataclasses.replace(good, peak=1e9),
    ]
    calls = iter([*disturbed, good])
    monkeypatch.setattr(sys.modules[plausible.__module__], "measure", lambda cpu, threads: next(calls))
    assert machine(1) == good, "the best of each"
    assert machine(1) == good and next(calls, None) is good, "two that are good together are enough, and are kept"
    monkeypatch.setattr(sys.modules[plausible.__module__], "measure", lambda cpu, threads: disturbed[0])
    (file,) = own_cache.glob("machine-*.json")
    file.unlink()
    assert machine(1) == falling(disturbed[0]) and not list(own_cache.glob("machine-*.json"))
    for bad in disturbed:
        assert not plausible(bad)


def test_no_level_is_slower_than_the_one_behind_it(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement is too low or right: a small contradiction is mended, a larger one is measured again."""
    rates = (98.0, 100.0, 40.0, 41.0)
    levels = tuple(Level(f"L{k}", 100.0 * k, rate) for k, rate in enumerate(rates[:3], 1))
    noisy = Machine("m", 1, 1e11, (*levels, Level("memory", inf, rates[3])), nominal=1.2e11)
    assert plausible(noisy)
    assert [level.bandwidth for level in falling(noisy).levels] == [100.0, 100.0, 41.0, 41.0]
    monkeypatch.setattr(sys.modules[plausible.__module__], "measure", lambda cpu, threads: noisy)
    assert machine(1) == falling(noisy) == known(1)
    assert not plausible(dataclasses.replace(noisy, levels=(Level("L1", 1, 90.0), Level("memory", inf, 100.0))))
