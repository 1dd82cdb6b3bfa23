"""Products with weights in blocks: which tile is used for which number of rows."""

from __future__ import annotations

import pytest

import minitvm
from minitvm import strategy, te
from minitvm.expr import SizeVar
from minitvm.graph import GraphBuilder
from minitvm.machines.simd.topi.byte_products import dense_of_blocks
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc

CPU = Target("cpu -arch=znver4")


def product(rows: int | SizeVar, columns: int = 1536, blocks: int = 18, lanes: int = 16) -> PrimFunc:
    data, weight = te.placeholder((rows, blocks, 8), "int32"), (columns // lanes, blocks, 4, lanes)
    scale = te.placeholder((rows, blocks), "float32")
    shift, words = te.placeholder((rows, blocks), "int32"), te.placeholder(weight, "int32")
    scales = te.placeholder((*weight[:2], lanes), "float16")
    result = dense_of_blocks(data, scale, shift, words, scales)
    return te.create_prim_func([data, scale, shift, words, scales, result])


@pytest.mark.parametrize("rows", [64, 256, 1024])
def test_many_rows_are_computed_like_an_open_number_of_rows(rows: int) -> None:
    # With many rows, the result is larger than the weights: its shape must not be taken for that of the weights.
    known, unknown = (strategy.candidates(product(n), CPU)[0] for n in (rows, SizeVar("n", "int64")))
    assert known.rule == "block_weights"
    assert known.knobs == unknown.knobs
    assert known.knobs["rows"] > 1


def test_a_sum_of_words_begins_with_the_shift_of_its_block() -> None:
    """Adding the shift at the end would be another operation for each row and block."""
    b = GraphBuilder()
    data, scale, shift = (
        b.input("data", (8, 2, 8), "int32"),
        b.input("scale", (8, 2)),
        b.input("shift", (8, 2), "int32"),
    )
    weight, scales = b.input("weight", (2, 2, 4, 16), "int32"), b.input("scales", (2, 2, 16), "float16")
    graph = b.build(b.op("qnn.contrib_dense_of_blocks", data, scale, shift, weight, scales))
    (kernel,) = minitvm.lower(graph, CPU, "executable").kernels
    assert "dot4_add" in kernel.source
    assert "dot4_u8i8" not in kernel.source
