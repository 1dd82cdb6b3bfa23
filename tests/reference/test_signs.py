"""Maxima, minima and selections are compared on inputs of one sign too: a wrong zero must not hide behind others."""

from __future__ import annotations

from typing import Any

import pytest

from minitvm import te
from minitvm.expr import Call, Node, const, replace, rewrite
from minitvm.reference import check
from minitvm.reference.judging.inputs.signs import looks_at_order, signs
from minitvm.reference.judging.programs import parameters
from minitvm.tir import Schedule
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform import lower


def _extreme(reducer: Any, dtype: str, product: bool) -> PrimFunc:
    a = te.placeholder((7, 5), dtype, name="A")
    b = te.placeholder((7, 5), dtype, name="B")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((7,), lambda i: reducer(a[i, k] * b[i, k] if product else a[i, k], axis=k), name="C")
    return te.create_prim_func([a, b, c] if product else [a, c])


def _padded_with_zero(func: PrimFunc) -> PrimFunc:
    """As TVM's pad_einsum does it: zeros, whatever the reduction."""
    sch = Schedule(func)
    sch.pad_einsum("C", [1, 4])

    def zero(node: Node) -> Node | None:
        if isinstance(node, Call) and node.op == "if_then_else":
            return replace(node, args=(node.args[0], node.args[1], const(0, node.dtype)))
        return None

    changed: PrimFunc = rewrite(sch.func, zero)
    return changed


@pytest.mark.alike("mode", "reducer")
@pytest.mark.parametrize("reducer", [te.max, te.min])
@pytest.mark.parametrize("mode", ["exact", "field"])
def test_a_wrong_zero_is_found_for_every_seed(mode: str, reducer: Any) -> None:
    func = _extreme(reducer, "float32", product=False)
    bad = _padded_with_zero(func)
    for seed in range(5):
        for after in (bad, lower(bad)):
            assert not check(func, after, modes=(mode,), seed=seed)
        right = Schedule(func)
        right.pad_einsum("C", [1, 4])
        assert check(func, right.func, modes=(mode,), seed=seed)


@pytest.mark.parametrize("reducer", [te.max, te.min])
def test_integers_have_a_sign_too(reducer: Any) -> None:
    func = _extreme(reducer, "int32", product=False)
    assert all(not check(func, _padded_with_zero(func), modes=("exact",), seed=seed) for seed in range(5))


def test_products_are_negative_in_turn() -> None:
    func = _extreme(te.max, "float32", product=True)
    text = func.script().replace('T.float32("-inf")', "T.float32(0)")
    from minitvm.script import from_source

    bad = from_source(text)
    assert all(not check(func, bad, modes=(mode,), seed=s) for mode in ("exact", "field") for s in range(5))


def test_only_programs_that_compare_are_asked() -> None:
    a = te.placeholder((4,), name="A")
    plain = te.compute((4,), lambda i: te.if_then_else(i < 2, a[i], 0.0), name="B")
    chosen = te.compute((4,), lambda i: te.if_then_else(a[i] < 2.0, a[i], 0.0), name="B")
    k = te.reduce_axis((0, 4), "k")
    most = te.compute((1,), lambda i: te.max(a[k], axis=k), name="M")
    after = te.compute((1,), lambda i: most[i] + 1.0, name="N")
    assert not looks_at_order([a, plain]) and not looks_at_order(te.create_prim_func([a, plain]))
    assert looks_at_order([a, chosen]) and looks_at_order(te.create_prim_func([a, chosen]))
    assert looks_at_order([a, after]) and looks_at_order(lower(te.create_prim_func([a, after])))


def test_signs_skip_what_has_none() -> None:
    a, b = te.placeholder((2,), "uint8", name="A"), te.placeholder((2,), name="B")
    out = te.compute((2,), lambda i: b[i] + a[i].astype("float32"), name="C")
    assert list(signs(parameters([a, b, out]))) == [[0, -1, 0], [0, 1, 0]]
