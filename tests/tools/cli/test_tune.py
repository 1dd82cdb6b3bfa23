"""`minitvm tune` from end to end on a small network, for real; and what a user may get wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import minitvm as tvm
from minitvm.records.database import Database
from minitvm.tools.cli import main
from minitvm.workers import worker_pool

onnx = pytest.importorskip("onnx")
pytest.importorskip("sqlalchemy")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """relu(x w), an ONNX file."""
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).integers(-3, 4, (64, 48)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 64])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [32, 48])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path_factory.mktemp("model") / "layer.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_a_network_is_tuned_resumed_explained_and_drawn(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db, lines = str(tmp_path / "records.db"), str(tmp_path / "lines")
    try:
        assert main(["tune", str(model), "--trials", "2", "--db", db, "--runs", "1000000000"]) == 0
        out = capsys.readouterr().out
        task = r"\[Task  1/ 1\]  Current/Best: +\d+\.\d\d/ +\d+\.\d\d GFLOPS \| Progress: \(2/2\) \| \d+\.\d\d s Done\."
        assert re.search(task, out), out
        assert "ended       the trials are used up (2 candidates, " in out
        with Database.open(db) as database:
            records = list(database.records())
        assert sum(one.outcome in ("ok", "wrong") for one in records) == 2 and records[0].untuned
        assert all(one.outcome != "wrong" for one in records)

        assert main(["tune", str(model), "--trials", "1", "--db", db, "--runs", "1000000000"]) == 0
        capsys.readouterr()
        with Database.open(db) as database:
            assert database.count() > len(records)
            tried = [one.decision for one in database.records() if one.outcome == "ok"]
        assert len(tried) == len(set(tried))  # nothing is measured alone twice
    finally:
        worker_pool.shutdown()

    assert main(["tune", "explain", str(model), "--db", db]) == 0
    out = capsys.readouterr().out
    assert "sketch: " in out and "compute" in out and "tile_" in out
    assert re.search(r"predicted +measured +ratio", out) and "<- untuned" in out
    assert main(["tune", "report", str(model), "--db", db, "--png", str(tmp_path / "tune.png")]) == 0
    assert (tmp_path / "tune.png").read_bytes().startswith(b"\x89PNG")
    assert main(["tune", "export", lines, "--db", db]) == 0
    assert main(["tune", "import", lines, "--db", str(tmp_path / "other.db")]) == 0
    assert main(["tune", "merge", db, "--db", str(tmp_path / "other.db")]) == 0
    assert "0 new records from" in capsys.readouterr().out

    x = np.random.default_rng(1).integers(-3, 4, (32, 64)).astype(np.float32)
    tuned, untuned = (tvm.build(str(model), tuned=one)(x=x) for one in (db, None))
    assert np.array_equal(tuned, untuned)


def test_mistakes_are_one_message(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = ["--db", str(tmp_path / "records.db")]

    def refused(*arguments: str) -> str:
        try:
            assert main(["tune", *arguments]) == 2
        except SystemExit as error:
            assert error.code == 2
        return capsys.readouterr().err

    assert "wanted a time above 0 such as 60s, 5m or 1h, found '0'" in refused(str(model), "--budget", "0")
    assert "wanted a time above 0" in refused(str(model), "--budget", "soon")
    assert "wanted a number of at least 1, found 0" in refused(str(model), "--trials", "0")
    assert "no such file: none.onnx" in refused("none.onnx", *db)
    assert "--op conv: no such operator; known: " in refused(str(model), "--op", "conv", *db)
    assert "wanted one model, or one of explain, report" in refused(str(model), "more", *db)
    assert "tune explain: wanted a model or file after it" in refused("explain", *db)
    assert "no such database: " in refused("merge", str(tmp_path / "none.db"), *db)
    assert "nothing was measured yet: minitvm tune MODEL" in refused("report", str(model), *db)
    farm = ["--workers", "tcp://127.0.0.1:1"]
    assert "no such file: none.onnx" in refused("none.onnx", *farm, *db)  # before a farm is looked for
    assert "tune explain measures nothing, so it has no --workers" in refused("explain", str(model), *farm, *db)
    for option in ("--key", "--tls-cert"):
        assert f"{option} is for a farm: give its scheduler with --workers ADDRESS" in refused(
            str(model), option, "x", *db
        )
    assert "is not a database" in refused(str(model), "--db", "x://y")
