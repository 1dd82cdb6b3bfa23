"""The oracle on products of words of bfloat16: its inputs are ordinary ones, and each mode says what it can."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minitvm import reference, te, tir
from minitvm.expr import call, const
from minitvm.reference.domains import bound
from minitvm.reference.domains.bound_numbers import error_of, exact, format_of
from minitvm.reference.judging.inputs.special import special_inputs
from minitvm.reference.judging.inputs.words import places_of_words
from minitvm.script import from_source


def product(m: int = 3, n: int = 4, k: int = 8) -> tir.PrimFunc:
    """C = A times the transpose of B, both words."""
    a, b = te.placeholder((m, k), dtype="int32", name="A"), te.placeholder((n, k), dtype="int32", name="B")
    r = te.reduce_axis((0, k), name="r")

    def element(i: Any, j: Any) -> Any:
        return te.sum(call("dot2_bf16", const(0.0, "float32"), a[i, r], b[j, r]), axis=r)

    return te.create_prim_func([a, b, te.compute((m, n), element, name="C")])


def edited(old: str, new: str) -> tir.PrimFunc:
    text = product().script()
    assert old in text
    func: Any = from_source(text.replace(old, new))
    return func


def test_inputs_are_ordinary_bfloat16() -> None:
    func = product()
    assert places_of_words(func) == {0, 1}
    a, b, _ = reference.random_inputs(func, 0)
    halves = np.concatenate([a, b]).view(ml_dtypes.bfloat16).astype("float32")
    assert 0.8 < halves.std() < 1.2 and np.isfinite(halves).all()
    a, *_ = reference.random_inputs(func, 0, magnitude=4)
    whole = a.view(ml_dtypes.bfloat16).astype("float32")
    assert set(np.unique(whole)) == {-4, -3, -2, -1, 0, 1, 2, 3, 4}


def test_words_are_found_behind_buffers() -> None:
    sch = tir.Schedule(product())
    sch.cache_read("C", 0, "local")
    assert places_of_words(sch.func) == {0, 1}


def test_bytes_are_no_words_of_bfloat16() -> None:
    func = edited("T.dot2_bf16(T.float32(0.0), A[v_i, v_r], B[v_j, v_r])",
                  "T.Cast(\"float32\", T.dot4_u8i8(A[v_i, v_r], B[v_j, v_r]))")  # fmt: skip
    assert places_of_words(func) == set()


def test_special_values_are_planted_in_both_halves() -> None:
    planted = [special_inputs(product(), 0, {}, turn=turn)[0] for turn in range(8)]
    halves = np.stack([p.view(ml_dtypes.bfloat16).reshape(-1, 2).astype("float32") for p in planted])
    for place in (0, 1):
        part = halves[..., place]
        assert np.isnan(part).any() and np.isinf(part).any()
        assert ((np.abs(part) < np.finfo(np.float32).tiny) & (part != 0)).any()


def test_another_order_is_equal_in_every_mode_that_allows_it() -> None:
    sch = tir.Schedule(product())
    *_, r = sch.get_loops("C")
    _, inner = sch.split(r, factors=[None, 4])
    sch.rfactor(inner, factor_axis=2)
    for mode in ("exact", "field", "bound", "shadow"):
        verdict = reference.check(product(), sch.func, modes=(mode,))
        assert verdict and str(verdict) == f"equal ({mode})"


def test_the_same_program_has_the_same_bits_on_special_values() -> None:
    sch = tir.Schedule(product())
    sch.reorder(*reversed(sch.get_loops("C")[:2]))
    assert str(reference.check(product(), sch.func, modes=("special", "order"))) == "equal (special, order)"


@pytest.mark.parametrize("mode", ["exact", "field", "bound", "special"])
def test_another_word_is_noticed(mode: str) -> None:
    verdict = reference.check(product(), edited("B[v_j, v_r])", "A[v_i, v_r])"), modes=(mode,))
    assert not verdict and verdict.mode == mode


@pytest.mark.parametrize("mode", ["exact", "field", "bound"])
def test_another_sum_is_noticed(mode: str) -> None:
    verdict = reference.check(product(), edited("dot2_bf16(T.float32(0.0)", "dot2_bf16(T.float32(1.0)"), modes=(mode,))
    assert not verdict and verdict.mode == mode


def test_bits_that_are_looked_at_are_refused_by_the_field() -> None:
    """A word that is made of a float in the program is the bits of an element, which a field does not have."""
    func: Any = from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = T.dot2_bf16(A[vi], T.reinterpret("int32", A[vi]), B[vi])
""")
    verdict = reference.check(func, func, modes=("field", "special"))
    assert "field did not run" in str(verdict) and verdict


def test_what_is_flushed_is_within_the_bound() -> None:
    """Sums below the normal numbers may be zeros, and no more than that."""
    f = format_of(const(0.0, "float32").dtype)
    from minitvm.reference.domains import bound_functions

    tiny = np.array([2.0**-70, 2.0**-60], ml_dtypes.bfloat16).view(np.int32)[0]
    cell = bound_functions.apply("dot2_bf16", [exact(np.float32(0)), tiny, tiny], f)
    assert 0 < error_of(cell, f) <= 4 * 2.0**-126
    one = np.array([1.0, 2.0], ml_dtypes.bfloat16).view(np.int32)[0]
    cell = bound_functions.apply("dot2_bf16", [exact(np.float32(3)), one, one], f)
    assert cell["value"] == 8 and error_of(cell, f) < 1e-5


def test_bound_mode_allows_the_instruction_the_whole_sum() -> None:
    func = product()
    inputs = reference.random_inputs(func, 3)
    results = [np.array(a) for a in inputs]
    for i in range(3):
        for j in range(4):
            total = np.float32(0)
            for k in range(8):
                total = np.float32(reference.meaning.intrinsics.dot2_bf16(total, inputs[0][i, k], inputs[1][j, k]))
            results[2][i, j] = total
    assert bound.compare(func, inputs, results)
    results[2][0, 0] += np.float32(1e-3)
    assert not bound.compare(func, inputs, results)
