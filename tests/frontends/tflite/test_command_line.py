"""TFLite models on the command line: with open sizes, and with states."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from minitvm.tools.cli import main
from minitvm.tools.cli.litert import Peer

from .writing import Case, Tensor, constant


@pytest.fixture
def layer(tmp_path: Path) -> str:
    """A layer whose state holds the last features of two runs."""
    rng = np.random.default_rng(1)
    weights = [constant(rng.standard_normal(shape).astype("float32")) for shape in ((3, 4), (3, 2))]
    state = Tensor((1, 6), variable=True)
    case = Case("SVDF", [Tensor((1, 4)), *weights, None, state], [Tensor((1, 3))], "SVDFOptions", {"rank": 1})
    file = tmp_path / "layer.tflite"
    file.write_bytes(case.model())
    return str(file)


def test_a_model_with_a_state_runs(layer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", layer, "--check"]) == 0
    printed = capsys.readouterr().out
    assert "t4: float32[1, 3]" in printed and "check t4: ok" in printed


def test_its_graph_is_shown(layer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", layer, "--level", "graph"]) == 0
    assert "def layer(t0: float32[1, 4], state_t3: float32[1, 6])" in capsys.readouterr().out


def test_a_missing_size_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "open.tflite"
    file.write_bytes(Case("ABS", [Tensor((1, 4), open_axes=(0,))], [Tensor((1, 4))]).model())
    assert main(["run", str(file)]) != 0
    assert "input t0 has open dimensions (t0_0,4); give --shape t0=SIZE,4" in capsys.readouterr().err
    assert main(["run", str(file), "--shape", "t0=3,4"]) == 0
    assert "t1: float32[3, 4]" in capsys.readouterr().out


def _verdict(case: Case, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Check a model; return the exit status, and what is printed about LiteRT, without the seconds."""
    file = folder / "model.tflite"
    file.write_bytes(case.model())
    status = main(["check", str(file), "--seconds", "5"])
    lines = capsys.readouterr().out.split("\n")
    first = next(k for k, text in enumerate(lines) if text.startswith("LiteRT"))
    last = next(k for k in range(first + 1, len(lines)) if not lines[k].startswith("  "))
    return status, re.sub(r", [\d.]+ s$", "", "\n".join(lines[first:last]), flags=re.MULTILINE)


def _bytes(*shape: int, scale: float = 0.05, zero: int = 3) -> Tensor:
    return Tensor(shape, "int8", scale=scale, zero=zero)


def test_a_model_is_compared_with_litert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exact = Case("ADD", [_bytes(2, 9), _bytes(2, 9, scale=0.1)], [_bytes(2, 9, scale=0.2)], "AddOptions")
    assert _verdict(exact, tmp_path, capsys) == (
        0, "LiteRT     equal  its reference kernels, 100 runs on random inputs\n  t2: all 1,800 values are equal"
    )  # fmt: skip


def test_differences_of_one_step_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteRT's results are changed here, because few of its kernels round in another way."""
    case = Case("ABS", [_bytes(1, 4, zero=0)], [_bytes(1, 4, zero=0)])
    call, steps = Peer.__call__, [1, 0, 0, 0]

    def changed(peer: Peer, *arrays: np.ndarray) -> list[np.ndarray]:
        return [(array ^ np.array(steps, np.int8)).astype(array.dtype) for array in call(peer, *arrays)]

    monkeypatch.setattr(Peer, "__call__", changed)
    status, text = _verdict(case, tmp_path, capsys)
    assert (
        status == 0
        and text.startswith("LiteRT     ok ")
        and text.endswith("\n  t1: 100 of 400 values differ by one step")
    )
    steps[2] = 2
    status, text = _verdict(case, tmp_path, capsys)
    assert status == 1 and text.startswith("LiteRT     WRONG ")
    assert text.endswith("100 of 400 values differ by one step, 100 of 400 values differ by up to 2")


def test_weights_alone_may_be_quantised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = np.random.default_rng(0).integers(-127, 128, (8, 64)).astype("int8")
    case = Case(
        "FULLY_CONNECTED",
        [Tensor((3, 64)), constant(weights, scale=0.02), None],
        [Tensor((3, 8))],
        "FullyConnectedOptions",
    )
    status, text = _verdict(case, tmp_path, capsys)
    assert status == 0 and text.startswith("LiteRT     apart ")
    assert text.endswith(
        "\n  the weights of FULLY_CONNECTED are quantised, but not the data: LiteRT rounds the data, too"
    )


def test_a_model_is_checked_without_litert(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("ABS", [Tensor((1, 4))], [Tensor((1, 4))])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ai_edge_litert" else object())
    assert _verdict(case, tmp_path, capsys) == (
        0, "LiteRT     is not installed, so the model was not compared with it: pip install ai-edge-litert"
    )  # fmt: skip


def test_states_begin_anew_in_the_comparison(layer: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Several runs, each of which reads the state that the previous one left."""
    assert main(["check", layer, "--seconds", "5"]) == 0
    assert re.search(r"^LiteRT     (ok|equal) ", capsys.readouterr().out, re.MULTILINE)


def test_a_model_that_litert_refuses_is_checked_without_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """LiteRT does not divide by zero, which is among the random inputs."""
    case = Case("DIV", [_bytes(1, 4), _bytes(1, 4)], [_bytes(1, 4)], "DivOptions")
    status, text = _verdict(case, tmp_path, capsys)
    assert text.startswith("LiteRT     does not run this model: tflite/kernels/div.cc")
    assert status == 0
