"""`minitvm book`: the stations of a build are observed, in order, and the page is the same in each process."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from minitvm.errors import InternalError
from minitvm.tools.cli import main, stations
from minitvm.tools.cli.book import TARGET, default_book, example
from minitvm.tools.cli.stations import Visit

from .models import tiny

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = """
from minitvm.script import tir as T

@T.prim_func
def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)

@T.prim_func
def triple(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(3)
"""


@pytest.fixture(scope="module")
def visits() -> list[Visit]:
    return stations.visits_of(example(), TARGET)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tiny(tmp_path / "tiny.onnx"))


@pytest.fixture
def programs(tmp_path: Path) -> str:
    path = tmp_path / "programs.py"
    path.write_text(PROGRAMS)
    return str(path)


def test_the_page_is_the_same_in_each_process_and_from_any_cache() -> None:
    page = default_book()
    assert page == (ROOT / "docs" / "book.md").read_text(encoding="utf-8")
    for file in re.findall(r"^`(\S+\.py)`: \S", page, re.MULTILINE):
        assert (ROOT / file).is_file(), file


def test_the_build_reaches_every_station_in_order(visits: list[Visit]) -> None:
    assert 40 <= len(visits) <= 60
    stations.require_all(visits)
    languages = [kind for visit in visits for kind, _ in (visit.before, visit.after) if kind]
    assert list(dict.fromkeys(languages)) == ["target", "graph", "te", "tir", "kernel", "source", "executable"]


def test_a_station_that_is_not_reached_is_an_error(visits: list[Visit]) -> None:
    with pytest.raises(InternalError, match="did not reach these stations of the book: graph.passes.fuse:fuse$"):
        stations.require_all([visit for visit in visits if visit.station.name != "fuse"])
    first, second, *others = visits
    with pytest.raises(InternalError, match="the build reached build:code_target where the book has build:build"):
        stations.require_all([second, first, *others])


def test_an_argument_that_a_station_lost_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    row = replace(stations.stations()[1], takes="machine")
    monkeypatch.setattr(stations, "stations", lambda: [row])
    with pytest.raises(InternalError, match="build:code_target has no argument machine, which the book shows"):
        stations.visits_of(example(), TARGET)


def test_your_own_operator(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole model, or one operator of it: its names are in the programs."""
    for arguments in ([], ["--op", "matmul_add_relu"]):
        assert main(["book", model, *arguments]) == 0
        page = capsys.readouterr().out
        assert "def matmul_add_relu_kernel_0(args, thread, threads):" in page
        assert page.index("`fuse`") < page.index("`to_te`") < page.index("`generate`") < page.index("`load_kernel`")


def test_your_own_program(programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["book", programs, "--op", "triple"]) == 0
    page = capsys.readouterr().out
    assert "def triple_kernel_0(args, thread, threads):" in page
    assert "This build did not need: `importing:imported`, `graph.passes.pipeline:optimize`, " in page


def test_mistakes_end_in_one_message(model: str, programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in [
        ([programs], f"{programs}: wanted one function, found 2: double, triple\n  try:    --op NAME"),
        ([programs, "--op", "tripel"], "--op: no function tripel; did you mean triple?"),
        ([programs, "--op", "triple", "--shape", "A=8"], "--shape goes with a model; a program has its shapes"),
        ([model, "--op", "x"], "--op: no operator x; known: matmul_add_relu"),
        (["nothing.onnx"], "no such file: nothing.onnx"),
        (["--op", "x"], "--op goes with a model\n  try:    minitvm book MODEL.onnx --op ..."),
        (["--target", "cuda"], "--target goes with a model: the build of the book has a target of its own"),
    ]:
        assert main(["book", *arguments]) == 2
        out, err = capsys.readouterr()
        assert (out, err) == ("", f"minitvm book: {message}\n")
