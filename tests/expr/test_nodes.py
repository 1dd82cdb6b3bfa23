"""Expressions: what Python's operators build, what constructors refuse, and what they must not do: fold."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from minitvm import expr as x
from minitvm.errors import TypeMismatch
from minitvm.expr import EQ, Add, Call, Cast, FloatImm, IntImm, IterVar, Range, Var, const

i, l, u = Var("i"), Var("l", "int64"), Var("u", "uint8")
f, h, b = Var("f", "float32"), Var("h", "float16"), Var("b", "bool")


@pytest.mark.parametrize(
    ("built", "text", "dtype"),
    [
        (i + 1, "i + 1", "int32"),
        (1 - i, "1 - i", "int32"),
        (l + 1, "l + int64(1)", "int64"),
        (i + l, 'Cast("int64", i) + l', "int64"),
        (i * f, 'Cast("float32", i) * f', "float32"),
        (h + f, 'Cast("float32", h) + f', "float32"),
        (f / 2, "f / float32(2.0)", "float32"),
        (i // 2 % 3, "i // 2 % 3", "int32"),
        (7 // i, "7 // i", "int32"),
        (-i, "0 - i", "int32"),
        (i < 3, "i < 3", "bool"),
        ((i < 3) & (i >= 0), "i < 3 and i >= 0", "bool"),
        ((i < 3) | b, "i < 3 or b", "bool"),
        (~b, "not b", "bool"),
        (~i, "bitwise_not(i)", "int32"),
        (i << 2, "shift_left(i, 2)", "int32"),
        (i + 0.5, 'Cast("float32", i) + float32(0.5)', "float32"),
        (0.5 * i, 'float32(0.5) * Cast("float32", i)', "float32"),
        (1.0 / i, 'float32(1.0) / Cast("float32", i)', "float32"),
        (u ^ 3, "bitwise_xor(u, uint8(3))", "uint8"),
        (i == 3, "i == 3", "bool"),
        (f != 0, "f != float32(0.0)", "bool"),
        (b == True, "b == bool(True)", "bool"),  # noqa: E712
        (f * Fraction(1, 6), 'f * rational(1, 6, "float32")', "float32"),
        (f + np.float32(0.5), "f + float32(0.5)", "float32"),
        (x.Ramp(i, const(1), 4) + i, "Ramp(i, 1, 4) + Broadcast(i, 4)", "int32x4"),
        (x.Ramp(i, const(1), 4) < 3, "Ramp(i, 1, 4) < Broadcast(3, 4)", "boolx4"),
        (IterVar(i, Range.of(4)) * 2 + 1, "i * 2 + 1", "int32"),
        (x.call("pow", h, 2), 'pow(h, Cast("float16", 2))', "float16"),
    ],
)
def test_operators_build_nodes(built: x.Expr, text: str, dtype: str) -> None:
    assert str(built) == text
    assert built.dtype == dtype


def test_constructors_do_not_fold() -> None:
    """The oracle must see what was written."""
    assert isinstance(const(2) + const(3), Add)
    assert isinstance((i * 0).b, IntImm)  # type: ignore[attr-defined]
    assert isinstance(Cast(f.dtype, f), Cast)
    assert isinstance(x.Min(i, i), x.Min)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Add(i, l), "Add: the operands differ in dtype\n  found:  i is int32, l is int64"),
        (lambda: i / 2, "`/` between integers is ambiguous: i / 2\n  try:    `//` (floor)"),
        (lambda: IntImm(300, "uint8"), "300 is not a value of dtype uint8"),
        (lambda: IntImm(2**31), "2147483648 is not a value of dtype int32"),
        (lambda: const(0.5, "int32"), "0.5 is not a value of dtype int32"),
        (lambda: FloatImm(1.0, "int32"), "1.0 is not a value of dtype int32"),
        (lambda: x.Not(i), "not takes a bool, found int32"),
        (lambda: x.And(i, i), "And takes bool operands, found int32"),
        (lambda: x.Select(i, f, f), "Select takes a bool condition, found int32"),
        (lambda: x.Select(b, f, i), "Select between float32 and int32"),
        (lambda: bool(i < 3), "the value of `i < 3` is not known while the program is built"),
        (lambda: x.call("exp", i), "exp takes floats, found i of dtype int32"),
        (lambda: x.call("shift_left", f, f), "shift_left takes integers, found f of dtype float32"),
        (lambda: x.call("exq", f), "exq is not an intrinsic; did you mean exp"),
        (lambda: x.call("pow", f), "pow takes 2 arguments, found 1"),
    ],
)
def test_what_does_not_fit_is_refused(build, message: str) -> None:
    with pytest.raises(TypeMismatch, match=re.escape(message)):
        build()


def test_equality_builds_and_its_truth_is_identity() -> None:
    """So that expressions can be keys: dictionaries fall back on `==` when hashes collide."""
    other = Var("i")
    assert isinstance(i == other, EQ)
    assert bool(i == i)
    assert not bool(i == other)
    assert bool(i != other)
    assert {i: 1}.get(other) is None
    assert i in [other, i]
    assert other not in [i]


def test_nodes_are_frozen_and_have_no_dict() -> None:
    with pytest.raises(AttributeError):
        i.name = "j"  # type: ignore[misc]
    assert not hasattr(i + 1, "__dict__")


def test_ranges() -> None:
    assert [str(part) for part in (Range.of(8).start, Range.of(8).extent)] == ["0", "8"]
    assert str(Range.of(2, 8).extent) == "6"
    assert str(Range.of(i, i + 4).extent) == "i + 4 - i"
    assert Range.of(const(3, "int64")).start.dtype == "int64"


def test_intrinsics_work_out_their_dtype() -> None:
    assert x.call("isnan", f).dtype == "bool"
    assert x.call("if_then_else", b, f, 1.0).dtype == "float32"
    assert x.call("fma", f, h, f).dtype == "float32"
    assert isinstance(x.call("abs", i), Call)


def test_lists_of_sub_nodes_become_tuples() -> None:
    """A list would be no sub-node of `walk`; TVM's constructors accept lists, and numbers in them."""
    i = x.Var("i")
    shuffle = x.Shuffle([x.Ramp(i, x.const(1), 2), x.Ramp(i, x.const(1), 2)], [3, 0])  # type: ignore[arg-type]
    assert shuffle.indices == (3, 0) and sum(e is i for e in x.walk(shuffle)) == 2
    call = x.Call("int32", "shift_left", [i, 2])  # type: ignore[arg-type]
    assert [str(a) for a in call.args] == ["i", "2"] and isinstance(call.args, tuple)
