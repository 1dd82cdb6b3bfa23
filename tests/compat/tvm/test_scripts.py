"""Short scripts as people write them for TVM run here; what TVM has and minitvm has not names the way that there is."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import minitvm as tvm
from minitvm import te, tir
from minitvm.absent import ABSENT
from minitvm.errors import InputError
from minitvm.expr import replace, structural_equal
from minitvm.expr.foreign import FOREIGN
from minitvm.graph import GraphBuilder
from minitvm.reference.strategies import exprs, prim_funcs
from minitvm.script import ir as I
from minitvm.script import tir as T
from minitvm.tir.script.refused import REFUSED


@I.ir_module
class Add:
    @T.prim_func
    def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")):
        for i in range(128):
            with T.block("C"):
                vi = T.axis.remap("S", [i])
                C[vi] = A[vi] + B[vi]


@pytest.fixture(scope="module")
def add() -> Any:
    return tvm.build(Add, target="llvm")


def arrays(count: int = 3) -> list[Any]:
    rng = np.random.default_rng(0)
    return [tvm.nd.array(rng.random(128, dtype="float32"), tvm.cpu()) for _ in range(count)]


def test_build_run_and_compare(add: Any) -> None:
    a, b, c = arrays()
    add["main"](a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy(), rtol=1e-6)
    add(a, c, b)  # the module itself is its entry
    assert type(b.numpy()) is np.ndarray
    assert add.entry_name in ("main", add.name)
    with pytest.raises(InputError, match="the module has no function 'mian'; did you mean main"):
        add["mian"]


def test_tensor_expressions_to_numbers() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    mod = tvm.IRModule({"main": te.create_prim_func([A, B])})
    dev = tvm.device("llvm", 0)
    x, y = tvm.runtime.tensor(np.arange(8, dtype="float32"), dev), tvm.runtime.empty((8,), "float32", dev)
    tvm.compile(mod, tvm.target.Target("llvm"))["main"](x, y)
    tvm.testing.assert_allclose(y, 2 * x.numpy())


def test_arrays() -> None:
    a = tvm.nd.array([1.0, 2.0])
    assert a.dtype == "float32" and isinstance(a, tvm.nd.NDArray) and str(a.device) == "cpu:0"
    b = a.copyto(tvm.cpu(0))
    b[0] = 5
    assert a[0] == 1.0 and a.copyfrom(b)[0] == 5.0
    assert a.asnumpy() is not a and not np.shares_memory(a.numpy(), a)
    dev = tvm.cpu()
    dev.sync()
    assert dev.exist
    with pytest.raises(InputError, match="no array is on the device 'cuda'"):
        tvm.device("cuda")
    with pytest.raises(InputError, match=r"copyfrom: an array of shape \(3,\) into one of shape \(2,\)"):
        a.copyfrom([1, 2, 3])


def test_timing(add: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(float(k) for k in range(1000))
    monkeypatch.setattr("minitvm.runtime.time_evaluator.time.perf_counter", lambda: next(now))
    a, b, c = arrays()
    result = add.time_evaluator(add.entry_name, tvm.cpu(), number=4, repeat=3)(a, b, c)
    assert result.results == (0.25, 0.25, 0.25) and result.mean == result.median == 0.25 and result.std == 0
    assert add.benchmark(tvm.cpu(), a, b, c, number=2, repeat=1).mean == 0.5
    assert str(result).splitlines()[0] == "Execution time (ms)"
    # One second a repeat: 2000 ms take at least twice the calls.
    monkeypatch.setattr("minitvm.runtime.time_evaluator._seconds", lambda call, calls, args, named: calls * 0.1)
    assert add.time_evaluator("main", number=1, min_repeat_ms=2000)(a, b, c).mean == pytest.approx(0.1)
    with pytest.raises(InputError, match="number=0"):
        add.time_evaluator("main", tvm.cpu(), number=0)
    with pytest.raises(InputError, match=r"time_evaluator\(cache_flush_bytes=1\): nothing runs between the calls"):
        add.time_evaluator("main", tvm.cpu(), cache_flush_bytes=1)


def test_source_and_saving(add: Any, tmp_path: Path) -> None:
    assert "def " in add.get_source() and "T.prim_func" in add.get_source("tir")
    assert add.imported_modules == ()
    add.export_library(tmp_path / "add.tar")
    again = tvm.runtime.load_module(tmp_path / "add.tar")
    a, b, c = arrays()
    again["main"](a, b, c)
    tvm.testing.assert_allclose(c, a + b)
    with pytest.raises(InputError, match="export_library has no option cc"):
        add.export_library(tmp_path / "x", cc="gcc")


def test_module_of_several_functions() -> None:
    double = replace(Add["main"], attrs={"global_symbol": "again"})
    rt = tvm.build(tvm.IRModule({"main": Add["main"], "again": double}))
    a, b, c = arrays()
    rt["again"](a, b, c)
    tvm.testing.assert_allclose(c, a + b)
    assert list(rt) == ["main", "again"]
    with pytest.raises(InputError, match="the module has no function 'agian'; did you mean again"):
        rt["agian"]


def test_graph_module_by_entries() -> None:
    builder = GraphBuilder("relu")
    x = builder.input("x", (4,), "float32")
    module = tvm.build(builder.build(builder.op("nn.relu", x)))
    module.set_input("x", tvm.nd.array([-1.0, 0.0, 1.0, 2.0]))
    module["run"]()
    tvm.testing.assert_allclose(module.get_output(0), [0, 0, 1, 2])
    assert len(module.benchmark(tvm.cpu(), func_name="run", repeat=2, number=1).results) == 2
    tvm.testing.assert_allclose(module["main"](np.array([-1, 1, 1, 1], "float32")), [0, 1, 1, 1])


def test_errors_go_by_tvms_name() -> None:
    with pytest.raises(tvm.TVMError):
        tvm.script.from_source("x = (")
    assert issubclass(tir.ScheduleError, tvm.TVMError)


@pytest.mark.parametrize(("desired", "problem"), [([1.0, 3.0], "Mismatched elements"), ([1.0], "shapes differ")])
def test_assert_allclose_refuses(desired: list[float], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        tvm.testing.assert_allclose(np.array([1.0, 2.0]), np.array(desired))


# ---- passes --------------------------------------------------------------------------------------------------------


def test_instruments_hear_of_every_pass(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[tuple[str, str]] = []

    @tvm.ir.instrument.pass_instrument
    class Listener:
        def run_before_pass(self, mod: Any, info: Any) -> None:
            heard.append(("before", info.name))

        def run_after_pass(self, mod: Any, info: Any) -> None:
            assert isinstance(mod, tvm.IRModule)
            heard.append(("after", info.name))

    ticks = iter(range(10**6))
    timing = tvm.ir.instrument.PassTimingInstrument(clock=lambda: float(next(ticks)))
    printing = tvm.ir.instrument.PassPrintingInstrument(print_after_pass_names=["flatten_buffers"])
    with tvm.transform.PassContext(opt_level=3, instruments=[Listener(), timing, printing]):
        tvm.lower(Add)
    names = [p.name for p in importlib.import_module("minitvm.tir.transform.pipeline").passes(tvm.target.Target("cpu"))]
    assert heard == [(when, name) for name in names for when in ("before", "after")]
    assert set(timing.seconds) == set(names) and "simplify: 1000.000 ms" in timing.render()
    printed = capsys.readouterr().out
    assert printed.count("@I.ir_module") == 1 and printed.startswith("# after flatten_buffers\n")
    tvm.lower(Add)
    assert len(heard) == 2 * len(names)  # no context, no word


def test_a_pass_called_by_itself_can_be_turned_down(capsys: pytest.CaptureFixture[str]) -> None:
    @tvm.transform.module_pass(opt_level=1, name="mark")
    def mark(mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        return replace(mod, attrs={"level": ctx.opt_level})

    sequence = tvm.transform.Sequential([mark, tvm.transform.PrintIR("marked")], opt_level=0)
    with tvm.transform.PassContext(opt_level=3):
        assert sequence(Add).attrs["level"] == 3
    assert capsys.readouterr().out.startswith("# marked\n")
    with tvm.transform.PassContext(disabled_pass=["mark"]):
        assert sequence(Add).attrs == {}

    class Never(tvm.ir.instrument.PassInstrument):
        def should_run(self, mod: Any, info: Any) -> bool:
            return info.name != "mark"

    with tvm.transform.PassContext(instruments=[Never()]):
        assert sequence(Add).attrs == {}
    with pytest.raises(InputError, match="passes have no option 'tir.UnrollLoop' here"):
        tvm.transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 16}})


# ---- programs as data ----------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(prim_funcs())
def test_a_program_under_other_names_has_the_same_hash(func: tir.PrimFunc) -> None:
    mod = tvm.IRModule({"main": func})
    again = tvm.ir.load_json(tvm.ir.save_json(mod))
    assert structural_equal(again, mod)
    renamed = re.sub(r"\bv(\w+)\b", r"w\1", func.script())
    other = tvm.script.from_source(renamed)
    assert structural_equal(other, func)
    assert tvm.ir.structural_hash(other) == tvm.ir.structural_hash(func)
    assert tvm.ir.structural_hash(again) == tvm.ir.structural_hash(mod)


X, Y = tir.Var("x"), tir.Var("y")


@settings(max_examples=80)
@given(exprs([X, Y], "int32", max_depth=2), exprs([X, Y], "int32", max_depth=2))
def test_hash_is_as_fine_as_equality(a: tir.PrimExpr, b: tir.PrimExpr) -> None:
    """With free variables mapped, two expressions share a hash exactly where they are equal up to their names."""
    equal = tvm.ir.structural_equal(a, b, map_free_vars=True)
    assert equal == (tvm.ir.structural_hash(a, True) == tvm.ir.structural_hash(b, True))


def test_texts_that_are_no_programs() -> None:
    for text, problem in [("{", "no JSON"), ("[]", "no program"), ('{"format": "minitvm.program", "version": 2, '
                          '"script": ""}', "version 2")]:  # fmt: skip
        with pytest.raises(InputError, match=problem):
            tvm.ir.load_json(text)
    with pytest.raises(InputError, match="save_json takes a module or a function, found Add"):
        tvm.ir.save_json(X + 1)


def test_constructors_in_tvms_order() -> None:
    pairs = [(tir.IntImm("int64", 5), tir.IntImm(5, "int64")),
             (tir.FloatImm("float16", 0.5), tir.FloatImm(0.5, "float16")),
             (tir.Cast("float32", 1), tir.const(1).astype("float32")), (tir.Add(X, 1), X + 1),
             (tir.SeqStmt([tir.Evaluate(0)]), tir.SeqStmt((tir.Evaluate(tir.const(0)),)))]  # fmt: skip
    assert all(structural_equal(a, b) for a, b in pairs)
    i = tir.IterVar((0, 8), "i", 2)
    assert (i.kind, int(i.dom.extent), i.var.name) == ("R", 8, "i")
    assert (int(tvm.ir.Range(2, 8).extent), int(tvm.ir.Range.from_min_extent(2, 8).extent)) == (6, 8)
    assert isinstance(tvm.ir.Range(4), tvm.ir.Range)
    a = tir.decl_buffer((4, 4), name="A")
    assert structural_equal(tir.BufferLoad(a, [X, 1]), a[X, 1])
    assert str(a.access_ptr("rw", offset=4)) == 'tvm_access_ptr(type_annotation("float32"), A.data, 4, 12, 3)'


# ---- what is not here ----------------------------------------------------------------------------------------------


def resolved(name: str) -> Any:
    """What `tvm.NAME` is."""
    item: Any = tvm
    for part in name.removeprefix("tvm.").split("."):
        item = getattr(item, part)
    return item


@pytest.mark.parametrize("name", ABSENT)
def test_name_that_is_absent_says_what_takes_its_place(name: str) -> None:
    with pytest.raises(AttributeError) as refused:
        resolved(name)
    assert str(refused.value).endswith(f"TVM's {name} is not here\n  try:    {ABSENT[name]}")


@pytest.mark.parametrize("name", [name for name in ABSENT if name.rpartition(".")[0] in ("", "ir", "script", "tir")])
def test_an_import_of_what_is_absent_says_what_takes_its_place(name: str) -> None:
    parent, _, last = name.rpartition(".")
    package = f"minitvm.{parent}".rstrip(".")
    for statement in (f"from {package} import {last}", f"import minitvm.{name}"):
        with pytest.raises(ModuleNotFoundError) as refused:
            exec(statement)
        assert (
            str(refused.value)
            == f"No module named 'minitvm.{name}': TVM's {name} is not here\n  try:    {ABSENT[name]}"
        )


def test_an_import_of_a_name_that_nobody_has_is_pythons() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'minitvm.nothing'$"):
        importlib.import_module("minitvm.nothing")
    assert not hasattr(tvm, "relay") and importlib.util.find_spec("minitvm.nothing") is None


def test_near_names_are_suggested() -> None:
    with pytest.raises(AttributeError, match="module 'minitvm' has no attribute 'biuld': did you mean build"):
        tvm.biuld
    with pytest.raises(ImportError):
        from minitvm import relay  # noqa: F401


_ROW = re.compile(r"^\| `(?P<left>[^`]+)` \| (?P<right>.+?) \|$", re.MULTILINE)


def test_the_table_of_names_is_true() -> None:
    """Each row's name, in docs/tvm.md, works here or is refused with the way that the row shows."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "tvm.md").read_text(encoding="utf-8")
    section = page.partition("## Names of TVM's Python package\n")[2].partition("\n## ")[0]
    rows = {m["left"]: m["right"] for m in _ROW.finditer(section)}
    assert len(rows) > 40
    for left, right in rows.items():
        name = left.partition("(")[0].partition("[")[0]
        if name.removeprefix("tvm.") in ABSENT:
            assert right == f"not in minitvm: {ABSENT[name.removeprefix('tvm.')]}", left
        else:
            assert not right.startswith("not in minitvm"), left
            resolved(name)
    assert set(ABSENT) <= {left.removeprefix("tvm.") for left in rows}


def test_the_list_of_words_is_true() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "tvm.md").read_text(encoding="utf-8")
    for name, row in REFUSED.items():
        assert f"| `T.{name}` | {row.reason} |" in page, name
    for name, operation in FOREIGN.items():
        assert re.search(rf"^\| {operation.reason} \| .*`T\.{name}`", page, re.MULTILINE), name
