"""The kernel cache: hits, damage of every kind, two writers at once, a directory that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitvm import store
from minitvm.errors import InternalError
from minitvm.machines.cpu.runtime import kernel_cache
from minitvm.machines.cpu.runtime.compiler import compile_kernel
from minitvm.machines.cpu.runtime.loader import load_kernel
from tests.patience import PATIENCE

SOURCE = "def k(args, thread, threads):\n    args[0] = args[1] + 41\n"
JOB = (SOURCE, "k")


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def compiled(jobs: list[tuple[str, str]] | None = None) -> tuple[list[bytes], list[tuple[str, str]]]:
    """Object code, and which jobs had to be compiled for it."""
    asked: list[tuple[str, str]] = []

    def build(absent: list[tuple[str, str]]) -> list[bytes]:
        asked.extend(absent)
        return [compile_kernel(*job) for job in absent]

    return kernel_cache.compiled(jobs or [JOB], build), asked


def the_file(directory: Path) -> Path:
    (path,) = directory.glob("*.o")
    return path


def test_a_kernel_is_compiled_once(empty: Path) -> None:
    first, asked = compiled([JOB, JOB])
    assert asked == [JOB] and first[0] == first[1]
    second, asked = compiled()
    assert asked == [] and second[0] == first[0]
    assert kernel_cache.KERNELS.info().files == 1
    assert kernel_cache.source_path(*JOB).read_text() == SOURCE


def test_another_source_or_cpu_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    key = kernel_cache.key_of(*JOB)
    assert kernel_cache.key_of(SOURCE + "\n", "k") != key
    assert kernel_cache.key_of(SOURCE, "j") != key
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert kernel_cache.key_of(*JOB) != key


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.sampled_from([1, 100, 5_000, 70_000, 300_000]), at=st.integers(0, 1 << 20), name=st.booleans())
def test_one_letter_anywhere_is_another_key_and_another_file(length: int, at: int, name: bool) -> None:
    """Sources and names are as long as they like: no part of them is left out of the key."""
    text = "a" * length
    other = text[: at % length] + "b" + text[at % length + 1 :]
    jobs = [(SOURCE, text), (SOURCE, other)] if name else [(text, "k"), (other, "k")]
    assert len({kernel_cache.key_of(*job) for job in jobs}) == 2
    assert len({kernel_cache.source_path(*job) for job in jobs}) == 2
    assert kernel_cache.key_of(text + "k", "k") != kernel_cache.key_of(text, "kk")


DAMAGE = {
    "empty": lambda d: b"",
    "truncated header": lambda d: d[:20],
    "truncated code": lambda d: d[:-7],
    "a flipped bit": lambda d: d[:-9] + bytes([d[-9] ^ 4]) + d[-8:],
    "a flipped checksum": lambda d: d[:45] + bytes([d[45] ^ 1]) + d[46:],
    "longer": lambda d: d + b"x",
    "foreign": lambda d: b"\x80\x04cos\nsystem\n" * 20,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_built_again(empty: Path, damage: str) -> None:
    compiled()
    path = the_file(empty)
    whole = path.read_bytes()
    path.write_bytes(DAMAGE[damage](whole))
    before = kernel_cache.KERNELS.info().damaged
    again, asked = compiled()
    assert asked == [JOB] and kernel_cache.KERNELS.info().damaged == before + 1
    assert load_kernel(again[0], "k").address
    assert compiled()[1] == []  # and it is whole again
    assert store.decode(kernel_cache.key_of(*JOB), path.read_bytes()) == again[0]


def test_a_file_under_anothers_name_is_not_used(empty: Path) -> None:
    other = ("def k(args, thread, threads):\n    args[0] = 7\n", "k")
    compiled([other])
    foreign = the_file(empty).read_bytes()
    compiled()
    target = next(p for p in empty.glob("*.o") if p.read_bytes() != foreign)
    target.write_bytes(foreign)
    assert compiled()[1] == [JOB]


def test_two_processes_write_at_once(empty: Path) -> None:
    """Several writers of one key: every reader finds a whole file or none, and no scraps stay behind."""
    program = (
        "import sys\n"
        "from minitvm.machines.cpu.runtime import kernel_cache as c\n"
        "source, code = sys.argv[1], bytes(range(256)) * 400\n"
        "for i in range(150):\n"
        "    c.put(source, 'k', code)\n"
        "    found = c.get(source, 'k')\n"
        "    assert found == code, 'torn'\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[4])}
    writers = [subprocess.Popen([sys.executable, "-c", program, SOURCE], env=environment) for _ in range(2)]
    assert [w.wait(timeout=PATIENCE) for w in writers] == [0, 0]
    assert [p.suffix for p in sorted(empty.iterdir())] == [".o", ".py"]


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc").exists(), reason="needs a place that cannot be written")
def test_without_a_directory_it_works_with_one_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "a_file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(blocked / "cache"))
    with pytest.warns(RuntimeWarning, match="compiled kernels are not kept"):
        assert compiled()[1] == [JOB]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled()[1] == [JOB]  # compiled again, silently
    assert kernel_cache.KERNELS.info().files == 0


def test_clear_and_trim(empty: Path) -> None:
    jobs = [(f"def k(args, thread, threads):\n    args[0] = {i}\n", "k") for i in range(3)]
    for age, job in enumerate(jobs):
        compiled([job])
        os.utime(kernel_cache.source_path(*job).with_suffix(".o"), (1e9 + age, 1e9 + age))
    compiled([jobs[0]])  # now the most recently used
    size = max(p.stat().st_size for p in empty.glob("*.o"))
    partial, abandoned = empty / ".kernel-new.tmp", empty / ".kernel-old.tmp"
    for path in (partial, abandoned):
        path.write_bytes(b"half")
    os.utime(abandoned, (1e9, 1e9))  # of a process that was killed
    kernel_cache.KERNELS.trim(2 * size)
    assert partial.exists() and not abandoned.exists()
    assert kernel_cache.get(*jobs[0]) and kernel_cache.get(*jobs[2]) and kernel_cache.get(*jobs[1]) is None
    assert not kernel_cache.source_path(*jobs[1]).exists()
    assert kernel_cache.KERNELS.clear() == 2
    assert list(empty.iterdir()) == []


def test_object_code_with_a_missing_symbol_is_refused_not_fatal() -> None:
    source = (
        "from minitvm.machines.cpu.runtime.concurrency import yield_core\n"
        "def k(args, thread, threads):\n    yield_core()\n"
    )  # fmt: skip
    code = compile_kernel(source, "k")
    broken = code.replace(b"sched_yield", b"sched_yiexx")
    assert load_kernel(code, "k").address
    with pytest.raises(InternalError, match="needs sched_yiexx"):
        load_kernel(broken, "k")


def test_cached_kernels_run_without_numba(empty: Path) -> None:
    compiled()
    program = (
        "import ctypes, sys\n"
        "from minitvm.machines.cpu.runtime import kernel_cache\n"
        "from minitvm.machines.cpu.runtime.loader import load_kernel\n"
        "from minitvm.machines.cpu.runtime.executor import native_call\n"
        f"k = load_kernel(kernel_cache.get({SOURCE!r}, 'k'), 'k')\n"
        "words = (ctypes.c_int64 * 2)(0, 1)\n"
        "native_call(k.address)(ctypes.addressof(words), 0, 1)\n"
        "assert words[0] == 42, words[0]\n"
        "import minitvm.runtime.module, minitvm.runtime.function\n"
        "for heavy in ('numba', 'sympy', 'onnx', 'minitvm.tir', 'minitvm.te'):\n"
        "    assert heavy not in sys.modules, heavy\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[4])}
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, env=environment, timeout=PATIENCE, check=False).returncode == 0
