"""`minitvm accel`: what it prints and writes, and its answers to mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from minitvm.tools.cli import main
from tests.machines.vta.programs import TWICE, expected, tensors


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "twice.asm"
    path.write_text(TWICE)
    return str(path)


def test_run_writes_outputs_timeline_and_trace(program: str, tmp_path: Path, capsys) -> None:
    inputs, outputs = tmp_path / "x.npz", tmp_path / "y.npz"
    np.savez(inputs, **tensors())
    wanted = ["--timeline", str(tmp_path / "t.html"), "--trace", str(tmp_path / "t.json"), "--memory", "board"]
    assert main(["accel", "run", program, "--input", str(inputs), "--output", str(outputs), *wanted]) == 0
    np.testing.assert_array_equal(np.load(outputs)["y"], expected(tensors()))
    printed = capsys.readouterr().out
    assert "11 instructions, ordered by tokens: all orders give one result" in printed
    assert "8 orders were run" in printed and "random, seed 7" in printed
    assert "waits for compute" in printed and "latency 100)" in printed
    assert "twice.asm on vta, board memory" in (tmp_path / "t.html").read_text()
    assert json.loads((tmp_path / "t.json").read_text())["otherData"]["memory"] == "board"


def test_run_a_layer_and_compare_it_with_numpy(capsys) -> None:
    assert main(["accel", "run", "C11", "--orders", "1", "--config", "vdla", "--contexts", "1"]) == 0
    printed = capsys.readouterr().out
    assert "the result is NumPy's, bit by bit" in printed
    assert "array in use 45.1%" in printed


def test_a_wrong_result_is_status_1(capsys, monkeypatch) -> None:
    from minitvm.reference.fast import micro_ops

    right = micro_ops.shifted
    monkeypatch.setattr(micro_ops, "shifted", lambda values, by: right(values, by) + 1)
    assert main(["accel", "run", "C11", "--orders", "1"]) == 1
    assert "the result is NOT that of NumPy" in capsys.readouterr().out


def test_show_prints_what_reads_back_and_writes_a_binary(program: str, tmp_path: Path, capsys) -> None:
    assert main(["accel", "show", program]) == 0
    printed = capsys.readouterr().out
    again = tmp_path / "again.asm"
    again.write_text(printed)
    assert main(["accel", "show", str(again)]) == 0
    assert capsys.readouterr().out == printed
    assert main(["accel", "show", program, "--binary", str(tmp_path / "p.bin")]) == 0
    capsys.readouterr()
    assert main(["accel", "show", str(tmp_path / "p.bin")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 11 and lines[1] == "load.wgt sram=0 dram=1 y=1 x=1 stride=1"


def test_sweep_over_arrays_and_bandwidths(capsys) -> None:
    assert main(["accel", "sweep", "C11", "--array", "16,64,512", "--bandwidth", "8,32"]) == 0
    head, columns, row = capsys.readouterr().out.splitlines()
    assert head.startswith("vta, tsim memory: cycles")
    assert columns.split() == ["16x16,", "8", "B", "16x16,", "32", "B", "64x64,", "8", "B", "64x64,", "32", "B",
                               "512x512,", "8", "B", "512x512,", "32", "B"]  # fmt: skip
    cells = row.replace("does not fit", "none").split()
    cycles = [int(cell.replace(",", "")) for cell in cells if "," in cell]
    assert cycles[0] > cycles[1] > cycles[3] and cycles[0] > cycles[2]
    assert cells[-2:] == ["none", "none"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "C13"], "no such file: C13; did you mean C3 or C12"),
        (["run", "C8", "--config", "vtb"], "no accelerator is called 'vtb': did you mean vta"),
        (["run", "C8", "--memory", "bord"], "no memory is called 'bord'"),
        (["sweep", "C1"], "no layer is called 'C1'"),
        (["run", "C8", "--timeline", "/nowhere/at/all.html"], "--timeline"),
    ],
)
def test_mistakes(arguments, words: str, capsys) -> None:
    assert main(["accel", *arguments]) == 2
    message = capsys.readouterr().err
    assert words in message and "Traceback" not in message


def test_mistakes_in_a_program(tmp_path: Path, capsys) -> None:
    path = tmp_path / "bad.asm"
    path.write_text(TWICE.replace("push(load) ", "").replace("x+4 x=4 pop(compute)", "x+4 x=4"))
    assert main(["accel", "run", str(path)]) == 2
    assert "breaks the rule 'order' at instruction 4" in capsys.readouterr().err
    path.write_text("gem uops=0:1")
    assert main(["accel", "show", str(path)]) == 2
    assert "line 1, column 1: no instruction is called 'gem': did you mean gemm?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["accel", "sweep", "--array", "8,x"])
    assert "wanted numbers with commas between" in capsys.readouterr().err
