"""Models that are kept on disk: the second build loads, and computes the same bits."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import store
from minitvm.build import compile_executable
from minitvm.executable.alignment import address
from minitvm.frontends import read_gguf
from minitvm.frontends.gguf import GgufFile
from minitvm.runtime.artifact import kept
from minitvm.topi import registry
from tests.frontends.gguf.models import write_model
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
OPTIONS: dict[str, Any] = {"shapes": {"tokens": (1, 1)}, "max_length": 16, "threads": 1}


def write(path: Path, seed: int = 0) -> None:
    write_model(path, kind="Q8_0", depth=1, seed=seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, and a cache in which it is kept."""
    place = tmp_path_factory.mktemp("kept")
    write(place / "model.gguf")
    return place


@pytest.fixture(autouse=True)
def own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Levels are not verified, and every file counts as settled."""
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("MINITVM_VERIFY", "0")
    monkeypatch.setattr(store, "_CLOCK", 0)
    for name, operator in list(registry.OPERATORS.items()):
        if not operator.compute.__module__.startswith("minitvm."):
            monkeypatch.delitem(registry.OPERATORS, name)  # of other tests
    minitvm.build(folder / "model.gguf", **OPTIONS)
    return folder / "cache"


class Compiled:
    """Counts the executables that are compiled while it watches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(sys.modules["minitvm.build"], "compile_executable", self)

    def __call__(self, *args: Any) -> Any:
        self.count += 1
        return compile_executable(*args)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Compiled:
    return Compiled(monkeypatch)


def logits(module: Any) -> np.ndarray:
    """Return the logits after three tokens, which are in the caches then."""
    return np.stack([module(np.array([[5 + k]], "int32"), np.array([k], "int32")) for k in range(3)])


def test_the_second_build_loads_the_same_bits(folder: Path, compiled: Compiled, monkeypatch: Any) -> None:
    loaded = minitvm.build(folder / "model.gguf", **OPTIONS)
    assert compiled.count == 0 and list(loaded.state) == ["cache_0_key", "cache_0_value"]
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(folder / "empty"))
    built = minitvm.build(folder / "model.gguf", **OPTIONS)
    assert compiled.count == 1
    np.testing.assert_array_equal(logits(loaded), logits(built))
    assert str(loaded.executable) == str(built.executable)


def test_another_option_is_another_program(folder: Path, compiled: Compiled) -> None:
    others: list[dict[str, Any]] = [{"max_length": 8}, {"accuracy": "strict"}, {"shapes": {"tokens": (2, 1)}}]
    for _ in range(2):
        for changed in others:
            minitvm.build(folder / "model.gguf", **{**OPTIONS, **changed})
        assert compiled.count == len(others)
    minitvm.build(folder / "model.gguf", **{**OPTIONS, "threads": 2})
    assert compiled.count == len(others), "the number of threads decides nothing that is kept"


def test_programs_share_their_weights(folder: Path) -> None:
    file = read_gguf(folder / "model.gguf")
    for _ in range(2):
        modules = [minitvm.build(file, **{**OPTIONS, "shapes": {"tokens": (batch, 1)}}) for batch in (1, 2)]
    first, second = ([address(c.data) for c in module.executable.constants] for module in modules)
    assert first == second
    assert not any(c.data.flags.writeable for c in modules[0].executable.constants)


def test_changed_content_is_noticed(tmp_path: Path, compiled: Compiled) -> None:
    path = tmp_path / "changed.gguf"
    write(path)
    first = logits(minitvm.build(path, **OPTIONS))
    times, size = os.stat(path), path.stat().st_size
    write(path, seed=1)  # in place
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == size
    second = logits(minitvm.build(path, **OPTIONS))
    assert compiled.count == 2 and not np.array_equal(first, second)
    stale = read_gguf(path)
    write(tmp_path / "other", seed=2)
    os.replace(tmp_path / "other", path)  # the object still has the old file
    np.testing.assert_array_equal(logits(minitvm.build(stale, **OPTIONS)), second)
    assert not np.array_equal(logits(minitvm.build(path, **OPTIONS)), second)


def test_a_file_that_is_edited_in_memory_is_not_kept(folder: Path, compiled: Compiled) -> None:
    """The file on disk does not have the edits, so neither build may get the program of the other."""
    path = folder / "model.gguf"
    expected = logits(minitvm.build(path, **OPTIONS))
    epsilon = "llama.attention.layer_norm_rms_epsilon"
    norm = "output_norm.weight"

    def metadata(file: GgufFile) -> GgufFile:
        file.metadata[epsilon] = 10.0
        return file

    def replaced(file: GgufFile) -> GgufFile:
        return dataclasses.replace(file, metadata={**file.metadata, epsilon: 10.0})

    def tensors(file: GgufFile) -> GgufFile:
        tensor = file.tensors[norm]
        data = (tensor.data.copy().view("float32") * 2).view("uint8")
        file.tensors[norm] = dataclasses.replace(tensor, data=data)
        return file

    for number, edited in enumerate((metadata, replaced, tensors), 1):
        assert not np.array_equal(logits(minitvm.build(edited(read_gguf(path)), **OPTIONS)), expected)
        assert compiled.count == number
        np.testing.assert_array_equal(logits(minitvm.build(path, **OPTIONS)), expected)
        np.testing.assert_array_equal(logits(minitvm.build(read_gguf(path), **OPTIONS)), expected)
        assert compiled.count == number


def test_a_file_that_changed_a_moment_ago_is_not_kept(
    tmp_path: Path, compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could change again without another time."""
    monkeypatch.setattr(store, "_CLOCK", 3600 * 10**9)
    write(tmp_path / "model.gguf")
    for _ in range(2):
        minitvm.build(tmp_path / "model.gguf", **OPTIONS)
    assert compiled.count == 2


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def altered(data: bytes) -> bytes:
    place = len(data) - 70
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize("damage", [truncated, altered, lambda data: b"", lambda data: data + b"x", None])
@pytest.mark.parametrize("suffix", [".program", ".weights"])
def test_a_damaged_file_is_built_again(
    folder: Path, tmp_path: Path, compiled: Compiled, monkeypatch: pytest.MonkeyPatch, suffix: str,
    damage: Callable[[bytes], bytes] | None,
) -> None:  # fmt: skip
    expected = logits(minitvm.build(folder / "model.gguf", **OPTIONS))
    shutil.copytree(folder / "cache", tmp_path / "cache")
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(tmp_path / "cache"))
    for file in (tmp_path / "cache").glob(f"*{suffix}"):
        data = file.read_bytes()
        file.unlink()
        if damage is not None:
            file.write_bytes(damage(data))
    kept._mapped.clear()  # as in a new process
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            np.testing.assert_array_equal(logits(minitvm.build(folder / "model.gguf", **OPTIONS)), expected)
            assert compiled.count == 1


def test_code_from_elsewhere_is_not_kept(folder: Path, compiled: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(x: Any) -> Any:
        return x

    own = registry.get("nn.relu")
    monkeypatch.setitem(registry.OPERATORS, "my.relu", dataclasses.replace(own, compute=elsewhere))
    minitvm.build(folder / "model.gguf", **OPTIONS)
    assert compiled.count == 1


def test_other_code_builds_anew(folder: Path, compiled: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "code_state", lambda: b"another version")
    minitvm.build(folder / "model.gguf", **OPTIONS)
    assert compiled.count == 1


def test_a_folder_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(folder / "model.gguf" / "cache"))
    with pytest.warns(RuntimeWarning, match="are not kept"):
        logits(minitvm.build(folder / "model.gguf", **OPTIONS))


FRESH = """\
import sys
import minitvm, numpy as np
module = minitvm.build(sys.argv[1], shapes={"tokens": (1, 1)}, max_length=16, threads=1)
module(np.array([[5]], "int32"), np.array([0], "int32"))
print(*[name for name in sys.argv[2:] if name in sys.modules])
"""


def test_a_fresh_process_imports_no_compiler(folder: Path, own_cache: Path) -> None:
    heavy = ["numba", "llvmlite", "sympy", "islpy", "z3", "onnx"]
    run = [sys.executable, "-c", FRESH, folder / "model.gguf", *heavy]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    before = {path: path.stat().st_size for path in own_cache.iterdir()}
    done = subprocess.run(run, env=environment, timeout=PATIENCE, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
    assert {path: path.stat().st_size for path in own_cache.iterdir()} == before
