"""Products of float32 on tensor cores: by consent only, and the same on every level."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm import reference, te, topi
from minitvm.arith import Analyzer
from minitvm.codegen.decompose import TFLOAT32, decomposed
from minitvm.expr import call
from minitvm.graph import Graph
from minitvm.graph.builder import GraphBuilder
from minitvm.machines.cuda.tf32_products import tf32_products
from minitvm.reference.meaning.intrinsics import round_tf32
from minitvm.target import Target

CONSENT = Target("cuda -arch=sm_80 -allow_tf32=true")


def products() -> Graph:
    b = GraphBuilder()
    x, w = b.input("x", (1, 4, 5, 5)), b.input("w", (4, 4, 3, 3))
    depthwise = b.op("nn.conv2d", b.op("nn.conv2d", x, w), b.input("v", (4, 1, 3, 3)), groups=4)
    return b.build([b.op("nn.dense", b.op("reshape", depthwise, newshape=(1, 4)), b.input("d", (3, 4)))])


def roundings(graph: Graph) -> list[str]:
    return [item.attrs["out_dtype"] for item in graph.nodes if "out_dtype" in item.attrs]


def test_it_is_done_by_consent_where_there_are_such_tensor_cores() -> None:
    graph = products()
    assert roundings(tf32_products(graph, CONSENT)) == ["tfloat32", "", "tfloat32"]  # not a depthwise convolution
    for target in ("cuda -arch=sm_80", "cuda -arch=sm_75 -allow_tf32=true", "cpu", "opencl"):
        assert tf32_products(graph, Target(target)) is graph
    assert tf32_products(graph, CONSENT, accuracy="strict") is graph


@pytest.mark.parametrize("op", ["dense", "matmul", "conv2d"])
def test_graphs_and_tensor_expressions_round_alike(op: str, rng: np.random.Generator) -> None:
    """Operands of 12 bits, whose products and sums are exact once they have 11: every order of a sum is the same."""
    shapes = {"dense": ((3, 4), (5, 4)), "matmul": ((3, 4), (4, 5)), "conv2d": ((1, 2, 4, 4), (3, 2, 3, 3))}[op]
    arrays = [(rng.integers(2048, 4096, shape) / 64).astype("float32") for shape in shapes]
    b = GraphBuilder()
    inputs = [b.input(name, shape) for name, shape in zip("xw", shapes, strict=True)]
    graph = tf32_products(b.build([b.op(f"nn.{op}", *inputs)]), CONSENT)
    (found,) = reference.graph.run(graph, dict(zip("xw", arrays, strict=True)))
    tensors = [te.placeholder(shape, name=name) for name, shape in zip("xw", shapes, strict=True)]
    result = getattr(topi, op)(*tensors, out_dtype="tfloat32")
    assert result.dtype == "float32"
    (wanted,) = reference.te.evaluate([result], dict(zip(tensors, arrays, strict=True)))
    np.testing.assert_array_equal(found, wanted)
    (plain,) = reference.te.evaluate([getattr(topi, op)(*tensors)], dict(zip(tensors, arrays, strict=True)))
    assert not np.array_equal(plain, found)


def test_written_out_it_is_the_same() -> None:
    """Every kind of number; bits of NaN may differ."""
    bits = [sign | top for sign in (0, 1 << 31) for top in (0, 0xFFF, 0x1000, 0x3F801000, 0x7F7FF000, 0x7F800000)]
    values = np.array([*bits, 0x7FFFFFFF, 0x7FC00000], np.uint32).view(np.float32)
    x = te.placeholder(values.shape, name="x")
    own = te.compute(values.shape, lambda i: call("round_tf32", x[i]))
    plain = te.compute(values.shape, lambda i: decomposed(call("round_tf32", x[i]), (TFLOAT32,), Analyzer()))
    first, second = reference.te.evaluate([own, plain], {x: values})
    np.testing.assert_array_equal(first, second)


def test_rounding_is_to_the_nearest_and_ties_go_away_from_zero() -> None:
    one = np.float32(1)
    cases = {0x3F800FFF: 1.0, 0x3F801000: 1 + 2**-10, 0xBF801000: -1 - 2**-10, 0x00001000: 2**-136, 0x7F7FF000: np.inf}
    for bits, wanted in cases.items():
        assert round_tf32(np.uint32(bits).view(np.float32)) == np.float32(wanted)
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, one], np.float32)
    np.testing.assert_array_equal(round_tf32(values), values)


CHECKS = [test_it_is_done_by_consent_where_there_are_such_tensor_cores, test_written_out_it_is_the_same]
