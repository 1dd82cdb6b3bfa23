"""Dtypes: spelling, parts, ranges, and how two of them meet."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.expr import SCALARS, DType, dtype_of_value, promote
from minitvm.expr.dtypes import is_floating

scalars = st.sampled_from(SCALARS).map(DType)
dtypes = st.builds(lambda dtype, lanes: dtype.with_lanes(lanes), scalars, st.sampled_from([1, 1, 4, 8]))


@given(dtypes)
def test_parts_make_the_spelling(dtype: DType) -> None:
    assert DType(str(dtype)) is dtype
    assert dtype.scalar.with_lanes(dtype.lanes) == dtype
    assert str(dtype) == str(dtype.scalar) + (f"x{dtype.lanes}" if dtype.lanes > 1 else "")
    assert [dtype.is_bool, dtype.is_int, dtype.is_float].count(True) == 1
    assert pickle.loads(pickle.dumps(dtype)) is dtype


@pytest.mark.parametrize("name", SCALARS)
def test_size_and_range_are_those_of_numpy(name: str) -> None:
    dtype = DType(name)
    assert dtype.bytes == dtype.numpy.itemsize
    assert dtype.numpy.name == name and is_floating(dtype.numpy) == dtype.is_float
    if dtype.is_int:
        assert (dtype.min, dtype.max) == (np.iinfo(name).min, np.iinfo(name).max)
    if dtype.is_float:
        ends = ml_dtypes.finfo(name) if name == "bfloat16" else np.finfo(name)
        assert (dtype.min, dtype.max) == (ends.min, ends.max)


@pytest.mark.parametrize(("short", "full"), [("int", "int32"), ("float", "float32"), ("uintx4", "uint32x4")])
def test_spellings(short: str, full: str) -> None:
    assert DType(short) == full
    assert DType(np.dtype("int8")) == "int8"
    assert DType(np.float16) == "float16"


@pytest.mark.parametrize("wrong", ["flot32", "float8", "int7", "uint128", "float32x", ""])
def test_what_is_no_dtype_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"is not a dtype; known: bool, int8, .* and vectors such as float32x8"):
        DType(wrong)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("int32", "int64", "int64"), ("int32", "float16", "float16"), ("float32", "float16", "float32"),
        ("int8", "uint8", "uint8"), ("int64", "uint8", "int64"), ("bool", "int8", "int8"),
        ("float16", "bfloat16", "float32"), ("bfloat16", "float32", "float32"), ("bfloat16", "int64", "bfloat16"),
        ("float32", "float32x8", "float32x8"), ("int32x4", "float32", "float32x4"), ("bool", "bool", "bool"),
    ],
)  # fmt: skip
def test_two_dtypes_meet(a: str, b: str, expected: str) -> None:
    assert promote(DType(a), DType(b)) == expected


@given(scalars, scalars)
def test_meeting_does_not_depend_on_the_order(a: DType, b: DType) -> None:
    assert promote(a, b) == promote(b, a)
    assert promote(a, promote(a, b)) == promote(a, b)


def test_what_does_not_meet() -> None:
    with pytest.raises(TypeError, match="lanes differ: float32x4 and float32x8"):
        promote(DType("float32x4"), DType("float32x8"))
    with pytest.raises(TypeError, match="no common dtype of handle and int32"):
        promote(DType("handle"), DType("int32"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, "bool"), (3, "int32"), (-(2**31), "int32"), (2**31, "int64"), (0.5, "float32"), (np.int8(3), "int8")],
)
def test_dtype_of_a_constant(value: object, expected: str) -> None:
    assert dtype_of_value(value) == expected


def test_a_text_is_no_scalar() -> None:
    with pytest.raises(TypeError, match="'x' of type str is not a scalar constant"):
        dtype_of_value("x")
