"""`minitvm export`, and `minitvm run` on what it wrote."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minitvm
from minitvm.script import tir as T
from minitvm.tools.cli import main

from .models import reference, tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    d = tmp_path_factory.mktemp("artifacts")
    tiny(d / "tiny.onnx")
    tiny(d / "open.onnx", batch="n")
    (d / "team.key").write_bytes(b"t" * 32)
    (d / "short.key").write_bytes(b"t")
    np.savez(d / "x.npz", x=np.ones((2, 8), np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITVM_CONFIG_DIR", str(d / "config"))
        for command in ("tiny.onnx -o tiny.mtvm", "open.onnx -o open.mtvm", "tiny.onnx -o team.mtvm --key team.key"):
            model, _, output, *key = command.split()
            assert (
                main(["export", str(d / model), "-o", str(d / output), *key[:1], *(str(d / k) for k in key[1:])]) == 0
            )
        scale_add().export(d / "scale_add.mtvm")
    return d


def scale_add() -> minitvm.runtime.Function:
    @T.prim_func
    def function(a: T.float32, x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:  # type: ignore[valid-type]
        for i in T.serial(4):
            with T.block("y"):
                v = T.axis.spatial(4, i)
                y[v] = y[v] + a * x[v]

    return minitvm.build(function)


@pytest.fixture(autouse=True)
def in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_CONFIG_DIR", str(folder / "config"))
    monkeypatch.chdir(folder)


def test_run_writes_what_the_artifact_computes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((2, 8)).astype("float32")
    np.savez(tmp_path / "x.npz", x=x)
    for artifact in ("tiny.mtvm", "open.mtvm", "team.mtvm --key team.key", "team.mtvm --trust"):
        arguments = f"run {artifact} --input {tmp_path}/x.npz --output {tmp_path}/y.npz --threads 1"
        assert main(shlex.split(arguments)) == 0
        told = capsys.readouterr().out
        assert "loaded in" in told and "on 1 threads" in told and "y: float32[2, 4]" in told
        with np.load(tmp_path / "y.npz") as written:
            np.testing.assert_allclose(written["y"], reference(x), rtol=1e-5, atol=1e-6)


IMPORTED = """
import sys
from minitvm.tools.cli import main
try:
    status = main(sys.argv[1:])
except SystemExit as left:
    status = left.code
compiler = [f"minitvm.{part}" for part in ("tir", "arith", "strategy", "build")]
heavy = ["sympy", "numba", "llvmlite", "islpy", "onnx", *compiler]
print("imported", status, *[name for name in heavy if name in sys.modules])
"""


@pytest.mark.parametrize("command", ["--version", "--help", "run --help", "run tiny.mtvm", "lesson"])
def test_commands_that_need_no_compiler_import_none(command: str) -> None:
    """Importing it takes longer than they do, and an artifact runs where it may not be installed."""
    run = [sys.executable, "-c", IMPORTED, *command.split()]
    done = subprocess.run(run, env={**os.environ, "MINITVM_VERIFY": "0"}, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "imported 0", done.stdout + done.stderr


def test_run_makes_inputs_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.onnx"]) == main(["run", "tiny.mtvm"]) == 0
    of_model, of_artifact = (part.split("\n")[1] for part in capsys.readouterr().out.split(" threads")[1:])
    assert of_model == of_artifact != ""
    assert main(["run", "open.mtvm", "--shape", "x=3,8"]) == 0
    assert "y: float32[3, 4]" in capsys.readouterr().out


def test_run_runs_a_tir_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    np.savez(tmp_path / "in.npz", a=np.float32(3), x=x, y=y)
    assert main(["run", "scale_add.mtvm", "--input", f"{tmp_path}/in.npz", "--output", f"{tmp_path}/out.npz"]) == 0
    with np.load(tmp_path / "out.npz") as written:
        np.testing.assert_array_equal(written["y"], 1 + 3 * x)
    assert main(["run", "scale_add.mtvm"]) == 0
    assert "y: float32[4]" in capsys.readouterr().out


def test_show_reads_an_artifact_that_nobody_trusts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINITVM_CONFIG_DIR", str(tmp_path))
    for level, part in (("executable", "arena"), ("source", "def matmul_add_relu"), ("kernel", "@T.prim_func")):
        assert main(["show", "tiny.mtvm", "--level", level]) == 0
        of_artifact = capsys.readouterr().out
        assert part in of_artifact or level == "executable"
        assert main(["show", "tiny.onnx", "--level", level]) == 0
        of_model = capsys.readouterr().out
        if level == "executable":
            assert of_artifact == of_model != ""
    assert list(tmp_path.iterdir()) == []


def test_the_page_about_artifacts_runs(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "artifacts.md").read_text(encoding="utf-8")
    exporting, loading, sending = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "model.onnx").write_bytes((folder / "tiny.onnx").read_bytes())
    monkeypatch.chdir(tmp_path)
    exec(exporting, {})
    names = {"x": np.ones((2, 8), np.float32)}
    exec(loading, names)
    np.testing.assert_allclose(names["outputs"], reference(names["x"]), rtol=1e-5)
    exec(sending, names | {"batches": [names["x"], 2 * names["x"]]}, results := {})
    np.testing.assert_array_equal(results["results"][0], names["outputs"])


MISTAKES = [
    (
        "show tiny.mtvm --level graph",
        "an artifact has the levels kernel, source, asm, executable and memory, and no",
    ),
    ("show tiny.mtvm --level source --op x", "--op, --shape, --target, --engine and --why-simplified go with a model"),
    ("run open.mtvm", "input x has open dimensions (n,8); give --shape x=SIZE,8"),
    ("run open.mtvm --shape y=3,8", "--shape: there is no input y; known: x"),
    ("run open.mtvm --shape x=3,7", "dimension 1 is 7, wanted 8"),
    ("run tiny.mtvm --shape x=3,8", "dimension 0 is 3, wanted 2"),
    ("run tiny.mtvm --shape x=2,8 --input x.npz", "--shape: the arrays of --input have their shapes"),
    ("run tiny.mtvm --check", "--check compares with the model's graph, which an artifact does not have"),
    ("run tiny.mtvm --checked", "--checked is decided when a model is compiled"),
    ("run tiny.mtvm --target cpu-avx512", "--target cpu-avx512: an artifact is compiled already"),
    ("run team.mtvm", "team.mtvm was not signed with your key on this machine, and was not loaded"),
    ("run tiny.mtvm --key team.key", "was not signed with the key handed over"),
    ("run tiny.mtvm --key team.key --trust", "give one of the two"),
    ("run tiny.mtvm --key short.key", "the key short.key has 1 bytes; wanted at least 16"),
    ("run tiny.onnx --trust", "--trust and --key go with an artifact"),
    ("run tiny.onnx --key team.key", "--trust and --key go with an artifact"),
    ("export tiny.onnx -o .", "--output: . is a folder, wanted the name of a file"),
    ("export tiny.onnx -o nowhere/x.mtvm", "--output: there is no folder nowhere"),
    ("export tiny.onnx -o bad.mtvm --key none.key", "the key none.key cannot be read"),
    ("export tiny.mtvm -o bad.mtvm", "tiny.mtvm is not an ONNX model"),
    ("export scale_add.mtvm -o bad.mtvm --target quantum", "quantum"),
]


@pytest.mark.parametrize(("command", "text"), MISTAKES, ids=[command for command, _ in MISTAKES])
def test_a_mistake_is_told(folder: Path, capsys: pytest.CaptureFixture[str], command: str, text: str) -> None:
    before = sorted(folder.iterdir())
    assert main(shlex.split(command)) == 2
    out, err = capsys.readouterr()
    assert text in err and out == ""
    assert sorted(folder.iterdir()) == before


def test_a_damaged_artifact_is_a_mistake(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cut.mtvm").write_bytes((folder / "tiny.mtvm").read_bytes()[:-1])
    assert main(["run", str(tmp_path / "cut.mtvm"), "--trust"]) == 2
    assert "cut.mtvm is truncated: " in capsys.readouterr().err
