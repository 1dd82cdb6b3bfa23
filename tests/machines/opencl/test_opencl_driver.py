"""Faults of a driver of OpenCL: files cut short in its cache, compilations that do not end, calls that fail."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.errors import ExecutionError, MinitvmError, TargetError
from minitvm.machines.opencl.runtime import devices, driver_cache, kernels
from tests.codegen.test_backends import elementwise

pytest.importorskip("pyopencl")

RUN = """
import numpy as np, sys, minitvm
from tests.codegen.test_backends import elementwise
a, b, c = np.ones((8, 8), "f"), np.ones(8, "f"), np.zeros((8, 8), "f")
module = minitvm.build(elementwise(8, 8), target="opencl -device=pocl -vector_bits=256")
module(a, b, c)
print(int(c.sum()))
"""


def process(folder: Path) -> subprocess.Popen[str]:
    """A program of one kernel, whose driver keeps its files in a folder."""
    setting = {**os.environ, "MINITVM_CACHE_DIR": str(folder), "MINITVM_OPENCL_DEVICE": "pocl"}
    setting.pop(driver_cache.VARIABLE, None)
    return subprocess.Popen([sys.executable, "-c", RUN], env=setting, stdout=subprocess.PIPE, text=True)


def answer(folder: Path) -> tuple[int | None, str]:
    """The exit status of such a program, and what it prints."""
    program = process(folder)
    text, _ = program.communicate(timeout=600)
    return program.returncode, text.strip()


GOOD = 0, "192"


def files(folder: Path, name: str) -> list[Path]:
    return sorted((folder / "pocl").rglob(name))


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_kernels(path: Path) -> None:
    """Whole bitcode in which nothing is: its one block that matters is left out."""
    data = path.read_bytes()
    length = 8 + 4 * int.from_bytes(data[8:12], "little")
    path.write_bytes(data[: 4 + length])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of one program, which has run."""
    folder = tmp_path_factory.mktemp("cache")
    assert answer(folder) == GOOD
    return folder


@pytest.mark.alike("damage")
@pytest.mark.parametrize(("name", "damage"), [
    ("*.so", halved), ("program.bc", halved), ("program.bc", without_kernels),
    ("*.so", lambda path: path.write_bytes(b"")),
])  # fmt: skip
def test_a_damaged_cache_heals_itself(cache: Path, tmp_path: Path, name: str, damage: Callable[[Path], Any]) -> None:
    cache = shutil.copytree(cache, tmp_path / "cache")
    found = files(cache, name)
    assert found, "the driver keeps its files in minitvm's cache"
    for path in found:
        damage(path)
    assert answer(cache) == GOOD
    if damage is without_kernels:  # PoCL still has that file
        assert answer(cache) == GOOD


def test_a_process_that_is_killed_while_the_driver_compiles_spoils_nothing(tmp_path: Path) -> None:
    killed, end = process(tmp_path), time.monotonic() + 600
    while not files(tmp_path, "program.bc") and killed.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert answer(tmp_path) == GOOD


def test_files_cut_short_are_told_from_whole_ones_wherever_they_end(cache: Path, tmp_path: Path) -> None:
    for name, is_whole in (("*.so", driver_cache.is_whole_library), ("program.bc", driver_cache.is_whole_bitcode)):
        path, part = files(cache, name)[0], tmp_path / "part"
        data = path.read_bytes()
        assert is_whole(path)
        for length in (0, 3, 4, 12, 63, *range(64, len(data), len(data) // 50), len(data) - 1):
            part.write_bytes(data[:length])
            assert not is_whole(part), f"{length} of {len(data)} bytes"


# -- limits and failures, in this process


def arrays() -> list[np.ndarray[Any, Any]]:
    return [np.ones((8, 8), np.float32), np.ones(8, np.float32), np.full((8, 8), 77, np.float32)]


@pytest.fixture
def usable() -> Iterator[None]:
    """The device answers again after the test."""
    yield
    devices.current().stuck.clear()


class Waiting:
    """The event of a kernel whose turn does not come."""

    command_execution_status = 2  # CL_SUBMITTED


@pytest.mark.usefixtures("usable")
def test_a_kernel_that_the_driver_does_not_compile_is_named_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyopencl

    module, values = minitvm.build(elementwise(8, 8), target="opencl"), arrays()
    monkeypatch.setenv(kernels.LIMIT, "0.05")
    monkeypatch.setattr(pyopencl, "enqueue_nd_range_kernel", lambda *args, **options: Waiting())
    with pytest.raises(
        TargetError, match=r"has not compiled kernel main_kernel_0 in 0.05 seconds(.|\n)*try: .*-vector"
    ):
        module(*values)
    assert (values[2] == 77).all()
    with pytest.raises(TargetError, match=r"can run nothing in this process: it still compiles kernel main_kernel_0"):
        module(*values)


@pytest.mark.usefixtures("usable")
def test_a_program_that_the_driver_does_not_build_is_named_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.LIMIT, "0.05")
    monkeypatch.setattr(kernels, "_built", lambda *args: time.sleep(1))
    with pytest.raises(TargetError, match=r"has not compiled kernel main_kernel_0 in 0.05 seconds"):
        minitvm.build(elementwise(8, 8), target="opencl")(*arrays())


@pytest.mark.parametrize("text", ["soon", "0", "-1"])
def test_a_limit_that_is_no_time_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(kernels.LIMIT, text)
    with pytest.raises(TargetError, match=f"MINITVM_OPENCL_LIMIT='{text}'\n  wanted: seconds"):
        kernels.limit()


def test_a_program_without_its_kernel_is_refused_with_the_drivers_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_has", lambda *args: False)
    with pytest.raises(
        TargetError, match=r"does not have it\n  found:  no main_kernel_0 in 3 attempts\n.*cache, which"
    ):
        minitvm.build(elementwise(8, 8), target="opencl")(*arrays())


CALLS = [
    ("Kernel", "launch"), ("enqueue_nd_range_kernel", "launch"), ("Buffer", "memory"), ("enqueue_copy", "copy"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "what"), CALLS, ids=[name for name, _ in CALLS])
@pytest.mark.parametrize("kind", ["LogicError", "RuntimeError", "MemoryError"])
def test_every_call_of_the_driver_that_fails_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, name: str, what: str, kind: str
) -> None:
    import pyopencl

    module, values = minitvm.build(elementwise(8, 8), target="opencl"), arrays()

    def fails(*args: Any, **options: Any) -> Any:
        raise getattr(pyopencl, kind)(f"no {what} today")

    with monkeypatch.context() as patch:
        patch.setattr(pyopencl, name, fails)
        with pytest.raises(MinitvmError, match=f"no {what} today"):
            module(*[module.to_device(value) if what == "copy" else value for value in values])
    assert (values[2] == 77).all()
    module(*values)
    assert (values[2] == 3).all()


def test_arguments_that_the_driver_refuses_are_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyopencl

    def fails(*args: Any) -> Any:
        raise pyopencl.LogicError("clSetKernelArg failed: INVALID_ARG_SIZE")

    module = minitvm.build(elementwise(8, 8), target="opencl")
    monkeypatch.setattr(pyopencl.Kernel, "set_args", fails)
    with pytest.raises(ExecutionError, match="main failed on Portable.*INVALID_ARG_SIZE"):
        module(*arrays())
