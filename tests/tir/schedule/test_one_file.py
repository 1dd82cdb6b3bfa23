"""One registration, many readers: from lesson 14's file alone, outside the package, `skew` gets all that ours have."""

from __future__ import annotations

import importlib.util
import inspect
import json
import random
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import reference, tir
from minitvm.compat.tvm.ir import assert_structural_equal
from minitvm.compat.tvm.schedule.testing import registrations_undone, verify_trace_roundtrip
from minitvm.errors import InputError, InternalError, ScheduleError
from minitvm.reference.strategies import prim_funcs, schedules
from minitvm.script import tir as T
from minitvm.tir.nodes import For, ForKind
from minitvm.tir.schedule import Primitive, Trace
from minitvm.tir.schedule.examples import example_program, gallery, program_of, verify_example
from minitvm.tools.cli import main
from minitvm.tools.cli.program_file import read_primitives
from tests.fewer import examples

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "lessons" / "14_invent_a_primitive" / "skew.py"


@T.prim_func
def sweep(X: T.Buffer((6, 5), "float32"), A: T.Buffer((7, 6), "float32")):
    for i, j in T.grid(7, 6):
        with T.block("edge"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.float32(0)
    for i, j in T.grid(6, 5):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            with T.init():
                A[vi + 1, vj + 1] = X[vi, vj]
            A[vi + 1, vj + 1] = A[vi + 1, vj + 1] + (A[vi, vj + 1] - A[vi + 1, vj])


@pytest.fixture
def skew() -> Iterator[Primitive]:
    """The primitive of the file, registered for one test."""
    with registrations_undone():
        (made,) = read_primitives(FILE)
        yield made
    assert "skew" not in dir(tir.Schedule)


def test_the_file_is_short_and_outside_the_package() -> None:
    assert len(FILE.read_text(encoding="utf-8").splitlines()) < 100
    assert ROOT / "minitvm" not in FILE.parents
    found = [p for p in (ROOT / "minitvm").rglob("*.py") if re.search(r"\bskew\w*\(", p.read_text(encoding="utf-8"))]
    assert found == [], "nothing in the package knows it"


def test_it_is_a_method_with_signature_and_help(skew: Primitive) -> None:
    method: Any = tir.Schedule.skew  # type: ignore[attr-defined]
    assert list(inspect.signature(method).parameters) == ["outer", "inner", "factor"]
    assert "Legal when:" in (inspect.getdoc(method) or "")


def test_it_is_an_instruction_of_traces(skew: Primitive) -> None:
    sch: Any = tir.Schedule(sweep)
    i, j = sch.get_loops("A")
    wave = sch.skew(i, j, factor=2)
    assert "l3 = sch.skew(outer=l1, inner=l2, factor=2)" in str(sch.trace)
    assert json.loads(sch.trace.dumps())[0][-1] == ["Skew", ["l1", "l2"], [2], ["l3"]]
    verify_trace_roundtrip(sch, sweep)
    replayed = tir.Schedule(sweep)
    Trace.apply_json_to_schedule(sch.trace.dumps(), replayed)
    assert_structural_equal(replayed.func, sch.func)
    with pytest.raises(ScheduleError, match=r"loop j was skewed into j_skewed at step 3"):
        sch.unroll(j)
    sch.reorder(wave, i)
    sch.undo()
    sch.undo()
    assert [loop.var.name for loop in map(sch.get, sch.get_loops("A"))] == ["i", "j"]


def test_its_docstring_is_a_test(skew: Primitive) -> None:
    verify_trace_roundtrip(verify_example("skew"), example_program("skew"))
    skew.function.__doc__ = (skew.function.__doc__ or "").replace("j_skewed <= i + 2", "j_skewed <= i + 3")
    with pytest.raises(InternalError, match="does not make what its docstring shows"):
        verify_example("skew")


def test_it_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with registrations_undone():
        assert main(["explain", "skew", "--load", str(FILE)]) == 0
        told = capsys.readouterr().out
        assert told.startswith("skew(outer, inner, factor=1)\n")
        assert "  leans_over: factor >= 1\n      refused: `sch.skew(i, j, factor=0)`" in told
        assert main(["explain", "--load", str(FILE)]) == 0
        assert re.fullmatch(r"skew +Let the inner loop begin .*\n", capsys.readouterr().out)
        assert main(["explain", "skew", "--load", str(FILE), "--errors"]) == 0
        assert "--- leans_over\nskew(i, j, factor=0): leans_over" in capsys.readouterr().out
    assert main(["explain", "skew"]) == 2
    assert "skew" in capsys.readouterr().err


def test_it_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    with registrations_undone():
        assert generate.main(["--load", str(FILE)]) == 0
        page = capsys.readouterr().out
        assert "## skew\n\n```text\nskew(outer, inner, factor=1)\n" in page
        assert "| [`skew`](#skew) | Let the inner loop begin" in page
        assert "## split" not in page
        assert "## skew" in generate.primitives(), "and it stands on the page of all while it is registered"


def test_its_requirements_have_errors(skew: Primitive) -> None:
    shown = gallery(skew)
    assert list(shown) == [needed.name for needed in skew.requires]
    for name, text in shown.items():
        assert re.match(rf"skew\(.*\): {name} +\[step \d+ of the trace\]\n(.*\n)+.*\^", text), text
        assert "\n  wanted: " in text and "\n  found:  " in text


@pytest.mark.parametrize(
    ("position", "call", "told"),
    [
        (5, "sch.skew(i, j)", "is not refused"),
        (5, "sch.skew(j, i)", "is refused by another requirement"),
        (None, "", "no bad call for leans_over"),
    ],
)
def test_a_gallery_that_lies_is_caught(skew: Primitive, position: int | None, call: str, told: str) -> None:
    needed = skew.requires[-1]
    skew.bad_calls.pop()
    if position is not None:
        skew.refuses(needed, call)
    with pytest.raises(InternalError, match=told):
        gallery(skew)


def test_a_program_with_its_head_and_one_without_are_the_same() -> None:
    body = """
B = T.alloc_buffer((8,))
for i, k in T.grid(8, 4):
    with T.block("B"): B[v_i] = B[v_i] + A[v_i, v_k]
for i in range(8):
    with T.block("C"): C[v_i] = B[v_i]
"""
    without = program_of(body).script()
    assert without.splitlines()[3] == 'def main(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")):'
    assert '        v_i, v_k = T.axis.remap("SR", [i, k])\n' in without
    head = "def rows(A: T.Buffer((8, 4)), C: T.Buffer((8,))):"
    assert program_of(head + textwrap.indent(body, "    ")).script() == without.replace("def main(", "def rows(")


def test_a_bad_call_may_name_what_the_file_of_its_primitive_defines(skew: Primitive) -> None:
    skew.function.__globals__["twice"] = lambda loop: (loop, loop)
    skew.refuses(skew.requires[0], "sch.skew(*twice(i))")
    assert gallery(skew)[skew.requires[0].name].startswith("skew(i, i): ")


def test_its_legal_calls_are_drawn(skew: Primitive) -> None:
    calls = tir.Schedule(sweep).space("skew")
    assert [c.text for c in calls] == ["skew(i, j)", "skew(i, j, factor=2)"] * 2
    generator, seen = random.Random(0), set()
    for _ in range(300):
        call = tir.Schedule(sweep).draw(generator.randrange)
        assert call is not None
        seen.add(call.primitive.name)
    assert "skew" in seen, "whoever draws a step from all primitives may get it"


@examples(8, 25)
@given(data=st.data())
def test_the_public_strategies_draw_it(data: Any) -> None:
    with registrations_undone():
        read_primitives(FILE)
        func = data.draw(prim_funcs(kinds=("stencil", "elementwise", "transpose")))
        sch = data.draw(schedules(func, "skew", "reorder", min_steps=2, max_steps=3))
        verdict = reference.check(func, sch.func)
        assert verdict, f"{verdict}\n{sch.trace}"


def test_check_takes_the_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("minitvm.tools.cli.check_primitive.PAIRS", 15)
    with registrations_undone():
        assert main(["check", str(FILE)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "skew"
    passed = [line.split()[:2] for line in lines if " ok " in line]
    assert passed == [["example", "ok"], ["refusals", "ok"], ["order", "ok"], ["random", "ok"]]
    assert re.search(r"order .* \d+ legal calls on \d+ programs with dependences keep the meaning", lines[3])
    assert lines[4].startswith("    warning: no requirement of skew looks at dependences. If it changes when")
    assert re.search(r"(1[5-9]|20) legal calls on \d+ random programs", lines[-2])
    assert lines[-1] == "all agree"


FAULTS = {
    "lost last column": ("old < inner.extent)", "old < inner.extent - 1)"),
    "rows too short": ("(outer.extent - 1) * factor", "(outer.extent - 2) * factor"),
    "leans the other way": ("wave - outer.var * factor", "wave + outer.var * factor"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_check_finds_a_fault(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The faulty file's checks fail, and what is shown is a program and a trace to paste."""
    right, wrong = FAULTS[fault]
    text = FILE.read_text(encoding="utf-8")
    assert right in text
    faulty = tmp_path / "faulty.py"
    faulty.write_text(text.replace(right, wrong))
    with registrations_undone():
        assert main(["check", str(faulty)]) == 1
    told = capsys.readouterr().out
    assert "example    WRONG" in told and "order      WRONG" in told
    assert "another meaning after step" in told and "sch.skew(outer=" in told and "@T.prim_func" in told


def test_skew_makes_a_wavefront_parallel(skew: Primitive) -> None:
    sch: Any = tir.Schedule(sweep, verify=True)
    i, j = sch.get_loops("A")
    for loop in (i, j):
        with pytest.raises(ScheduleError, match="no_races"):
            sch.parallel(loop)
    wave = sch.skew(i, j)
    sch.reorder(wave, i)
    with pytest.raises(ScheduleError, match="no_races"):
        sch.parallel(wave)
    sch.parallel(i)
    kinds = [node.kind for node in map(sch.get, sch.get_loops("A")) if isinstance(node, For)]
    assert kinds == [ForKind.SERIAL, ForKind.PARALLEL]
    verdict = reference.check(sweep, sch.func, modes=("exact", "field", "shadow", "order"))
    assert verdict, str(verdict)
    assert verdict.ran == ("exact", "field", "shadow", "order")


def test_reorder_of_a_skewed_nest_asks_about_dependences(skew: Primitive) -> None:
    """Of a block that reads up and to the right, a factor of 1 does not make a wavefront; 2 does."""

    @T.prim_func
    def leaning(X: T.Buffer((6, 6), "int32"), A: T.Buffer((7, 7), "int32")):
        for i, j in T.grid(7, 7):
            with T.block("edge"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1
        for i, j in T.grid(6, 6):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                with T.init():
                    A[vi + 1, vj] = X[vi, vj]
                A[vi + 1, vj] = A[vi + 1, vj] + A[vi, vj + 1]

    for factor, legal in ((1, False), (2, True)):
        sch: Any = tir.Schedule(leaning)
        i, j = sch.get_loops("A")
        wave = sch.skew(i, j, factor=factor)
        sch.reorder(wave, i)
        if legal:
            sch.parallel(i)
            assert reference.check(leaning, sch.func)
            continue
        with pytest.raises(ScheduleError, match="no_races"):
            sch.parallel(i)


@pytest.mark.parametrize(
    ("name", "told"), [("split", "split is a primitive of minitvm"), ("undo", "a Schedule has 'undo' already")]
)
def test_names_that_are_taken_are_refused(name: str, told: str, tmp_path: Path) -> None:
    before = getattr(tir.Schedule, name)
    text = FILE.read_text(encoding="utf-8").replace("def skew(", f"def {name}(").replace("skew.", f"{name}.")
    (tmp_path / "taken.py").write_text(text.replace("@skew", f"@{name}"))
    with pytest.raises(InputError, match=told):
        read_primitives(tmp_path / "taken.py")
    assert getattr(tir.Schedule, name) is before


def test_a_file_that_is_loaded_again_replaces_its_primitive(skew: Primitive) -> None:
    exec(FILE.read_text(encoding="utf-8"), {})  # as in a notebook: text without a module
    (again,) = read_primitives(FILE)
    assert again is not skew
    sch: Any = tir.Schedule(sweep)
    sch.skew(*sch.get_loops("A"))
    assert sch.trace.insts[-1].primitive is again


def test_files_without_a_primitive_are_told_so(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("x = 1\n")
    with pytest.raises(InputError, match="registers no schedule primitive\n  wanted: a function under @primitive"):
        read_primitives(tmp_path / "none.py")
    with pytest.raises(InputError, match="cannot be read"):
        read_primitives(tmp_path / "missing.py")
