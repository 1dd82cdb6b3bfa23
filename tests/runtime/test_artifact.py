"""Artifacts: a module comes back from its file the same, a file that is not whole or not trusted does not come back."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm import runtime
from minitvm.errors import ArtifactError, InputError, MinitvmError, MissingExtra, Unsupported, needed
from minitvm.executable import CallExternal, Executable, Input, Output, TensorSpec
from minitvm.expr import DType, SizeVar
from minitvm.graph import GraphBuilder
from minitvm.runtime import GraphModule
from minitvm.runtime.artifact import format, sign
from minitvm.script import tir as T
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True, scope="module")
def own_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A key of these tests' own, not the user's."""
    folder = tmp_path_factory.mktemp("config")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITVM_CONFIG_DIR", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def own_cache() -> None:
    """Not the one of this folder's other tests, which are about compiling: the cache that stays between runs."""


def network() -> Any:
    """A convolution with a residual, pooling and a dense layer with a softmax: weights of several sizes, an arena."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("small")
    x = b.input("x", (1, 3, 12, 12), "float32")
    weight = b.constant(rng.standard_normal((16, 3, 3, 3)).astype(np.float32))
    y = b.op("nn.conv2d", x, weight, padding=1)
    y = b.op("nn.relu", y)
    z = b.op("nn.conv2d", y, b.constant(rng.standard_normal((16, 16, 1, 1)).astype(np.float32) / 4))
    z = b.op("nn.global_avg_pool", b.op("add", y, z))
    z = b.op("nn.batch_flatten", z)
    z = b.op("nn.dense", z, b.constant(rng.standard_normal((5, 16)).astype(np.float32)))
    return b.build(b.op("nn.softmax", b.op("tanh", z)))


@pytest.fixture(scope="module")
def built() -> GraphModule:
    return minitvm.build(network(), threads=2)


@pytest.fixture(scope="module")
def saved(built: GraphModule, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "net.mtvm"
    built.export(path)
    return path


def image(seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((1, 3, 12, 12)).astype(np.float32)


def in_a_fresh_process(program: str, *args: object, **environment: str) -> str:
    """What the program prints; its standard error must stay empty."""
    run = [sys.executable, "-c", program, *map(str, args)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MINITVM_VERIFY": "0", **environment}
    done = subprocess.run(run, env=env, timeout=PATIENCE, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


# -- there and back


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_same_bits_come_out(built: GraphModule, saved: Path, threads: int) -> None:
    loaded = runtime.load(saved, threads=threads)
    assert isinstance(loaded, GraphModule) and loaded.threads == threads
    assert repr(loaded) == repr(built)
    for seed in range(3):
        np.testing.assert_array_equal(loaded(image(seed)), built(image(seed)))
    loaded.set_input("x", image(7))
    loaded.run()
    np.testing.assert_array_equal(loaded.get_output(0), built(image(7)))
    out = np.empty((1, 5), np.float32)
    assert loaded(x=image(8), out=out) is out
    np.testing.assert_array_equal(out, built(image(8)))


def test_weights_lie_in_the_mapped_file_and_are_aligned(saved: Path) -> None:
    loaded = runtime.load(saved)
    for spec, used in zip(loaded.executable.constants, loaded._program.constants, strict=True):
        assert used is spec.data, "copied"
        assert used.ctypes.data % 64 == 0 and not used.flags.writeable


def test_the_file_is_a_function_of_the_module_and_key(built: GraphModule, saved: Path, tmp_path: Path) -> None:
    built.export(tmp_path / "again.mtvm")
    assert (tmp_path / "again.mtvm").read_bytes() == saved.read_bytes()
    runtime.load(saved).export(tmp_path / "from_loaded.mtvm")
    assert (tmp_path / "from_loaded.mtvm").read_bytes() == saved.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.mtvm", "from_loaded.mtvm"], "something was left behind"


def test_a_module_keeps_its_file_when_another_takes_its_place(built: GraphModule, tmp_path: Path) -> None:
    built.export(tmp_path / "net.mtvm")
    loaded = runtime.load(tmp_path / "net.mtvm")
    minitvm.build(axpy).export(tmp_path / "net.mtvm")
    np.testing.assert_array_equal(loaded(image()), built(image()))
    assert isinstance(runtime.load(tmp_path / "net.mtvm"), runtime.Function)
    (tmp_path / "net.mtvm").unlink()
    np.testing.assert_array_equal(loaded(image(1)), built(image(1)))


def test_symbolic_dimensions_stay_symbolic(tmp_path: Path) -> None:
    n = SizeVar("n", "int64")
    b = GraphBuilder("rows")
    x = b.input("x", (n, 6), "float32")
    weight = b.constant(np.arange(24, dtype=np.float32).reshape(4, 6))
    built = minitvm.build(b.build(b.op("nn.relu", b.op("nn.dense", x, weight))), threads=2)
    built.export(tmp_path / "rows.mtvm")
    loaded = runtime.load(tmp_path / "rows.mtvm", threads=2)
    for rows in (1, 7, 0, 33, 7):
        given = np.random.default_rng(rows).standard_normal((rows, 6)).astype(np.float32)
        np.testing.assert_array_equal(loaded(given), built(given))
    with pytest.raises(InputError, match=r"x: float32\(n, 6\)"):
        loaded(np.zeros((3, 5), np.float32))


@T.prim_func
def axpy(a: T.float32, x: T.Buffer((19,), "float32"), y: T.Buffer((19,), "float32")) -> None:  # type: ignore[valid-type]
    for i in T.serial(19):
        with T.block("y"):
            v = T.axis.spatial(19, i)
            y[v] = y[v] + a * x[v]


def test_a_tir_function_comes_back_as_one(tmp_path: Path) -> None:
    built = minitvm.build(axpy, threads=1)
    built.export(tmp_path / "axpy.mtvm")
    loaded = runtime.load(tmp_path / "axpy.mtvm")
    assert isinstance(loaded, runtime.Function) and loaded.signature == built.signature
    x, y = np.arange(19, dtype=np.float32), np.ones(19, np.float32)
    loaded(2.0, x, y)
    np.testing.assert_array_equal(y, 1 + 2 * x)


FRESH = """\
import sys, numpy as np
x, wanted, path = np.load(sys.argv[1]), np.load(sys.argv[2]), sys.argv[3]
import minitvm.runtime
module = minitvm.runtime.load(path)
np.testing.assert_array_equal(module(x), wanted)
heavy = "numba llvmlite sympy islpy onnx rich minitvm.tir minitvm.te minitvm.graph minitvm.build".split()
print(*[name for name in heavy if name in sys.modules])
"""


def test_a_fresh_process_loads_no_compiler(built: GraphModule, saved: Path, tmp_path: Path) -> None:
    """Not even with an empty kernel cache: the file is all it takes."""
    np.save(tmp_path / "x.npy", image())
    np.save(tmp_path / "y.npy", built(image()))
    args = (tmp_path / "x.npy", tmp_path / "y.npy", saved)
    assert in_a_fresh_process(FRESH, *args, MINITVM_CACHE_DIR=str(tmp_path / "empty")) == "\n"
    assert not (tmp_path / "empty").exists()


OTHER_CPU = FRESH.replace("assert_array_equal(module(x), wanted)", "assert_allclose(module(x), wanted, rtol=1e-5)")


@pytest.mark.parametrize("environment", [{"NUMBA_CPU_NAME": "nehalem"}, {"NUMBA_CPU_FEATURES": "+sse4.2"}])
def test_another_cpu_compiles_the_sources(tmp_path: Path, environment: dict[str, str]) -> None:
    b = GraphBuilder("rise")
    built = minitvm.build(b.build(b.op("add", b.op("exp", b.input("x", (3, 5), "float32")), b.constant(np.float32(2)))))
    built.export(tmp_path / "rise.mtvm")
    x = np.linspace(-3, 3, 15, dtype=np.float32).reshape(3, 5)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", built(x))
    args = (tmp_path / "x.npy", tmp_path / "y.npy", tmp_path / "rise.mtvm")
    cache = {"MINITVM_CACHE_DIR": str(tmp_path / "cache"), **environment}
    assert in_a_fresh_process(OTHER_CPU, *args, **cache) == "numba llvmlite\n"
    assert in_a_fresh_process(OTHER_CPU, *args, **cache) == "llvmlite\n", "the second time they are in the cache"


MISSING = """\
import pickle, sys, numpy as np
path, packages, task = sys.argv[1:]
sys.modules.update(dict.fromkeys(packages.split()))  # importing them fails
import minitvm.runtime
from minitvm.errors import MissingExtra
try:
    module = minitvm.runtime.load(path)
    if task == "pickle":
        pickle.dumps(module)
except MissingExtra as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("packages", "cpu", "task", "message"),
    [
        (
            "numba", "nehalem", "load",
            "numba is not installed, and it is needed to prepare small for this machine (cpu)",
        ),
        (
            "numba llvmlite", "nehalem", "load",
            "llvmlite is not installed, and it is needed because {path} has no machine code for exactly this machine",
        ),
        (
            "numba llvmlite", "", "pickle",
            "llvmlite is not installed, and it is needed to save the machine code of small",
        ),
    ],
)  # fmt: skip
def test_a_package_that_is_missing_is_named(
    saved: Path, tmp_path: Path, packages: str, cpu: str, task: str, message: str
) -> None:
    environment = {"MINITVM_CACHE_DIR": str(tmp_path), **({"NUMBA_CPU_NAME": cpu} if cpu else {})}
    text = in_a_fresh_process(MISSING, saved, packages, task, **environment)
    first, *tries = text.splitlines()
    assert first == message.format(path=saved)
    bringing = ", which brings llvmlite" if first.startswith("llvmlite") else ""
    assert tries[0] == f"  try:    pip install numba{bringing}" and len(tries) > 1


def test_a_missing_package_of_our_own_is_no_matter_of_installing() -> None:
    for name in ("minitvm.nothing", None):
        with pytest.raises(ModuleNotFoundError) as error, needed("for this"):
            raise ModuleNotFoundError("no", name=name)
        assert not isinstance(error.value, MissingExtra)


def test_code_of_another_format_is_kept_as_objects(
    built: GraphModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a system has that is not Linux on AMD64: LLVM loads it, and nothing is compiled."""
    from minitvm.machines.cpu.runtime import machine_code

    def no_link(objects: Any) -> Any:
        raise Unsupported("object code is not a relocatable ELF64 file for AMD64")

    monkeypatch.setattr(machine_code, "link", no_link)
    built.export(tmp_path / "net.mtvm")
    np.save(tmp_path / "x.npy", image())
    np.save(tmp_path / "y.npy", built(image()))
    args = (tmp_path / "x.npy", tmp_path / "y.npy", tmp_path / "net.mtvm")
    assert in_a_fresh_process(FRESH, *args, MINITVM_CACHE_DIR=str(tmp_path / "empty")) == "llvmlite\n"
    assert not (tmp_path / "empty").exists()


def test_an_external_engine_is_called_by_name(tmp_path: Path) -> None:
    spec = TensorSpec("x", DType("float32"), (3,))
    call = CallExternal("negate", (Input(0), Output(0)), ("r", "w"), (spec, spec), {"scale": 2.0})
    out = TensorSpec("y", DType("float32"), (3,))
    built = GraphModule(Executable("outside", "cpu", (spec,), (out,), (), (), (), (call,)), threads=1)
    built.export(tmp_path / "m.mtvm")
    loaded = runtime.load(tmp_path / "m.mtvm")

    def negate(arrays: Any, attrs: Any) -> None:
        arrays[1][...] = -arrays[0] * attrs["scale"]

    runtime.register_engine("negate", negate)
    np.testing.assert_array_equal(loaded(np.array([1, 2, 3], np.float32)), [-2, -4, -6])
    bad = CallExternal("negate", (Input(0), Output(0)), ("r", "w"), (spec, spec), {"scale": object()})
    with pytest.raises(Unsupported, match="cannot be saved as JSON: .*object is not JSON serializable"):
        GraphModule(Executable("outside", "cpu", (spec,), (out,), (), (), (), (bad,)), threads=1).export(tmp_path / "n")
    assert not (tmp_path / "n").exists()


# -- what is not whole


def damaged(path: Path, data: bytes) -> str:
    """The error for a file of these bytes, which trust must not help."""
    path.write_bytes(data)
    with pytest.raises(ArtifactError) as error:
        runtime.load(path, trust=True)
    assert str(path) in str(error.value)
    with pytest.raises(ArtifactError):
        runtime.load(path)
    return str(error.value).replace(str(path), "PATH")


def test_code_is_checked_after_it_was_copied(built: GraphModule, saved: Path, tmp_path: Path) -> None:
    """Who can write to the file changes nothing that runs, however soon after the check."""
    path = tmp_path / "open.mtvm"
    path.write_bytes(saved.read_bytes())
    whole = format.read(path, mapped=("weights",))
    kept = {name: bytes(section) for name, section in whole.sections.items()}
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    changed = [name for name, section in whole.sections.items() if bytes(section) != kept[name]]
    assert changed == ["weights"]


def borders(path: Path) -> list[int]:
    """Where each part of an artifact begins and ends."""
    whole = format.read(path)
    data = path.read_bytes()
    starts = [data.index(bytes(section)) for section in whole.sections.values()]
    ends = [start + len(section) for start, section in zip(starts, whole.sections.values())]
    return sorted({0, 8, 64, 96, 128, *starts, *ends, len(data)})


def test_truncated_anywhere_is_refused(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    size = len(data)
    places = borders(saved)
    assert len(places) >= 10
    for place in places:
        for length in (place - 1, place, place + 1):
            if not 0 <= length < size:
                continue
            text = damaged(tmp_path / "short.mtvm", data[:length])
            if length == 0:
                assert text == "PATH is not an artifact of minitvm: it is empty"
            elif length < 8:
                assert text == "PATH is not an artifact of minitvm"
            elif length < 128:
                assert text == f"PATH is truncated: {length} bytes"
            else:
                assert text == f"PATH is truncated: {length} bytes, wanted {size}"
    assert damaged(tmp_path / "long.mtvm", data + b"\0") == f"PATH is too long: {size + 1} bytes, wanted {size}"


@given(st.data())
def test_one_altered_byte_anywhere_is_refused(saved: Path, data: st.DataObject) -> None:
    whole = bytearray(saved.read_bytes())
    parts = borders(saved)
    part = data.draw(st.integers(0, len(parts) - 2))
    at = data.draw(st.integers(parts[part], parts[part + 1] - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    text = damaged(saved.with_name("altered.mtvm"), bytes(whole))
    assert "was altered or damaged" in text or (at < 8 and text == "PATH is not an artifact of minitvm")


def test_what_is_damaged_is_named(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    for name, section in format.read(saved).sections.items():
        data = bytearray(whole)
        data[whole.index(bytes(section)) + len(section) // 2] ^= 1
        text = damaged(tmp_path / "altered.mtvm", bytes(data))
        assert text == f"PATH was altered or damaged: the checksum of its {name} does not match"


def test_what_is_no_artifact_is_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"missing\.mtvm cannot be read: No such file or directory$"):
        runtime.load(tmp_path / "missing.mtvm")
    with pytest.raises(ArtifactError, match="cannot be read: Is a directory$"):
        runtime.load(tmp_path)
    assert damaged(tmp_path / "m.onnx", b"\x08\x07\x12\x04test") == "PATH is not an artifact of minitvm"
    text = saved.read_bytes().replace(b"\r\n", b"\n")  # as a transfer in text mode does it
    assert damaged(tmp_path / "text.mtvm", text) == "PATH is not an artifact of minitvm"


def rewritten(saved: Path, path: Path, **changes: Any) -> Path:
    """An artifact whose checksums and signature hold, with some sections or the head's version changed."""
    whole = format.read(saved)
    key = sign.user_key()
    assert key is not None
    sections = {name: (len(data), [bytes(data)]) for name, data in {**whole.sections, **changes}.items()}
    format.write(path, whole.about, sections, lambda head: sign.signature(head, key))
    return path


def test_a_file_of_another_version_is_refused(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = format.read(saved)
    sections = {name: (len(data), [bytes(data)]) for name, data in whole.sections.items()}
    path, ours, later = tmp_path / "new.mtvm", format.VERSION, format.VERSION + 1
    with monkeypatch.context() as patch:
        patch.setattr(format, "VERSION", later)
        format.write(path, whole.about, sections, lambda head: bytes(32))
    with pytest.raises(ArtifactError) as error:
        runtime.load(path)
    assert str(error.value) == (
        f"{path} has version {later} of the format; this minitvm reads version {ours}: export it again"
    )


@pytest.mark.parametrize(
    "changes", [{"program": b"{}"}, {"program": b"[1"}, {"code": b"[]"}, {"machine_code": b""}, {"weights": b""}]
)
def test_a_file_that_is_whole_but_wrong_is_refused(saved: Path, tmp_path: Path, changes: dict[str, bytes]) -> None:
    path = rewritten(saved, tmp_path / "wrong.mtvm", **changes)
    with pytest.raises(
        ArtifactError, match=r"not put together as this minitvm does it \(.*made by minitvm 0.*: export"
    ):
        runtime.load(path)


# -- whose it is


UNSIGNED = """\
PATH was not signed with WHOSE, and was not loaded: it holds machine code, which would run with all of your rights
  try:    trust=True (on the command line --trust), if you know where the file is from
          key= (--key FILE), with the key that it was exported with
          export it again here, from the model"""


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(ArtifactError) as error:
        runtime.load(path, **options)
    return str(error.value).replace(str(path), "PATH")


def test_somebody_elses_artifact_needs_trust(
    built: GraphModule, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yours = UNSIGNED.replace("WHOSE", "your key on this machine")
    monkeypatch.setenv("MINITVM_CONFIG_DIR", str(tmp_path / "another_user"))
    assert refused(saved) == yours
    assert not (tmp_path / "another_user").exists(), "loading makes no key"
    built.export(tmp_path / "mine.mtvm")  # makes one
    runtime.load(tmp_path / "mine.mtvm")
    assert refused(saved) == yours
    np.testing.assert_array_equal(runtime.load(saved, trust=True)(image()), built(image()))


def test_a_key_that_is_shared(built: GraphModule, saved: Path, tmp_path: Path) -> None:
    key, other = b"k" * 32, tmp_path / "team.key"
    other.write_bytes(b"t" * 20)
    built.export(tmp_path / "bytes.mtvm", key=key)
    built.export(tmp_path / "file.mtvm", key=other)
    runtime.load(tmp_path / "bytes.mtvm", key=key)
    runtime.load(tmp_path / "file.mtvm", key=str(other))
    handed_over = UNSIGNED.replace("WHOSE", "the key handed over")
    assert refused(tmp_path / "bytes.mtvm", key=other) == handed_over
    assert refused(saved, key=key) == handed_over
    assert refused(tmp_path / "bytes.mtvm") == UNSIGNED.replace("WHOSE", "your key on this machine")
    for bad, text in (
        (b"short", "key has 5 bytes; wanted at least 16, such as"),
        (tmp_path / "none.key", "none.key cannot be read: No such file"),
    ):
        with pytest.raises(InputError, match=text):
            runtime.load(saved, key=bad)
        with pytest.raises(InputError, match=text):
            built.export(tmp_path / "bad.mtvm", key=bad)
    with pytest.raises(InputError, match="give one of the two"):
        runtime.load(saved, trust=True, key=key)
    assert not (tmp_path / "bad.mtvm").exists()


def test_a_forged_signature_is_refused(saved: Path, tmp_path: Path) -> None:
    """Whoever can compute checksums still has no key: other bytes, of a signature or signed over, are found out."""
    whole, forged = format.read(saved), tmp_path / "forged.mtvm"
    sections = {name: (len(data), [bytes(data)]) for name, data in whole.sections.items()}
    unsigned = UNSIGNED.replace("WHOSE", "your key on this machine")
    changed = {**sections, "weights": (len(whole.sections["weights"]), [bytes(len(whole.sections["weights"]))])}
    signatures = (bytes(32), b"\xff" * 32, sign.signature(whole.head, b"guess" * 8), whole.signature)
    for signature in signatures:
        format.write(forged, whole.about, changed, lambda head, signature=signature: signature)
        assert refused(forged) == unsigned
    format.write(forged, whole.about, sections, lambda head: whole.signature)
    runtime.load(forged)  # what was signed, byte by byte


def test_the_users_key_is_his_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: Path) -> None:
    monkeypatch.setenv("MINITVM_CONFIG_DIR", str(tmp_path / "config"))
    assert sign.user_key() is None
    key = sign.make_user_key()
    path = sign.key_path()
    assert sign.make_user_key() == sign.user_key() == key == path.read_bytes() and len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["artifact.key"]
    path.chmod(0o640)
    assert refused(saved) == f"the key {path} is open to other users; it is not used: remove it, or chmod 600 it"
    path.chmod(0o600)
    path.write_bytes(key[:-1])
    assert refused(saved) == f"the key {path} is damaged: 31 bytes, wanted 32; remove it"
    monkeypatch.setenv("MINITVM_CONFIG_DIR", str(path))  # a file where a folder is wanted
    with pytest.raises(ArtifactError, match="artifacts are signed with a key of yours, and .* cannot be made"):
        sign.make_user_key()


def test_a_user_without_a_home_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("MINITVM_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(ArtifactError, match="no home folder to keep it in; set MINITVM_CONFIG_DIR, or use"):
        sign.user_key()


def test_threads_that_make_a_key_at_once_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_CONFIG_DIR", str(tmp_path / "config"))
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: sign.make_user_key(), range(64)))
    assert keys == {sign.user_key()}
    assert [p.name for p in (tmp_path / "config").iterdir()] == ["artifact.key"]


@pytest.mark.parametrize(("path", "text"), [(".", "is a folder"), ("nowhere/x.mtvm", "cannot be written: No such")])
def test_export_says_where_it_cannot_write(built: GraphModule, tmp_path: Path, path: str, text: str) -> None:
    with pytest.raises(InputError, match=text):
        built.export(tmp_path / path)


def test_no_thread_count_below_one(saved: Path) -> None:
    with pytest.raises(MinitvmError, match="threads=0: wanted a number from 1"):
        runtime.load(saved, threads=0)
