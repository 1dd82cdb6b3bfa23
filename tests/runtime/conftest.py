"""A cache of its own for these tests, and the shortest way from kernel source to a call on arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.machines.cpu.runtime.compiler import compile_kernel
from minitvm.machines.cpu.runtime.executor import native_call
from minitvm.machines.cpu.runtime.loader import load_kernel


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))


@functools.cache
def compiled(source: str) -> Callable[..., None]:
    loaded = load_kernel(compile_kernel(source, "kernel"), "kernel")
    native = native_call(loaded.address)

    def call(*args: Any) -> None:
        """Arrays by address, integers by value."""
        words = np.array([a.ctypes.data if isinstance(a, np.ndarray) else a for a in args], np.int64)
        native(words.ctypes.data, 0, 1)

    call.loaded = loaded  # type: ignore[attr-defined]
    return call


@pytest.fixture
def kernel() -> Callable[[str], Callable[..., None]]:
    """`kernel(source)(*arrays and integers)`: compiles the text that defines `kernel(args, thread, threads)`."""
    return compiled
