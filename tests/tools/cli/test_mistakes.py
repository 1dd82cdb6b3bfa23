"""A user's mistake: one line on standard error, exit status 2, no traceback, nothing written."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import minitvm
from minitvm.errors import InternalError
from minitvm.tools.cli import main
from minitvm.tools.cli.levels import LEVELS

from .models import open_determinant, tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models and arrays, good and bad."""
    d = tmp_path_factory.mktemp("mistakes")
    good = tiny(d / "good.onnx").read_bytes()
    tiny(d / "open.onnx", batch="n")
    (d / "empty.onnx").write_bytes(b"")
    (d / "random.onnx").write_bytes(np.random.default_rng(0).bytes(3000))
    (d / "garbage.mtvm").write_bytes(b"garbage")
    (d / "picture.onnx").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(60))
    (d / "cut.onnx").write_bytes(good[: len(good) // 2])
    open_determinant(d / "determinant.onnx")
    one_node(d / "refused.onnx", "Bernoulli")
    one_node(d / "unheard_of.onnx", "UnheardOf")
    one_node(d / "attribute.onnx", "Relu", slope=3)
    weights_elsewhere(d / "moved.onnx", lambda path: path.unlink())
    weights_elsewhere(d / "short.onnx", lambda path: path.write_bytes(bytes(9)))
    x = np.ones((2, 8), "float32")
    np.savez(d / "good.npz", x=x)
    np.savez(d / "dtype.npz", x=x.astype("float64"))
    np.savez(d / "shape.npz", x=np.ones((3, 8), "float32"))
    np.savez(d / "rank.npz", x=np.ones(8, "float32"))
    np.savez(d / "name.npz", z=x)
    np.savez(d / "none.npz")
    np.savez(d / "pickled.npz", x=np.array([{}, 1], object))
    np.save(d / "one.npy", x)
    (d / "cut.npz").write_bytes((d / "good.npz").read_bytes()[:200])
    damaged = bytearray((d / "good.npz").read_bytes())
    damaged[180] ^= 255
    (d / "damaged.npz").write_bytes(bytes(damaged))
    return d


def one_node(path: Path, op: str, **attributes: object) -> None:
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def weights_elsewhere(path: Path, spoil: Callable[[Path], object]) -> None:
    """A model whose weights are in a file of their own, with which something is wrong."""
    weights = onnx.numpy_helper.from_array(np.ones((8, 8), "float32"), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8]) for name in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path), save_as_external_data=True, location=f"{path.stem}.weights", size_threshold=0)
    spoil(path.with_suffix(".weights"))


MISTAKES = [
    ("run missing.onnx", "no such file: missing.onnx"),
    ("run moved.onnx", "moved.onnx: its weights are in a file that cannot be read: "),
    ("run short.onnx", "short.onnx: its weights are in a file that cannot be read: "),
    ("run good.onnx --target ''", "target '' is empty: wanted a kind"),
    ("check nope_net", "no such file: nope_net, and no network of that name: minitvm models lists them"),
    ("run garbage.mtvm", "garbage.mtvm is not an artifact, or a damaged one"),
    ("run mobilenet_v2 --shape x=b,3,224,224", "--shape x=b,3,224,224: wanted sizes, found b; dimensions stay open"),
    ("explain nope", "no schedule primitive 'nope'; known: "),
    ("run resnet5", "no such file: resnet5; did you mean resnet50"),
    ("check light_squezenet.onnx", "did you mean light_squeezenet.onnx"),
    ("run .", "is a folder, wanted an ONNX file"),
    ("run empty.onnx", "empty.onnx is not an ONNX model"),
    ("check random.onnx", "random.onnx is not an ONNX model"),
    ("show picture.onnx --level graph", "picture.onnx is not an ONNX model"),
    ("run cut.onnx", "cut.onnx is not an ONNX model"),
    ("run light_nothing.onnx", "no light network is called"),
    ("run refused.onnx", "Bernoulli"),
    ("check unheard_of.onnx", "UnheardOf"),
    ("show attribute.onnx --level te", "attribute slope is not supported"),
    ("run good.onnx --shape y=2,8", "the model has no input y; known: x"),
    ("run good.onnx --shape x=2,8,1", "input x has 2 dimensions (2, 8), found (2, 8, 1)"),
    ("run good.onnx --shape x=3,8", "input x, dimension 0: wanted 2"),
    ("run good.onnx --shape x=1.5,b", "--shape x=1.5,b: wanted NAME=SIZE,SIZE,..."),
    ("run good.onnx --shape x=a,b", "input x has open dimensions (a,b); give --shape x=SIZE,SIZE"),
    ("run good.onnx --shape x", "--shape x: wanted NAME=SIZE,SIZE,..."),
    ("run open.onnx --shape x=-1,8", "--shape x=-1,8: wanted NAME=SIZE,SIZE,..."),
    ("run open.onnx --shape x=2,8 --shape x=3,8", "x has a shape already"),
    ("run open.onnx", "input x has open dimensions (n,8); give --shape x=SIZE,8"),
    ("check open.onnx", "input x has open dimensions (n,8); give --shape x=SIZE,8"),
    (
        "show determinant.onnx --level te",
        "does not take the dimensions that the model leaves open; give --shape x=SIZE,8",
    ),
    ("run good.onnx --input missing.npz", "--input: no such file: missing.npz"),
    ("run good.onnx --input .", "--input: . is a folder"),
    ("run good.onnx --input good.onnx", "good.onnx is not an .npz file of plain arrays"),
    ("run good.onnx --input cut.npz", "cut.npz is not an .npz file of plain arrays"),
    ("run good.onnx --input damaged.npz", "damaged.npz is not an .npz file of plain arrays"),
    ("run good.onnx --input pickled.npz", "pickled.npz is not an .npz file of plain arrays"),
    ("run good.onnx --input one.npy", "one nameless array"),
    ("run good.onnx --input dtype.npz", "x wanted float32[2, 8], found float64[2, 8]"),
    ("run good.onnx --input shape.npz", "x wanted float32[2, 8], found float32[3, 8]"),
    ("run open.onnx --input rank.npz", "x wanted float32[n, 8], found float32[8]"),
    ("run good.onnx --input name.npz", "the model has no input z; known: x"),
    ("run good.onnx --input none.npz", "no array for x, wanted float32[2, 8]"),
    ("run good.onnx --output .", "--output: . is a folder"),
    ("run good.onnx --output /dev/null", "--output: /dev/null is no regular file"),
    ("export good.onnx -o /dev/null", "--output: /dev/null is no regular file"),
    ("run good.onnx --output nowhere/y.npz", "--output: there is no folder nowhere"),
    ("run good.onnx --target tpu", "unknown target 'tpu'; did you mean cpu? (known: accel, cpu, cuda"),
    ("check good.onnx --seed -1", "argument --seed: wanted a number of 0 or more, found '-1'"),
    ("run good.onnx --threads 0", "--threads: wanted a number of at least 1, found 0"),
    ("run good.onnx --threads many", "--threads: wanted a number of at least 1, found many"),
    ("show good.onnx --level tir --op matmul", "no operator matmul; did you mean matmul_add_relu?"),
    ("show good.onnx --level graph --op matmul_add_relu", "--op goes with --level te"),
    ("show good.onnx --level assembly", "invalid choice: 'assembly'"),
    ("show good.onnx", "required: --level"),
    ("explain spilt", "did you mean split?"),
    ("lesson 99", "no lesson 99"),
    ("demo --text ''", "--text: wanted some words"),
    ("demo --text '\u4f60\u597d'", "the font has no \u4f60 \u597d; give one that does with --font"),
    ("demo --text 'a\nb'", "--text: wanted one line"),
    (f"demo --text {'x' * 500}", "--text: "),
    ("demo --faces missing.png", "--faces: missing.png is missing"),
    ("demo --faces good.onnx", "--faces: good.onnx is not a picture"),
    ("demo --font missing.ttf", "--font: missing.ttf is missing"),
    ("frobnicate", "invalid choice: 'frobnicate'"),
    ("", "required: COMMAND"),
]


@pytest.mark.parametrize(("command", "said"), MISTAKES, ids=[command[:60] or "nothing" for command, _ in MISTAKES])
def test_a_mistake_is_one_line_with_what_to_try_and_status_2(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, said: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(os.listdir(folder))
    try:
        status = main(shlex.split(command))
    except SystemExit as left:  # argparse
        status = int(str(left.code))
    written = capsys.readouterr()
    assert status == 2
    assert said in written.err
    assert written.err.startswith("minitvm")
    _, *tries = written.err.strip().split("\n")
    assert all(line.startswith(("  try:    ", "          ")) for line in tries)
    assert written.out == ""
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("error", [InternalError("a rule of ours is broken"), KeyError("x")])
def test_a_bug_of_ours_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    names: dict[str, Any] = {"error": error}
    # In a file of the package: what a file of the user's raises is the user's.
    exec(compile("def broken(*_, **__):\n    raise error\n", minitvm.__file__, "exec"), names)
    monkeypatch.setattr("minitvm.lower", names["broken"], raising=False)
    assert main(["show", str(folder / "good.onnx"), "--level", "graph"]) == 3
    written = capsys.readouterr().err
    assert "a bug in minitvm, not in your model or command" in written
    assert "Please report" in written and type(error).__name__ in written


def test_a_bug_of_ours_at_one_level_of_a_program_says_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> object:
        raise InternalError("a rule of ours is broken")

    monkeypatch.setitem(LEVELS, "kernel", broken)
    path = tmp_path / "program.py"
    path.write_text(
        "from minitvm.script import tir as T\n\n@T.prim_func\n"
        'def f(A: T.Buffer((4,), "float32")):\n    for i in range(4):\n        A[i] = T.float32(1)\n'
    )
    assert main(["check", str(path)]) == 3
    out, err = capsys.readouterr()
    assert "kernel" not in out
    assert "a bug in minitvm" in err and "InternalError: a rule of ours is broken" in err


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("info > /dev/full", 2, "minitvm info: No space left on device\n"),
        ("info >&-", 0, ""),
        ("show good.onnx --level graph >&-", 0, ""),
        ("info 2>&- >/dev/null", 0, ""),
        ("run good.onnx 2>&- >/dev/null", 0, ""),
        ("MINITVM_CACHE_DIR=/proc/nowhere run", 0, "minitvm run: lowered functions are not kept: /proc/nowhere: "),
    ],
    ids=[
        "a full disk",
        "no output",
        "no output of levels",
        "no errors",
        "no progress",
        "a cache that cannot be written",
    ],
)
def test_what_the_system_refuses_is_one_line(folder: Path, command: str, status: int, said: str) -> None:
    *settings, name = command.split(" ", 1)[0], *command.split(" ", 1)[1:]
    minitvm = f"{sys.executable} -m minitvm"
    line = f"{minitvm} {command}" if "=" not in command else f"{settings[0]} {minitvm} {name} good.onnx"
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True)
    assert done.returncode == status
    assert done.stderr.startswith(said) and done.stderr.count("\n") <= 1
