"""Einstein summations of several operands become products of pairs, and mean the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.graph.passes.split_einsum import split_einsum
from minitvm.reference import graph as interpreter
from tests.fewer import examples

from ..graphs import by_te


def summation(equation: str, *shapes: tuple[object, ...], dtype: str = "float32") -> Graph:
    b = GraphBuilder()
    operands = [b.input(f"x{number}", shape, dtype) for number, shape in enumerate(shapes)]
    return b.build(b.op("einsum", *operands, name="y", equation=equation))


@st.composite
def summations(draw: st.DrawFn) -> Graph:
    """Two to five operands, labels that repeat in one, extents of 1 that are stretched; the result may be a number."""
    extents = {label: draw(st.sampled_from([1, 2, 3, 12])) for label in "ijkl"}
    terms = [draw(st.text("ijkl", max_size=3)) for _ in range(draw(st.integers(2, 5)))]
    labels = sorted(set("".join(terms)))
    output = draw(st.permutations(labels))[: draw(st.integers(0, len(labels)))]
    shapes = []
    for term in terms:
        own = {label: draw(st.sampled_from([extents[label], extents[label], 1])) for label in term}
        shapes.append(tuple(own[label] for label in term))
    return summation(f"{','.join(terms)}->{''.join(output)}", *shapes, dtype="int32")


def mean_the_same(graph: Graph) -> None:
    after = split_einsum(graph)
    verify_graph(after)
    assert [(v.name, v.type) for v in after.outputs] == [(v.name, v.type) for v in graph.outputs]
    rng = np.random.default_rng(0)
    inputs = {v.name: rng.integers(-3, 4, v.shape).astype(v.dtype.numpy) for v in graph.inputs}
    (found,), (right,) = interpreter.run(after, inputs), interpreter.run(graph, inputs)
    np.testing.assert_array_equal(found, right)


@given(graph=summations())
@examples(150, 1000)
def test_products_of_pairs_mean_the_same(graph: Graph) -> None:
    mean_the_same(graph)


def pairs(graph: Graph) -> list[str]:
    return [item.attrs["equation"] for item in split_einsum(graph).nodes]


def test_the_order_takes_the_least_work() -> None:
    assert pairs(summation("ij,jk,kl->il", (9, 2), (2, 9), (9, 9))) == ["jk,kl->jl", "ij,jl->il"]
    assert pairs(summation("ij,jk,kl->il", (2, 9), (9, 2), (2, 9))) == ["ij,jk->ik", "ik,kl->il"]
    assert pairs(summation("bi,oij,bj->bo", (32, 64), (16, 64, 64), (32, 64))) == ["oij,bj->oib", "bi,oib->bo"]


def test_labels_of_one_operand_are_summed_first() -> None:
    assert pairs(summation("ij,jk->i", (9, 8), (8, 9))) == ["jk->j", "ij,j->i"]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ij,jk->ik", ((9, 8), (8, 7))), ("ij,ij,ij->ij", ((9, 8),) * 3), ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5)))],
)
def test_what_pairs_would_not_shorten_stays(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert pairs(summation(equation, *shapes)) == [equation]


def test_narrow_floats_are_rounded_once() -> None:
    assert len(pairs(summation("ij,jk,kl->il", (9, 9), (9, 9), (9, 9), dtype="float16"))) == 1


def test_open_extents_count_as_long_ones() -> None:
    n = SizeVar("n")
    graph = summation("ni,ij,mj->nm", (n, 4), (4, 6), (5, 6))
    after = split_einsum(graph)
    assert [item.attrs["equation"] for item in after.nodes] == ["ij,mj->im", "ni,im->nm"]
    rng = np.random.default_rng(0)
    inputs = {"x0": rng.random((3, 4)), "x1": rng.random((4, 6)), "x2": rng.random((5, 6))}
    inputs = {name: array.astype("float32") for name, array in inputs.items()}
    for run in (interpreter.run, by_te):
        np.testing.assert_allclose(run(after, inputs)[0], run(graph, inputs)[0], rtol=1e-5)
