"""What one statement computes many times is computed once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import minitvm as tvm
from minitvm.expr import Call, walk
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import check
from minitvm.reference import graph as interpreter
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform import lower
from minitvm.tir.transform.share_values import share_values
from tests.fewer import examples
from tests.mutants.structures import repeated


@given(func=st.composite(repeated)())
@examples(4, 12)
def test_named_values_are_the_values(func: PrimFunc) -> None:
    assert check(func, lower(func, None, "main"))


def quantised_gelu(units: int) -> Graph:
    """GELU with a quantisation behind each step: each of these reads what is in front of it two times.

    Scales are those of channels, so that the steps are no function of a byte, which a table would hold.
    """
    b = GraphBuilder("gelu")
    x = b.input("x", (2, units))
    scale = b.constant(np.linspace(0.02, 0.03, units, dtype="float32"), "scale")

    def rounded(value: tvm.graph.Value) -> tvm.graph.Value:
        return b.op("qnn.dequantize", b.op("qnn.quantize", value, scale, axis=1, out_dtype="int8"), scale, axis=1)

    half = rounded(x)
    whole = rounded(b.op("add", rounded(b.op("erf", rounded(b.op("divide", half, 1.4142135)))), 1.0))
    return b.build(rounded(b.op("multiply", rounded(b.op("multiply", half, whole)), 0.5)))


def test_a_chain_that_reads_twice_stays_short() -> None:
    graph = quantised_gelu(16)
    (module,) = tvm.lower(graph, stop_at="kernel").values()
    calls = [n.op for func in module.functions.values() for n in walk(func.body) if isinstance(n, Call)]
    assert calls.count("nearbyint") <= 6  # one of each quantisation; written out they are 2 + 4 + 8 + ...
    assert calls.count("erf") == 1
    x = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    # "strict" keeps the divisions, so that halves between two integers are rounded alike.
    np.testing.assert_array_equal(tvm.build(graph, threads=1, accuracy="strict")(x), interpreter.run(graph, [x])[0])


def test_what_is_short_is_left_alone() -> None:
    b = GraphBuilder("square")
    x = b.input("x", (8,))
    func = tvm.lower(b.build(b.op("multiply", x, x)), stop_at="tir")["multiply"]
    assert share_values(func) is func or share_values(func).body is func.body
