"""Whatever a primitive accepts, its trace can say: as Python and as JSON, expressions and sampled numbers included."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import InputError, ScheduleError
from minitvm.expr import StringImm, Var, structural_equal
from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.tir import IndexMap, PrimFunc
from minitvm.tir.python_text import parse_expression, python
from minitvm.tir.schedule import Schedule

from . import programs


def pair(dtype: str = "float32") -> PrimFunc:
    @T.prim_func
    def two(A: T.Buffer((14,), dtype), C: T.Buffer((14,), dtype)):
        B = T.alloc_buffer((14,), dtype)
        for i in T.grid(14):
            with T.block("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi] + A[vi]
        for i in T.grid(14):
            with T.block("C"):
                vi = T.axis.remap("S", [i])
                C[vi] = B[vi] + B[vi]

    return two


def again(sch: Schedule, func: PrimFunc) -> None:
    """The trace, through Python, JSON and back into a script, gives the same program."""
    replayed = verify_trace_roundtrip(sch, func)
    assert replayed.trace.as_json() == json.loads(sch.trace.dumps())
    assert structural_equal(from_source(sch.mod.script()), sch.mod)


MAPS: list[Callable[..., Any]] = [
    lambda i: (T.if_then_else(i < 7, 0, 1), i % 7),
    lambda i: (T.if_then_else(T.all(i >= 0, i < 7), 0, 1), i % 7),
    lambda i: (T.if_then_else(T.Not(i >= 7), 0, 1), i % 7),
    lambda i: (T.if_then_else(T.any(i == 7, i > 7), 1, 0), i % 7),
    lambda *i: (i[0] // 7, i[0] % 7),
    lambda i: [i // 7, IndexMap.AXIS_SEPARATOR, i % 7],
]


@pytest.mark.parametrize("index_map", MAPS)
def test_maps(index_map: Callable[..., Any]) -> None:
    sch = Schedule(pair())
    sch.transform_layout("B", ("write", 0), index_map)
    again(sch, pair())


PADS: list[Any] = [
    float("-inf"),
    float("inf"),
    T.min_value("float32"),
    T.float32(0.5) * 2,
    T.exp(T.float32(1.5)),
    np.float32(0.5),
    lambda a, b: T.Cast("float32", a) * T.float32(0.5),
    lambda a, b: T.exp(T.Cast("float32", a + b)),
    lambda a, b: T.Select(T.And(a < 2, b > 1), T.float32(1), T.infinity("float32")),
    lambda *i: T.float32(3),
]


@pytest.mark.parametrize("pad", PADS)
def test_pad_values(pad: Any) -> None:
    sch = Schedule(pair())
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=pad)
    again(sch, pair())


def test_constants_keep_their_dtypes() -> None:
    def wraps(i: Any, j: Any) -> Any:
        return T.Cast("float32", T.Select(i < 2, T.uint8(200), T.uint8(100)) + T.Cast("uint8", j + 100))

    sch = Schedule(pair())
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=wraps)
    again(sch, pair())


def test_a_pad_value_may_be_an_index_map() -> None:
    sch = Schedule(pair("int32"))
    pad = IndexMap.from_func(lambda i, j: i + j)
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=pad)
    assert "v_axis0 + v_axis1" in sch.mod.script()
    again(sch, pair("int32"))


def test_a_pad_value_that_no_text_says_is_refused() -> None:
    sch = Schedule(pair())
    with pytest.raises(ScheduleError, match="cannot be kept in a trace"):
        sch.transform_layout(
            "B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=lambda a, b: T.call_intrin("float32", "tir.rare", a)
        )
    assert len(sch.trace) == 0


def sampled(sch: Schedule, value: int) -> Any:
    return sch.sample_categorical([value], [1.0], decision=0)


SAMPLED: list[Callable[[Schedule], Any]] = [
    lambda s: s.storage_align("B", 0, 0, sampled(s, 32), sampled(s, 8)),
    lambda s: s.storage_align("B", 0, 0, factor=sampled(s, 16) * 2, offset=T.min(sampled(s, 8), 12)),
    lambda s: s.cache_index("C", "global", sampled(s, 0)),
    lambda s: s.sample_perfect_tile(s.get_loops("C")[0], n=sampled(s, 2), max_innermost_factor=sampled(s, 4)),
    lambda s: s.sample_partitioned_tile(s.get_loops("C")[0], sampled(s, 2), 1, sampled(s, 2)),
    lambda s: s.split(s.get_loops("C")[0], [None, T.max(sampled(s, 4), 2)]),
    lambda s: s.transform_layout("B", ("write", 0), lambda i, j: (i // 4, i % 4, j), pad_value=sampled(s, 3)),
    lambda s: s.annotate("B", "k", {"a": [sampled(s, 3), sampled(s, 3) + 1, "b0"], "b": {"c": -1.5}}),
]


@pytest.mark.parametrize("call", SAMPLED)
def test_sampled_numbers(call: Callable[[Schedule], Any]) -> None:
    sch = Schedule(programs.chain())
    call(sch)
    again(sch, programs.chain())
    assert '"v' in sch.trace.dumps()


NOTES: list[Any] = [
    "text", "", "b0", "None", "[1]", 1, -1, 1.5, -0.5, True, [1, "a", [2.5]], [], {"a": 1}, {"a": {"b": [True]}},
    np.int64(3), [np.float32(0.5)], T.int32(3), T.float32(1.5), (1, 2), float("inf"),
]  # fmt: skip


@pytest.mark.parametrize("value", NOTES)
def test_annotations(value: Any) -> None:
    sch = Schedule(programs.chain())
    sch.annotate("B", "k", value)
    sch.annotate(sch.get_loops("C")[0], "k", value)
    again(sch, programs.chain())


@pytest.mark.parametrize("key", ["lambda", "lambda i: i", "tir.IndexMap.from_func"])
def test_text_that_only_looks_like_a_function(key: str) -> None:
    sch = Schedule(programs.chain())
    sch.annotate("B", key, 1)
    again(sch, programs.chain())
    sch.unannotate("B", key)
    again(sch, programs.chain())


@pytest.mark.parametrize(
    "value",
    [None, object(), b"x", {1: 2}, [object()], {"a": None}, lambda i: i, pair(), Var("n"), range(2), len, StringImm],
)
def test_what_is_no_data_is_no_annotation(value: Any) -> None:
    sch = Schedule(programs.chain())
    with pytest.raises(ScheduleError, match="note_is_data"):
        sch.annotate("B", "k", value)


def test_a_handle_is_no_annotation() -> None:
    sch = Schedule(programs.chain())
    for handle in (sch.get_block("C"), [sch.get_loops("C")[0]]):
        with pytest.raises(ScheduleError, match="note_is_data"):
            sch.annotate("B", "k", handle)


def test_text_of_expressions_reads_back() -> None:
    a, x = Var("a"), Var("x", "float32")
    names = {"a": a, "x": x}
    for e in (
        a * -3 + 7 // (a % 5), T.truncdiv(a, 3) - T.truncmod(a, 3), (a ^ 3) | (a & 1) << 2, T.Cast("int8", a),
        T.all(a < 1, T.any(a != 2, a == 4), T.Not(a >= 0)), T.reinterpret("int32", x), x / T.float32(3), T.pow(x, x),
        x * T.infinity("float32"), T.Cast("float64", x) * T.float64(0.1), T.if_then_else(a <= 3, x, T.float32(-1)),
        T.Select(a < 2, T.uint8(200), T.uint8(100)) + T.Cast("uint8", a),
        T.if_then_else(a < 7, T.int64(0), T.int64(-1)),
        T.Cast("bool", a) == T.bool(True), T.Cast("int8", a) * T.int8(-128), T.uint64(2**40) + T.Cast("uint64", a),
    ):  # fmt: skip
        assert structural_equal(parse_expression(python(e), names), e)
    for text in ("exp(a, a)", "a.b", "tir.open(a)", "tir.const(a)", "[a for a in a]", "'a'[0]", "a < a < a", "eval(a)"):
        with pytest.raises(ValueError, match=r"means nothing|takes|argument"):
            parse_expression(text, names)
    with pytest.raises(InputError, match="cannot be kept"):
        python(T.Ramp(a, 1, 4))
