"""Making tensors and reducers: names of axes, dtypes, and the error for each thing that does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm import te
from minitvm.errors import InputError, TypeMismatch
from minitvm.expr import Reduce
from minitvm.reference.te import evaluate


def test_axes_take_the_names_of_the_parameters() -> None:
    A = te.placeholder((2, 3, 4), name="A")
    named = te.compute((2, 3, 4), lambda n, *rest: A[(n, *rest)])
    assert [a.var.name for a in named.op.axis] == ["n", "i0", "i1"]
    given = te.compute((2, 3, 4), lambda *i: A[i], varargs_names=["a", "b", "c"])
    assert [a.var.name for a in given.op.axis] == ["a", "b", "c"]


def test_default_arguments_are_no_axes() -> None:
    B = te.compute((3,), lambda i, factor=2.0: i.astype("float32") * factor)
    np.testing.assert_array_equal(evaluate(B, {})[0], [0, 2, 4])


def test_tensors_of_no_dimensions() -> None:
    A = te.placeholder((), name="A")
    B = te.compute((), lambda: A[()] * 2.0)
    np.testing.assert_array_equal(evaluate(B, {A: np.array(3, "float32")})[0], 6)


def test_dimensions_may_be_of_any_integer_dtype() -> None:
    n = te.size_var("n", "int64")
    A = te.compute((n,), lambda i: i)
    assert A.op.axis[0].var.dtype == "int64"
    assert A.dtype == "int64"


def test_post_order_lists_what_is_read_first() -> None:
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((3,), lambda i: A[i] + B[i], name="C")
    assert te.post_order([C]) == [A, B, C]
    chain = A
    for _ in range(3000):
        chain = te.compute((3,), lambda i, before=chain: before[i] + 1.0)
    assert len(te.post_order([chain])) == 3001


@pytest.mark.parametrize("reducer, wanted", [(te.max, -np.inf), (te.min, np.inf), (te.sum, 0), (te.prod, 1)])
def test_identities_are_identities(reducer: object, wanted: float) -> None:
    """A reduction over nothing gives the identity; -inf stays the maximum of nothing but -inf."""
    k = te.reduce_axis((0, 0), name="k")
    A = te.placeholder((0,), name="A")
    B = te.compute((), lambda: reducer(A[k], axis=k))  # type: ignore[operator]
    assert evaluate(B, {A: np.zeros(0, "float32")})[0] == wanted


def test_where_leaves_points_out() -> None:
    A = te.placeholder((5,), name="A")
    k = te.reduce_axis((0, 5), name="k")
    B = te.compute((), lambda: te.sum(A[k], axis=k, where=k.var > 2))
    assert evaluate(B, {A: np.arange(5, dtype="float32")})[0] == 7


def test_outputs_of_a_reducer_keep_their_order() -> None:
    A = te.placeholder((5,), name="A")
    k = te.reduce_axis((0, 5), name="k")
    both = te.comm_reducer(lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda a, b: (te.const(0, a), te.const(1, b)))
    total, product = te.compute((), lambda: both((A[k], A[k]), axis=k))
    assert [t.value_index for t in (total, product)] == [0, 1]
    data = np.arange(1, 6, dtype="float32")
    assert [float(x) for x in evaluate([total, product], {A: data})] == [15, 120]


def refuse(kind: type[Exception], pattern: str, make: object) -> None:
    with pytest.raises(kind, match=pattern):
        make()  # type: ignore[operator]


def test_errors_of_compute() -> None:
    A = te.placeholder((3, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    refuse(InputError, "another number of indices", lambda: te.compute((3, 4), lambda i: A[i, 0]))
    refuse(TypeMismatch, "whole body", lambda: te.compute((3,), lambda i: te.sum(A[i, k], axis=k) + 1.0))
    refuse(TypeMismatch, "all the values of one reducer",
           lambda: te.compute((3,), lambda i: (te.sum(A[i, k], axis=k), te.max(A[i, k], axis=k))))  # fmt: skip
    refuse(TypeMismatch, "all the values of one reducer",
           lambda: te.compute((3,), lambda i: (te.sum(A[i, k], axis=k), A[i, 0])))  # fmt: skip
    refuse(InputError, "not negative", lambda: te.placeholder((3, -1)))
    refuse(TypeMismatch, "an integer", lambda: te.placeholder((te.var("x", "float32"),)))
    refuse(InputError, "no value", lambda: te.compute((3,), lambda i: ()))
    refuse(InputError, "varargs_names", lambda: te.compute((3, 4), lambda *i: A[i], varargs_names=["a"]))


@pytest.mark.parametrize("different", ["", "axis", "where", "init", "expr"])
def test_all_values_are_those_of_one_reduction(different: str) -> None:
    A = te.placeholder((3, 4), name="A")
    k, l = (te.reduce_axis((0, 4), name=name) for name in "kl")
    both = te.comm_reducer(lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda a, b: (te.const(0, a), te.const(1, b)))
    usual: dict[str, Any] = {"axis": [k], "where": None, "init": None, "expr": k}
    others: dict[str, Any] = {"": None, "axis": [l], "where": k.var < 2, "init": (1.0, 2.0), "expr": 0}
    other = {**usual, different: others[different]}

    def values(i: Any) -> tuple[Any, Any]:
        reductions = [both((A[i, g["expr"]],) * 2, g["axis"], g["where"], g["init"]) for g in (usual, other)]
        return reductions[0][0], reductions[1][1]

    if different:
        refuse(TypeMismatch, "all the values of one reducer", lambda: te.compute((3,), values))
    else:
        assert len(te.compute((3,), values)) == 2


def test_errors_of_reducers() -> None:
    A = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 4), name="k")
    spatial = te.compute((4,), lambda i: A[i]).op.axis[0]
    refuse(InputError, "te.reduce_axis", lambda: te.sum(A[0], axis=spatial))
    refuse(InputError, "no axis", lambda: te.sum(A[0], axis=[]))
    refuse(InputError, "pair", lambda: te.reduce_axis(4))
    refuse(TypeMismatch, "`where` is a condition", lambda: te.sum(A[k], axis=k, where=k.var + 1))
    wrong = te.comm_reducer(lambda x, y: x > y, lambda t: te.const(0, t), "wrong")
    refuse(TypeMismatch, "wrong: reduces float32", lambda: wrong(A[k], axis=k))
    assert isinstance(te.sum(A[k], axis=k), Reduce)


def test_a_tensor_cannot_be_iterated() -> None:
    with pytest.raises(TypeMismatch, match="a tensor cannot be iterated: A"):
        list(te.placeholder((4,), name="A"))
