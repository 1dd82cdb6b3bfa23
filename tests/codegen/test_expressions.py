"""The walk over expressions, in a small language of the tests' own: scalars in Python, with NumPy's numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import expr as e
from minitvm.arith import Analyzer
from minitvm.codegen import decompose
from minitvm.codegen.emitter import Emitter
from minitvm.codegen.spelling import COMPARISONS, PYTHON, atom
from minitvm.errors import InternalError, Unsupported
from minitvm.reference import kernel as reference
from minitvm.reference.strategies.expressions import exprs
from minitvm.tir import nodes as t
from tests.codegen.masked_kernels import COUNT, FIRST, index
from tests.codegen.test_random_kernels import INTEGERS, ends, of_expressions
from tests.fewer import examples

OPERATORS = {e.Add: "+", e.Sub: "-", e.Mul: "*"}
DIVISIONS = {e.Div: "quotient", e.Mod: "np.fmod"}


class Plain(Emitter):
    """Scalars: integers wrap, and divide towards zero. Shifts of more places than there are mean nothing."""

    syntax = PYTHON
    language = "plain Python"
    lacks = (
        *Emitter.lacks, decompose.FLOORED, decompose.NEAR_SHIFTS, decompose.PRODUCTS_OF_BYTES, decompose.ROUNDED_AWAY,
        decompose.HALVES, decompose.INTEGER_TESTS, decompose.UNSIGNED_ABS,
    )  # fmt: skip
    index_rules = (decompose.SHIFTED, decompose.TRUNCATED)
    functions = {
        **{name: f"np.{name}" for name in ("abs", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "copysign")},
        "nearbyint": "np.rint", "fmod": "np.fmod", "bitwise_and": "np.bitwise_and", "bitwise_or": "np.bitwise_or",
        "bitwise_xor": "np.bitwise_xor", "bitwise_not": "np.invert", "shift_left": "left", "shift_right": "right",
    }  # fmt: skip

    def __init__(self, kernel: t.PrimFunc) -> None:
        super().__init__(kernel, None, ("np", "range", "min", "max", "int", "cast", "quotient", "left", "right"))

    def module(self) -> str:
        with self.block(f"def k({', '.join(self.names[p] for p in self.kernel.params)}):"):
            self.stmt(self.kernel.body)
        return "\n".join(self.lines)

    def loop_header(self, name: str, first: str, end: str) -> str:
        return f"for {name} in range({first}, {end}):"

    def store_element(self, stmt: t.BufferStore, value: str) -> str:
        return f"{self.names[stmt.buffer]}[{self.index(stmt.indices[0])}] = {value}"

    def evaluate(self, stmt: t.Evaluate) -> None:
        raise Unsupported(f"{stmt.value} in {self.language}")

    def stack_array(self, buffer: t.Buffer) -> None:
        self.line(f"{self.names[buffer]} = np.empty({self.index(buffer.shape[0])}, {str(buffer.dtype)!r})")

    def declare_register(self, buffer: t.Buffer, register: Any, name: str) -> None:
        self.line(f"{name} = None")

    def to_index(self, text: str) -> str:
        return f"int({text})"

    def from_index(self, name: str, dtype: e.DType) -> str:
        return f"cast({name}, {str(dtype)!r})"

    def index_extreme(self, x: e.Min | e.Max) -> str:
        return f"{'min' if isinstance(x, e.Min) else 'max'}({self.index(x.a)}, {self.index(x.b)})"

    def index_division(self, x: Any) -> str:
        if isinstance(x, e.Div | e.Mod):
            return f"int({DIVISIONS[type(x)]}({self.index(x.a)}, {self.index(x.b)}))"
        return f"({atom(self.index(x.a))} {'//' if isinstance(x, e.FloorDiv) else '%'} {atom(self.index(x.b))})"

    def constant(self, x: e.IntImm | e.FloatImm) -> str:
        return f"cast({x.value}, {str(x.dtype)!r})"

    def zero(self, dtype: e.DType) -> str:
        return f"cast(0, {str(dtype)!r})"

    def converted(self, text: str, source: e.DType, to: e.DType) -> str:
        return f"cast({text}, {str(to)!r})"

    def comparison(self, x: e.CompareOp) -> str:
        return f"({atom(self.value(x.a))} {COMPARISONS[type(x)]} {atom(self.value(x.b))})"

    def arithmetic(self, x: e.BinaryOp) -> str:
        assert not x.dtype.is_half
        a, b = self.value(x.a), self.value(x.b)
        if isinstance(x, e.Min | e.Max):
            return f"({a} if {a} {'<' if isinstance(x, e.Min) else '>'} {b} or {a} != {a} else {b})"
        if type(x) in OPERATORS:
            return f"({a} {OPERATORS[type(x)]} {b})"
        return f"({a} / {b})" if x.dtype.is_float else f"{DIVISIONS[type(x)]}({a}, {b})"

    def reinterpreted(self, x: e.Call) -> str:
        return f"{self.value(x.args[0])}.view({str(x.dtype)!r})"

    def element(self, x: t.BufferLoad) -> str:
        return f"{self.names[x.buffer]}[{self.index(x.indices[0])}]"


def _cast(value: Any, dtype: str) -> Any:
    return np.asarray(value).astype(e.DType(dtype).numpy)[()]


def _quotient(a: Any, b: Any) -> Any:
    quotient = abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1)
    return _cast(quotient, a.dtype.name) if hasattr(a, "dtype") else quotient


def _shift(kind: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def shift(a: Any, b: Any) -> Any:
        assert 0 <= b < a.dtype.itemsize * 8, "a shift that means nothing"
        return kind(a, b)

    return shift


NAMES = {"np": np, "cast": _cast, "quotient": _quotient, "left": _shift(np.left_shift), "right": _shift(np.right_shift)}


def run_plain(func: t.PrimFunc, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays after the kernel has run as Python."""
    names, copies = dict(NAMES), [a.copy() for a in arrays]
    exec(Plain(func).module(), names)
    with np.errstate(all="ignore"):
        names["k"](*copies)  # type: ignore[operator]
    return copies


def can_spell(x: e.Expr) -> bool:
    """Lowering removes lets, and `Plain` has no function that multiplies and adds, or counts bits."""
    lacking = ("fma", "dot2_bf16", "popcount")
    return not any(isinstance(n, e.Let) or (isinstance(n, e.Call) and n.op in lacking) for n in e.find(x, e.Expr))


@st.composite
def kernels(draw: Any) -> tuple[t.PrimFunc, list[np.ndarray]]:
    """A kernel of expressions of all integers and floats, with shifts of any width; and its arguments."""
    i, rng = e.Var("i"), np.random.default_rng(draw(st.integers(0, 99)))
    inputs = [t.Buffer(f"A_{d}", (e.const(COUNT),), d) for d in INTEGERS]
    loads = [b[i - FIRST] for b in inputs]
    values = [
        draw(exprs([*loads, i], d, max_depth=3, intrinsics=True).filter(can_spell))
        for d in (*INTEGERS, "float16", "float32", "float64", "bool")
    ]
    values += [
        e.call(op, load, e.call("bitwise_and", load, e.const(draw(st.sampled_from([15, 127])), load.dtype)))
        for load in loads
        for op in ("shift_left", "shift_right")
    ]
    arrays = [ends(d, rng) for d in INTEGERS] + [np.zeros(COUNT, str(x.dtype)) for x in values]
    return of_expressions(values, inputs, i), arrays


def plain_alike(case: tuple[t.PrimFunc, list[np.ndarray]]) -> None:
    """As Python, a kernel leaves the numbers that it leaves in the interpreter, zeros with their signs."""
    func, arrays = case
    expected = [a.copy() for a in arrays]
    with np.errstate(all="ignore"):
        reference.run(func, *expected)
    for found, want in zip(run_plain(func, arrays), expected, strict=True):
        pair = [found, want] if want.dtype.kind in "iub" else [found.astype("float64"), want.astype("float64")]
        np.testing.assert_array_equal(*pair, err_msg=str(func))
        if pair[0].dtype.kind == "f":
            np.testing.assert_array_equal(*(np.signbit(x[x == 0]) for x in pair))


@examples(6, 30)
@given(case=kernels())
def test_drawn_expressions_compute_what_the_interpreter_does(case: tuple[t.PrimFunc, list[np.ndarray]]) -> None:
    plain_alike(case)


@pytest.mark.parametrize("seed", range(4))
def test_index_expressions_compute_what_the_interpreter_does(seed: int) -> None:
    i, random = e.Var("i"), Random(seed)
    values = [e.Cast(e.DType("int64"), index(random, i, 3)) for _ in range(20)]
    plain_alike((of_expressions(values, (), i), [np.zeros(COUNT, "int64") for _ in values]))


NUMBERS = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 0.49999997, -0.3, 2049.0, np.inf, -np.inf, np.nan]


def special_numbers(dtype: str) -> tuple[t.PrimFunc, list[np.ndarray]]:
    """A kernel that rounds, multiplies and compares halves, zeros of both signs, infinities and NaN; its arguments."""
    i, data = e.Var("i"), t.Buffer("A", (e.const(COUNT),), dtype)
    x = data[i - FIRST]
    values = [e.call("round", x), x * x - x, e.Min(x, e.const(0.25, dtype)), e.Cast(e.DType("int8"), x <= x * x)]
    numbers = np.resize(np.array(NUMBERS), COUNT).astype(e.DType(dtype).numpy)
    return of_expressions(values, [data], i), [numbers, *(np.zeros(COUNT, v.dtype.numpy) for v in values)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_special_numbers_are_rounded_away_from_zero_and_compared(dtype: str) -> None:
    plain_alike(special_numbers(dtype))


def test_rules_apply_in_the_order_of_the_table() -> None:
    i = e.SizeVar("i")
    for rules, text in (
        ((decompose.SHIFTED, decompose.TRUNCATED), "shift_right(i, 2)"),
        ((decompose.TRUNCATED, decompose.SHIFTED), "truncdiv(i, 4)"),
    ):
        assert str(decompose.decomposed(i // 4, rules, Analyzer())) == text
        assert str(decompose.decomposed(i % 3, rules, Analyzer())) == "truncmod(i, 3)"
        assert str(decompose.decomposed(i // -3, rules, Analyzer())) == "i // -3"


@pytest.mark.parametrize(("value", "kind", "text"), [
    (e.Broadcast(e.const(1), 4), Unsupported, r"Broadcast in plain Python: Broadcast\(1, 4\)"),
    (e.call("erf", e.const(0.5)), Unsupported, "the intrinsic erf in plain Python"),
    (e.Let(e.Var("a"), e.const(1), e.const(2)), InternalError, "a let expression in a kernel: lowering should have"),
    (e.StringImm("a"), Unsupported, 'StringImm in plain Python: "a"'),
])  # fmt: skip
def test_what_a_language_lacks_is_refused(value: e.Expr, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        Plain(of_expressions([e.const(0)], (), e.Var("i"))).value(value)
