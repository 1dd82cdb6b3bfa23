"""What every test gets: a Hypothesis profile, a seed, and a kernel cache apart from the user's own."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from .fewer import SHORT_PROFILES, leave_to_full

ROOT = Path(__file__).resolve().parent.parent

# Set before anything of minitvm is imported. The folder stays between runs, so that a second run compiles nothing anew;
# xdist's workers share it, as processes of a user would.
os.environ.setdefault("MINITVM_CACHE_DIR", str(ROOT / ".test_cache"))
os.environ.setdefault("MINITVM_STATE_DIR", str(ROOT / ".test_cache" / "state"))
# What the user measured is not what tests see; a folder that is not there has no records.
os.environ["MINITVM_RECORDS"] = str(ROOT / ".test_cache" / "no_records" / "records.db")
# Whoever imports this file verifies: the planted faults, the tables of pairs. `_verified` says which tests do.
os.environ.setdefault("MINITVM_VERIFY", "1")

# OpenCL runs on the CPU, whatever GPU there is: what the driver of one compiles is another test's matter.
os.environ.setdefault("MINITVM_OPENCL_DEVICE", "pocl")

# And kernels for CUDA are run by Python. Tests marked `gpu` open the device.
os.environ.setdefault("MINITVM_CUDA_DEVICE", "simulator")

# dev: quick, for one person and one test. ci and full: what `make test` and `make test-full` run, the same cases every
# time. deep: `make fuzz`.
# None minds the machine's speed: a first call compiles a kernel, and that is not what these tests measure.
_ANY_SPEED: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("dev", **_ANY_SPEED, max_examples=30)
hypothesis.settings.register_profile("ci", **_ANY_SPEED, derandomize=True, print_blob=True, max_examples=16)
# Planted faults are looked for with more: which draw notices a fault is a part of what is counted.
hypothesis.settings.register_profile("faults", **_ANY_SPEED, derandomize=True, print_blob=True, max_examples=60)
hypothesis.settings.register_profile("full", **_ANY_SPEED, derandomize=True, print_blob=True, max_examples=200)
hypothesis.settings.register_profile("deep", **_ANY_SPEED, max_examples=1000, print_blob=True)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
hypothesis.settings.load_profile(_PROFILE)

# Hypothesis also draws the constants that stand in those of our modules that are imported by then, so a test would draw
# other cases alone than beside all others: a failure in `make test` could not be repeated by itself.
if _PROFILE in SHORT_PROFILES:
    with contextlib.suppress(ImportError):  # an older Hypothesis draws none
        from hypothesis.internal.conjecture import providers

        providers._get_local_constants = lambda: providers._local_constants


def pytest_collection_finish() -> None:
    """Collect garbage less often: interpreters make closures by the million, and a third of the time went into it."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


@pytest.fixture
def collect() -> Callable[[], int]:
    """Collects the garbage of this test alone: what was there before takes a second and more, each time."""
    gc.freeze()
    return gc.collect


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """The global generators start alike in every test, whichever tests ran before it in the same process."""
    random.seed(0)
    np.random.seed(0)


@pytest.fixture(autouse=True)
def _verified(request: pytest.FixtureRequest) -> Iterator[None]:
    """Properties verify: each schedule step, lowered kernel, graph pass and executable goes through its verifier.

    So do tests that change the compiler: they take nothing from the cache that was lowered without it, and leave
    nothing there. The others run as a user's program does.
    """
    from minitvm.lowering import verified

    changes = "monkeypatch" in request.fixturenames
    with verified.anew() if changes else contextlib.nullcontext(), pytest.MonkeyPatch.context() as patch:
        if not changes and not _is_property(request):
            patch.setenv("MINITVM_VERIFY", "0")
        yield


@pytest.fixture(autouse=True)
def _traces_round_trip(request: pytest.FixtureRequest) -> Iterator[None]:
    """The first schedules that a property makes are made again from their traces, and are the same.

    One from JSON, the next from Python text, until each form of each instruction was in a trace of either. More of them
    in `make test-full`: those of one test are much alike, and what a trace must survive has tests of its own
    (tests/tir/schedule/test_traces.py).
    """
    if not _is_property(request):
        yield
        return
    from minitvm.compat.tvm.schedule.testing import replayed_at_the_end

    much = os.environ.get("HYPOTHESIS_PROFILE") in ("full", "deep")
    with replayed_at_the_end(most=5 if much else 2, of_a_form=None if much else 1):
        yield


def _is_property(request: pytest.FixtureRequest) -> bool:
    """Whether Hypothesis draws the inputs of a test (its plugin marks those; so may a test that draws inside)."""
    return request.node.get_closest_marker("hypothesis") is not None


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that gives the same numbers in every run."""
    return np.random.default_rng(0)


@cache
def cuda_device_count() -> int:
    """CUDA devices of this machine; asked of the driver itself, so that no CUDA package is needed to know."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


@pytest.hookimpl(tryfirst=True)  # pytest's own, which leaves out what is marked `full`, comes after
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_to_full(items)
    order = os.environ.get("MINITVM_TEST_ORDER")  # a seed: `make fuzz` may have no time for all of them
    if order:
        random.Random(order).shuffle(items)
    if not any(item.get_closest_marker("gpu") for item in items):
        return
    if cuda_device_count() > 0:
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
