"""Which function of a module is meant: an only one is also "main", as in TVM, and unknown names name what there is."""

from __future__ import annotations

import pytest

from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import InputError, ScheduleError
from minitvm.expr import structural_equal
from minitvm.tir import IRModule, PrimFunc
from minitvm.tir.schedule import Schedule, Trace

from . import programs


def matmul() -> PrimFunc:
    return programs.matmul().with_attr("global_symbol", "matmul")


def test_the_only_function_is_also_main() -> None:
    func = matmul()
    sch = Schedule(func)
    assert structural_equal(sch.mod["main"], func)
    assert "main" in sch.mod
    assert sch.mod.name_of("main") == "matmul"
    assert sch.get_block("C", "main") == sch.get_block("C")
    sch.work_on("main")
    assert sch.func_working_on == "matmul"
    assert list(sch.mod.functions) == ["matmul"]
    assert "def matmul(" in sch.mod.script()


def test_main_is_no_second_name_beside_another_function() -> None:
    mod = IRModule({"first": programs.matmul(), "second": programs.chain()})
    assert "main" not in mod
    with pytest.raises(InputError, match="no function 'main' in the module; known: first, second"):
        mod["main"]


def test_a_trace_that_names_main_loads() -> None:
    steps = [
        ["GetSBlock", [], ["C", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
        ["Split", ["l1", "None", 4], [True, False], ["l4", "l5"]],
    ]
    sch = Schedule(matmul())
    Trace.apply_json_to_schedule([steps, []], sch)
    assert len(sch.get_loops("C")) == 4


def test_an_unknown_function_is_an_error_that_names_what_there_is() -> None:
    sch = Schedule(matmul())
    with pytest.raises(InputError, match="no function 'matmol' in the module; did you mean matmul"):
        sch.mod["matmol"]
    with pytest.raises(ScheduleError, match=r"get_block\(.*no function 'zz' in the module; known: matmul"):
        sch.get_block("C", "zz")


def test_of_several_functions_one_has_to_be_chosen() -> None:
    mod = IRModule({"first": programs.matmul(), "second": programs.chain()})
    sch = Schedule(mod)
    assert sch.func_working_on is None
    for call in (lambda: sch.get_block("C"), lambda: sch.compute_inline("B"), lambda: sch.func, sch.space):
        with pytest.raises(ScheduleError, match="the module has first, second, and none is named main"):
            call()
    sch.vectorize(sch.get_loops(sch.get_block("D", "second"))[1])  # a handle says where it is
    sch.work_on("second")
    sch.compute_inline("B")
    verify_trace_roundtrip(sch, mod)


def test_main_is_worked_on_where_there_is_one() -> None:
    assert Schedule(IRModule({"first": programs.chain(), "main": programs.matmul()})).func_working_on == "main"
